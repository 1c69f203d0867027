package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/pay"
)

// initKey is the key that init made, or found.
type initKey struct {
	id      string
	address string // empty without a wallet provider
	network string
	secret  string // path of the file with the secret; empty when a running purser keeps it
	running string // address of the admin endpoint of the purser that was asked; empty: none runs
	dir     string // data directory; empty when a running purser has it
}

// firstKey makes the key of `purser exec` with its wallet: through the admin endpoint of a
// purser that runs, else in the database itself. What is there already stays.
func firstKey(ctx context.Context, admin string) (initKey, error) {
	if admin == "" && os.Getenv(adminVariable) == off {
		return offlineKey(ctx)
	}
	client, err := newAdminClient(admin)
	if err != nil {
		return initKey{}, err
	}
	var made execAnswer
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
	payer, err := pay.New(pay.Options{Store: store, Wallets: wallets, Networks: a.settings.networks, Plans: a.settings.plans})
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, payer.Close(ctx)) }()
	key, _, err := a.ensureExecKey(ctx, payer)
	if err != nil {
		return k, err
	}
	wallet, err := a.ensureWallet(ctx, payer, key)
	if err != nil {
		return k, err
	}
	k = initKey{id: key.ID, network: wallet.Network, secret: a.execPath(), dir: a.settings.dataDir}
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

// portTaken reports whether a program listens on an address already.
func portTaken(ctx context.Context, address string) bool {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = l.Close()
	return false
}

// next says what there is now, and what to do with it. listen is where purser is to listen.
func (k initKey) next(ctx context.Context, listen string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMade %s and %s, and a key that pays through the proxy only:\n\n    %s\n", initCaddyfile, initEnvFile, label(k.id))
	if k.secret != "" {
		fmt.Fprintf(&b, "    kept in %s, beside the database and its master key\n", shortPath(k.secret))
	}
	if k.address == "" {
		b.WriteString("\nIts wallet has no address, so it cannot pay: set PURSER_WALLETS to something else than none.\n")
	} else {
		fmt.Fprintf(&b, "\nSend USDC on %s to its wallet. Nothing else is needed there, no ETH:\n\n    %s\n", label(k.network), label(k.address))
	}
	if k.running == "" {
		fmt.Fprintf(&b, "\nStart purser in this folder:\n\n    purser run --envfile %s\n", initEnvFile)
	} else {
		fmt.Fprintf(&b, "\nThe purser that runs (%s) has the key. The files are for one that starts in this folder.\n", k.running)
	}
	b.WriteString("\nThen, in another terminal, in this folder:\n\n" +
		"    purser exec -- curl -i https://api.example.com/paid\n" +
		"    purser wallets\n" +
		"    purser spend\n")
	if k.running == "" && portTaken(ctx, listen) {
		fmt.Fprintf(&b, "\nSomething listens on %s already: stop it first, or say another address with --listen and --force.\n", listen)
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
