package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// Namespaces of guest modules.
const (
	storeNamespace       = "purser.stores"
	walletsNamespace     = "purser.wallets"
	facilitatorNamespace = "purser.facilitators"
)

// guestOption is an option that chooses a guest.
type guestOption struct {
	setting.Option
	namespace string
}

var (
	storeOption       = guestOption{setting.New("store", "PURSER_STORE", "bolt"), storeNamespace}
	walletsOption     = guestOption{setting.New("wallets", "PURSER_WALLETS", "local"), walletsNamespace}
	facilitatorOption = guestOption{setting.New("facilitator", "PURSER_FACILITATOR", "http"), facilitatorNamespace}
)

// StoreModule is a guest module in purser.stores: it opens the database.
type StoreModule interface {
	caddy.Module
	// Place names the database. Configurations with the same place share one open store
	// while one replaces the other; a file's place is its absolute path. It may create
	// folders and is not called by `validate`.
	Place(dataDir string) (string, error)
	// Settings names the options that must be equal for an open store to be shared. It holds no
	// secrets.
	Settings() string
	// Open opens or creates the database at the place.
	Open(ctx context.Context, place string, o StoreOptions) (Store, error)
}

// StoreOptions holds what the app gives to a store.
type StoreOptions struct {
	// MasterKey wraps the store's secrets.
	MasterKey vault.Source
	// World is "" or "sandbox", see boltstore.Options.
	World string
	// Dir is the data directory of this node.
	Dir string
	// Once: the store need not wait for a database that is starting, because it is opened again later.
	Once   bool
	Logger *slog.Logger
}

// Store is an open database.
type Store interface {
	pay.Store
	io.Closer
}

// WalletsModule is a guest module in purser.wallets: it makes wallets and signs with them.
type WalletsModule interface {
	caddy.Module
	// Wallets returns the provider. book keeps the key material of providers that want it kept.
	Wallets(book pay.WalletBook, log *slog.Logger) (pay.Wallets, error)
}

// FacilitatorModule is a guest module in purser.facilitators.
type FacilitatorModule interface {
	caddy.Module
	// Facilitator returns the client, or nil when none is configured. A client with a method
	// Close() is closed when its configuration is gone.
	Facilitator(log *slog.Logger) (pay.Facilitator, error)
}

// loadGuest loads the guest that the app's field raw configures, else the one that o names.
func loadGuest[M any](ctx caddy.Context, a *App, field string, raw json.RawMessage, o guestOption, into *M) error {
	name, err := o.Value("")
	if raw != nil {
		var inline struct {
			Module string `json:"module"`
		}
		err = json.Unmarshal(raw, &inline)
		name = inline.Module
	}
	if err := cmp.Or(err, o.check(name)); err != nil {
		return err
	}
	var loaded any
	if raw == nil {
		loaded, err = ctx.LoadModuleByID(o.namespace+"."+name, nil)
	} else {
		loaded, err = ctx.LoadModule(a, field)
	}
	if err != nil {
		return err
	}
	guest, ok := loaded.(M)
	if !ok {
		return o.Errorf("%T cannot be used as one", loaded)
	}
	*into = guest
	return nil
}

// check names the guests that exist if there is none with this name.
func (o guestOption) check(name string) error {
	known := []string{}
	for _, m := range caddy.GetModules(o.namespace) {
		if m.ID.Name() == name {
			return nil
		}
		known = append(known, m.ID.Name())
	}
	return o.Errorf("there is no module %q, only: %s", name, strings.Join(known, ", "))
}

// parse reads the name of a guest, with an optional block for the guest. No name is the default if the
// option's own variable is set to nothing, as the shipped Caddyfile has it in that place.
func (o guestOption) parse(d *caddyfile.Dispenser, raw *json.RawMessage) error {
	if *raw != nil {
		return options.ErrTwice
	}
	if !d.NextArg() || d.Val() == "" {
		if v, set := os.LookupEnv(o.Variable); set && v == "" {
			return nil
		}
		return d.Errf("%s: which module?", o.Name)
	}
	name := d.Val()
	if err := o.check(name); err != nil {
		return d.WrapErr(err)
	}
	guest, err := caddyfile.UnmarshalModule(d, o.namespace+"."+name)
	if err != nil {
		return err
	}
	*raw = caddyconfig.JSONModuleObject(guest, "module", name, nil)
	return nil
}
