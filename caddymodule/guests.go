package caddymodule

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// Namespaces of guest modules.
const (
	storeNamespace       = "purser.stores"
	walletsNamespace     = "purser.wallets"
	facilitatorNamespace = "purser.facilitators"
)

// guestOptions are the options that choose guests.
var guestOptions = map[string]option{
	storeNamespace:       {name: "store", variable: "PURSER_STORE"},
	walletsNamespace:     {name: "wallets", variable: "PURSER_WALLETS"},
	facilitatorNamespace: {name: "facilitator", variable: "PURSER_FACILITATOR"},
}

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
	World  string
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

// guestName is the name of a configured guest.
func guestName(raw json.RawMessage) (string, error) {
	var inline struct {
		Module string `json:"module"`
	}
	err := json.Unmarshal(raw, &inline)
	return inline.Module, err
}

// loadGuest loads a guest: the configured one, else the one that its variable or unset names.
func loadGuest[M any](ctx caddy.Context, a *App, field string, raw json.RawMessage, namespace, unset string) (guest M, err error) {
	var name string
	if raw == nil {
		name, err = guestOptions[namespace].or("", unset)
	} else {
		name, err = guestName(raw)
	}
	if err != nil {
		return guest, err
	}
	if err := checkGuest(namespace, name); err != nil {
		return guest, err
	}
	var loaded any
	if raw == nil {
		loaded, err = ctx.LoadModuleByID(namespace+"."+name, nil)
	} else {
		loaded, err = ctx.LoadModule(a, field)
	}
	if err != nil {
		return guest, err
	}
	guest, ok := loaded.(M)
	if !ok {
		return guest, guestOptions[namespace].errorf("%T cannot be used as one", loaded)
	}
	return guest, nil
}

// checkGuest says which guests exist when there is none with this name.
func checkGuest(namespace, name string) error {
	known := []string{}
	for _, m := range caddy.GetModules(namespace) {
		if m.ID.Name() == name {
			return nil
		}
		known = append(known, m.ID.Name())
	}
	return guestOptions[namespace].errorf("there is no module %q, only: %s", name, strings.Join(known, ", "))
}

// parseGuest reads an option that names a guest, with an optional block for the guest. No
// name, as when a variable in its place is empty, is the default.
func parseGuest(d *caddyfile.Dispenser, namespace string, raw *json.RawMessage) error {
	option := d.Val()
	if *raw != nil {
		return d.Errf("%s is set twice", option)
	}
	if !d.NextArg() || d.Val() == "" {
		return nil
	}
	name := d.Val()
	if err := checkGuest(namespace, name); err != nil {
		return d.WrapErr(err)
	}
	guest, err := caddyfile.UnmarshalModule(d, namespace+"."+name)
	if err != nil {
		return err
	}
	*raw = caddyconfig.JSONModuleObject(guest, "module", name, nil)
	return nil
}

// parseOptions reads a block of options with one argument each.
func parseOptions(d *caddyfile.Dispenser, options map[string]*string) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		into, known := options[d.Val()]
		if !known {
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
		if err := parseOption(d, into); err != nil {
			return err
		}
	}
	return nil
}

// parseOption reads the one argument of an option.
func parseOption(d *caddyfile.Dispenser, into *string) error {
	if *into != "" {
		return d.Errf("%s is set twice", d.Val())
	}
	if !d.AllArgs(into) {
		return d.ArgErr()
	}
	return nil
}
