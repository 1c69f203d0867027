package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
)

// offlineTime bounds the work in a database that no purser has open.
const offlineTime = 30 * time.Second

// offlineKey makes the key in the database that the environment names.
func offlineKey(parent context.Context) (k cli.FirstKey, err error) {
	ctx, cancel := context.WithTimeout(parent, offlineTime)
	defer cancel()
	a := new(App)
	var done context.CancelFunc
	a.ctx, done = caddy.NewContext(caddy.Context{Context: ctx})
	defer done()
	a.log = slog.New(slog.DiscardHandler)
	if err := environment.CheckStructural(); err != nil {
		return k, err
	}
	if a.settings, err = a.resolve(); err != nil {
		return k, err
	}
	if err := a.loadGuests(a.ctx); err != nil {
		return k, err
	}
	if err := os.MkdirAll(a.settings.dataDir, dataDirMode); err != nil {
		return k, dataDirOption.Errorf("%w", err)
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
	_, missing := keys.FindExec(ctx)
	made, err := keys.Exec(ctx)
	if err != nil {
		return k, err
	}
	if made.Key.Revoked() {
		return k, fmt.Errorf("the exec key %s is revoked: start purser, and 'purser keys create --exec' makes another one", made.Key.ID)
	}
	wallet := made.Wallet
	k = cli.FirstKey{ID: made.Key.ID, Network: wallet.Network, Dir: a.settings.dataDir, Old: missing == nil}
	path := filepath.Join(k.Dir, masterKeyName)
	if _, err := os.Lstat(path); err == nil {
		k.Master = path
	}
	if wallet.Address != nil {
		k.Address = wallet.Address.String()
	}
	return k, nil
}
