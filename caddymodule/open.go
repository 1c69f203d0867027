package caddymodule

// No Caddy here: it makes the core from the options of the app and from its guest modules.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/leases"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
)

// running is an app with its store open.
type running struct {
	home   *pooled
	tenant *tenant
	// released is guarded by App.mu.
	released bool
}

// enter counts a request in, opening the store if need be: Caddy starts apps in random
// order, so a server may be listening before the app has started. The caller must call
// leave of the tenant.
func (a *App) enter() (*tenant, error) {
	run := a.live.Load()
	if run == nil {
		if a.outage.Load() != nil && a.live.Load() == nil {
			return nil, errNoStore
		}
		var err error
		run, err = a.open(a.ctx)
		if _, is := errors.AsType[*storeError](err); is && a.settings.degrades {
			return nil, errNoStore // the start says it to the log
		} else if err != nil {
			return nil, err
		}
	}
	return run.tenant, run.tenant.enter()
}

// open opens the store and everything that uses it, once.
func (a *App) open(ctx context.Context) (*running, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.live.Load(); run != nil {
		return run, nil
	}
	if ctx.Err() != nil {
		return nil, leases.ErrClosed
	}
	home, err := a.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t, err := a.newTenant(home)
	if err == nil && a.settings.key != "" {
		err = a.deploy(a.ctx, t.books)
	}
	if err != nil {
		t.close(a.ctx, a.ctx, a.log)
		home.release()
		return nil, err
	}
	run := &running{home: home, tenant: t}
	home.add(t)
	a.live.Store(run)
	return run, nil
}

// acquire opens the store, or takes the one that the running configuration has open.
func (a *App) acquire(ctx context.Context) (*pooled, error) {
	if t := serving(); t != nil && !sameFolder(t.app.settings.dataDir, a.settings.dataDir) {
		return nil, moved(dataDirOption, t.app.settings.dataDir, a.settings.dataDir)
	}
	if err := os.MkdirAll(a.settings.dataDir, dataDirMode); err != nil {
		return nil, &storeError{dataDirOption.Errorf("%w", err)}
	}
	place, err := a.store.Place(a.settings.dataDir)
	if err != nil {
		return nil, &storeError{fmt.Errorf("purser: store: %w", err)}
	}
	if t := serving(); t != nil && t.home.place != place {
		return nil, moved("the place of the database (data_dir, store)", t.home.place, place)
	}
	shared := a.store.Settings() + " world=" + a.World + " master=" + a.settings.masterKeyPrint
	home, err := acquire(ctx, a.store, place, shared, StoreOptions{
		MasterKey: a.settings.masterKey, World: a.World, Dir: a.settings.dataDir, Logger: a.log.With("part", "store"), Once: a.settings.degrades,
	})
	if err != nil {
		return nil, fmt.Errorf("purser: %w", err)
	}
	return home, nil
}

// moved refuses a configuration that would leave the books of the purser that serves. Another place is most often empty or
// a copy: there, nothing would end the payments that are open, and keys, limits and budgets would begin anew.
func moved(option any, from, to string) error {
	return fmt.Errorf("purser: %s changes from %s to %s with a restart only, because the keys, payments and budgets of the running purser are in the old place: "+
		"put it back, or stop Caddy, move what is there, and start Caddy again", option, from, to)
}

// sameFolder reports whether two paths lead to one folder.
func sameFolder(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// newTenant makes this configuration's payer and opens its doors. With an error it returns what must be closed.
func (a *App) newTenant(home *pooled) (*tenant, error) {
	t := &tenant{app: a, home: home, log: a.log, emit: caddyEmitter(a.ctx, a.events)}
	wallets, err := a.wallets.Wallets(home.store, a.log.With("part", "wallets"))
	if err != nil {
		return t, fmt.Errorf("purser: wallets: %w", err)
	}
	t.closeLater(wallets)
	o := pay.Options{
		Store: home.store, Calls: home.calls, Wallets: wallets, Logger: a.log.With("part", "pay"), Observer: home.observer(), Tracer: tracing.Tracer{Version: Version()},
		Time: pay.NewTimekeeper(nil), Networks: a.settings.networks, Schemes: a.settings.schemes, Ways: a.settings.rails,
		DefaultPolicy: a.settings.policy, Plans: a.settings.plans, NoPlans: a.settings.noPlans,
		Failures: a.settings.failures, Retain: a.settings.retain, Names: a.settings.names(),
		ApprovalWait: a.settings.approvalWait, ApprovalExpiry: a.settings.approvalExpiry, SendTimeout: a.settings.answerTimeout,
	}
	if shared, ok := home.store.(interface{ Now() time.Time }); ok { // leases count by its clock
		o.Clock, o.Time = shared.Now, pay.NewTimekeeper(shared.Now).CountsBy("the database")
	}
	facilitator, err := a.facilitator.Facilitator(a.log.With("part", "facilitator"))
	if err != nil {
		return t, fmt.Errorf("purser: facilitator: %w", err)
	}
	if facilitator != nil {
		if dated, ok := facilitator.(interface{ WatchDates(pay.Dates) }); ok {
			dated.WatchDates(o.Time.Dates(pay.SourceFacilitator))
		}
		o.Facilitator, t.facilitator = metrics.Facilitator(facilitator), facilitator
		t.closeLater(facilitator)
	}
	if err := t.openRPCs(&o); err != nil {
		return t, err
	}
	if err := t.openNotices(&o); err != nil {
		return t, fmt.Errorf("purser: %w", err)
	}
	if t.payer, err = pay.New(o); err != nil {
		return t, fmt.Errorf("purser: %w", err)
	}
	t.books, err = books.New(books.Options{
		Store: home.store, Wallets: wallets, Logger: o.Logger, Networks: o.Networks, Plans: o.Plans, NoPlans: o.NoPlans,
		KeyCreated: metrics.Process.Keys.Inc, Clock: o.Clock,
	})
	if err != nil {
		return t, fmt.Errorf("purser: %w", err)
	}
	t.readings = metrics.NewReadings(metrics.Source{
		Payer: t.payer, Books: t.books, Store: home.store, Chain: t.chain, Networks: o.Networks, Key: a.settings.key, Log: a.log,
	})
	t.troubles = trouble.NewWatch(trouble.Source{
		Payer: t.payer, Store: home.store, Keys: t.books.Keys, Facilitator: facilitator, Disk: metrics.Disk(home.store), Wallets: trouble.Fullest(t.books, home.store.SpendEvents, t.payer.WalletBalanceQuietly),
		Notices: t.notices.Failing, Low: a.settings.told.low.Max(), Tells: o.Telling.On, Clock: o.Clock, Log: a.log,
	})
	for _, d := range a.doors {
		if err := d.open(t); err != nil {
			return t, fmt.Errorf("purser: %w", err)
		}
	}
	return t, nil
}

// keys makes and finds the operator's keys.
func (a *App) keys(b *books.Books) books.OperatorKeys {
	return books.OperatorKeys{Books: b, Network: a.settings.networks[0].Name, Log: a.log}
}

// ensureKey makes the key that an option names known, with a wallet.
func (a *App) ensureKey(b *books.Books, o setting.Option, secret, label string) (pay.Key, error) {
	key, err := a.keys(b).Ensure(a.ctx, o.String(), secret, label)
	if err != nil {
		return pay.Key{}, o.Errorf("%w", err)
	}
	return key, nil
}

// deploy makes the deployment's own key known and records it as that.
func (a *App) deploy(ctx context.Context, b *books.Books) error {
	key, err := a.ensureKey(b, keyOption, a.settings.key, "deployment")
	if err != nil {
		return err
	}
	if err := a.keys(b).Deploy(ctx, key); err != nil {
		return keyOption.Errorf("%w", err)
	}
	return nil
}
