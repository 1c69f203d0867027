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
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/cli"
)

// registerCommands adds purser's commands to Caddy's.
func registerCommands() {
	tree := plantTree()
	commands := line.Commands()
	for i, command := range commands {
		setup := func(c *cobra.Command) {
			command.Setup(c)
			exits(c)
		}
		switch i {
		case 0:
			setup = tree.starts(setup)
		case len(commands) - 1:
			setup = tree.ends(setup)
		}
		caddycmd.RegisterCommand(caddycmd.Command{
			Name: command.Name, Usage: command.Usage, Short: command.Short, Long: command.Long, CobraFunc: setup,
		})
	}
}

// exits makes the process end with the status that a command or one of its own commands returns.
func exits(c *cobra.Command) {
	status := func(c *cobra.Command, err error) error {
		exit, is := errors.AsType[*cli.Exit](err)
		if !is || exit.Status == 1 {
			return err // the process exits with 1
		}
		// Caddy's program knows no other error with a status than the one that this makes.
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exit.Status, nil })(c, nil)
	}
	run, wrong, valid := c.RunE, c.FlagErrorFunc(), c.Args
	c.RunE = func(c *cobra.Command, args []string) error { return status(c, run(c, args)) }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return status(c, wrong(c, err)) })
	c.Args = func(c *cobra.Command, args []string) error { return status(c, valid(c, args)) }
	for _, sub := range c.Commands() {
		exits(sub)
	}
}

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
