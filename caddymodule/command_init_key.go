package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/x402"
)

// initKey is the key that init made, or found.
type initKey struct {
	id      string
	address string // empty without a wallet provider
	network string
	secret  string // path of the file with the secret; empty when a running purser keeps it
	running string // address of the admin endpoint of the purser that was asked; empty: none runs
	dir     string // data directory; empty when a running purser has it
	master  string // path of the generated master key; empty when it comes from elsewhere
	old     bool   // it was there before
}

// firstKey makes the key of `purser exec` with its wallet: through the admin endpoint of a
// purser that runs, else in the database itself. What is there already stays.
func firstKey(ctx context.Context, admin string) (initKey, error) {
	if admin == "" && os.Getenv(adminapi.AddressVariable) == off {
		return offlineKey(ctx)
	}
	client, err := newAdminClient(admin)
	if err != nil {
		return initKey{}, err
	}
	var made adminapi.Exec
	err = client.call(ctx, http.MethodPost, "/purser/exec", struct{}{}, &made)
	// One that was named on the command line is meant to run.
	if admin == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return offlineKey(ctx)
	}
	if err != nil {
		return initKey{}, err
	}
	k := initKey{id: made.KeyID, network: made.Network, running: client.address}
	if made.Address != nil {
		k.address = *made.Address
	}
	return k, nil
}

// offlineTime bounds the work in a database that no purser has open.
const offlineTime = 30 * time.Second

// offlineKey makes the key in the database that the environment names.
func offlineKey(parent context.Context) (k initKey, err error) {
	ctx, cancel := context.WithTimeout(parent, offlineTime)
	defer cancel()
	a := new(App)
	var done context.CancelFunc
	a.ctx, done = caddy.NewContext(caddy.Context{Context: ctx})
	defer done()
	a.log = slog.New(slog.DiscardHandler)
	if err := checkEnvironment(); err != nil {
		return k, err
	}
	if a.settings, err = a.resolve(); err != nil {
		return k, err
	}
	if err := a.loadGuests(a.ctx); err != nil {
		return k, err
	}
	if err := os.MkdirAll(a.settings.dataDir, dataDirMode); err != nil {
		return k, dataDirOption.errorf("%w", err)
	}
	place, err := a.store.Place(a.settings.dataDir)
	if err != nil {
		return k, fmt.Errorf("purser: store: %w", err)
	}
	store, err := a.store.Open(ctx, place, StoreOptions{MasterKey: a.settings.masterKey, Logger: a.log})
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	wallets, err := a.wallets.Wallets(store, a.log)
	if err != nil {
		return k, fmt.Errorf("purser: wallets: %w", err)
	}
	kept, err := books.New(books.Options{Store: store, Wallets: wallets, Networks: a.settings.networks, Plans: a.settings.plans})
	if err != nil {
		return k, err
	}
	keys := a.keys(kept)
	_, missing := os.Lstat(keys.ExecPath())
	key, _, err := keys.Exec(ctx)
	if err != nil {
		return k, err
	}
	if key.Revoked() {
		return k, fmt.Errorf("the exec key %s is revoked: remove %s to have another one, with a wallet of its own", key.ID, keys.ExecPath())
	}
	wallet, err := keys.Wallet(ctx, key)
	if err != nil {
		return k, err
	}
	k = initKey{id: key.ID, network: wallet.Network, secret: keys.ExecPath(), dir: a.settings.dataDir, old: missing == nil}
	if path := filepath.Join(k.dir, masterKeyName); exists(path) {
		k.master = path
	}
	if wallet.Address != nil {
		k.address = wallet.Address.String()
	}
	return k, nil
}

// othersCan reports whether a directory is anybody's but its owner's.
func othersCan(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// next says what there is now, and what to do with it.
func (k initKey) next(ctx context.Context, told initAnswers) string {
	var b strings.Builder
	if k.old {
		fmt.Fprintf(&b, "\nWrote %s and %s. The key that was here stays, with its wallet and the books:\n\n    %s\n", initCaddyfile, initEnvFile, label(k.id))
	} else {
		fmt.Fprintf(&b, "\nMade %s and %s, and a key that pays through the proxy only:\n\n    %s\n", initCaddyfile, initEnvFile, label(k.id))
	}
	if k.secret != "" {
		fmt.Fprintf(&b, "    kept in %s, beside the database and its master key\n", shortPath(k.secret))
	}
	k.writeKeep(&b)
	paid := "https://api.example.com/paid"
	faucet, sandbox := sandboxFaucet(ctx, cmp.Or(told["rpc"], os.Getenv(rpcURLOption.variable)))
	if faucet != "" {
		paid = strings.TrimSuffix(faucet, "/faucet") + "/weather"
	}
	k.writeFund(&b, faucet, sandbox)
	if k.running == "" {
		fmt.Fprintf(&b, "\nStart purser in this folder:\n\n    purser run --envfile %s\n", initEnvFile)
	} else {
		fmt.Fprintf(&b, "\nThe purser that runs (%s) has the key. If it is this folder's, restart it to use the files;\n"+
			"`purser reload` takes the %s, without %s.\n", k.running, initCaddyfile, initEnvFile)
	}
	b.WriteString("\nThen, in another terminal, in this folder:\n\n" +
		"    purser status\n" +
		"    purser exec -- curl -i " + paid + "\n" +
		"    purser wallets\n" +
		"    purser spend\n\n" +
		"The dashboard shows the same to people who sign in; /dashboard says what it needs for that.\n")
	if k.running == "" {
		for _, warning := range portsInUse(ctx, told["listen"]) {
			fmt.Fprintf(&b, "\n%s\n", warning)
		}
	}
	if k.dir != "" && othersCan(k.dir) {
		fmt.Fprintf(&b, "\nOther users can get into %[1]s, where the master key is: chmod 700 %[1]s\n", shortPath(k.dir))
	}
	for _, name := range []string{dataDirOption.variable, masterKeyOption.variable, masterKeyOption.variable + "_FILE"} {
		if os.Getenv(name) != "" && k.running == "" {
			fmt.Fprintf(&b, "\n%s is set here: 'purser run' needs it too.\n", name)
		}
	}
	return b.String()
}

// writeKeep says what must not get lost, nor about.
func (k initKey) writeKeep(b *strings.Builder) {
	if k.master != "" {
		fmt.Fprintf(b, "\nBack up %s now, somewhere else: without it the wallet is lost.\n", shortPath(k.master))
	}
	if k.dir != "" {
		fmt.Fprintf(b, "Keep this folder out of version control.\n")
	}
}

// writeFund says where money is to be sent.
func (k initKey) writeFund(b *strings.Builder, faucet string, sandbox bool) {
	if k.address == "" {
		b.WriteString("\nIts wallet has no address, so it cannot pay: set PURSER_WALLETS to something else than none.\n")
		return
	}
	switch network := k.network; {
	case faucet != "":
		fmt.Fprintf(b, "\nThe RPC is the sandbox's. Play money for the wallet (never send real money there):\n\n    curl -X POST %s -d address=%s\n", faucet, label(k.address))
	case sandbox:
		fmt.Fprintf(b, "\nThe RPC is the sandbox's: the wallet is for play money only (POST /faucet of its paid API). Never send real money there:\n\n    %s\n", label(k.address))
	default:
		if n, known := x402.NetworkByWire(network); known {
			network = networkTitle(n)
		}
		fmt.Fprintf(b, "\nSend USDC on %s to its wallet. Nothing else is needed there, no ETH:\n\n    %s\n", label(network), label(k.address))
	}
}

// shortPath is a path seen from this folder, if it is below it.
func shortPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}
