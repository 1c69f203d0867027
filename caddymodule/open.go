package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/purserpay/purser/chain"
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
		var err error
		if run, err = a.open(); err != nil {
			return nil, err
		}
	}
	return run.tenant, run.tenant.enter()
}

// open opens the store and everything that uses it, once.
func (a *App) open() (*running, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.live.Load(); run != nil {
		return run, nil
	}
	if a.ctx.Err() != nil {
		return nil, errClosing
	}
	home, err := a.acquire()
	if err != nil {
		return nil, err
	}
	t, err := a.newTenant(home)
	if err == nil && a.settings.key != "" {
		err = a.deploy(a.ctx, t.payer)
	}
	if err != nil {
		if t != nil {
			t.close(a.ctx, a.ctx, a.log)
		}
		home.release()
		return nil, err
	}
	run := &running{home: home, tenant: t}
	home.add(t)
	a.live.Store(run)
	return run, nil
}

// acquire opens the store, or takes the one that the running configuration has open.
func (a *App) acquire() (*pooled, error) {
	if err := os.MkdirAll(a.settings.dataDir, dataDirMode); err != nil {
		return nil, dataDirOption.errorf("%w", err)
	}
	place, err := a.store.Place(a.settings.dataDir)
	if err != nil {
		return nil, fmt.Errorf("purser: store: %w", err)
	}
	shared := a.store.Settings() + " world=" + a.World + " master=" + a.settings.masterKeyPrint
	home, err := acquire(a.ctx, a.store, place, shared, StoreOptions{
		MasterKey: a.settings.masterKey, World: a.World, Logger: a.log.With("part", "store"),
	})
	if err != nil {
		return nil, fmt.Errorf("purser: %w", err)
	}
	return home, nil
}

// newTenant makes this configuration's payer and opens its doors.
func (a *App) newTenant(home *pooled) (*tenant, error) {
	t := &tenant{app: a, home: home, log: a.log, emit: caddyEmitter(a.ctx, a.events), readings: newReadings()}
	wallets, err := a.wallets.Wallets(home.store, a.log.With("part", "wallets"))
	if err != nil {
		return nil, fmt.Errorf("purser: wallets: %w", err)
	}
	o := pay.Options{
		Store: home.store, Wallets: wallets, Logger: a.log.With("part", "pay"), Observer: observer{events: home.events}, Tracer: tracer{},
		Time: pay.NewTimekeeper(nil), Networks: a.settings.networks,
		DefaultPolicy: a.settings.policy, Plans: a.settings.plans, NoPlans: a.settings.noPlans,
		Failures: a.settings.failures,
	}
	facilitator, err := a.facilitator.Facilitator(a.log.With("part", "facilitator"))
	if err != nil {
		return nil, fmt.Errorf("purser: facilitator: %w", err)
	}
	if facilitator != nil {
		if dated, ok := facilitator.(interface{ WatchDates(pay.Dates) }); ok {
			dated.WatchDates(o.Time.Dates(pay.SourceFacilitator))
		}
		o.Facilitator, t.facilitator = metered(facilitator), facilitator
		t.closeLater(facilitator)
	}
	if a.settings.rpcURL != "" {
		rpc, err := chain.New(chain.Options{
			URL: a.settings.rpcURL, Logger: a.log.With("part", "rpc"), Dates: o.Time.Dates(pay.SourceRPC),
		})
		if err != nil {
			return nil, fmt.Errorf("purser: rpc_url: %w", err)
		}
		o.Chain, t.chain = meteredChain{rpc}, meteredChain{rpc}
		t.closeLater(rpc)
	}
	if a.settings.rpcURL2 != "" {
		second, err := chain.New(chain.Options{
			URL: a.settings.rpcURL2, Setting: rpcURL2Option.variable, Logger: a.log.With("part", "rpc_2"),
			Dates: o.Time.Dates(pay.SourceSecondRPC),
		})
		if err != nil {
			return nil, fmt.Errorf("purser: rpc_url_2: %w", err)
		}
		o.Second = meteredChain{second}
		t.closeLater(second)
	}
	if t.payer, err = pay.New(o); err != nil {
		return nil, fmt.Errorf("purser: %w", err)
	}
	for _, d := range a.doors {
		if err := d.open(t); err != nil {
			return t, fmt.Errorf("purser: %w", err)
		}
	}
	return t, nil
}

// ensureKey makes the key with a configured secret known as the operator's, with a wallet. The
// label is for one that has to be created.
func (a *App) ensureKey(p *pay.Payer, o option, secret, label string) (pay.Key, error) {
	ctx := pay.WithActorIfNone(a.ctx, configured)
	key, err := operatorsKey(ctx, p, pay.KeyRequest{Label: label, Secret: secret})
	if err != nil {
		return pay.Key{}, o.errorf("%w", err)
	}
	if key.Revoked() { // all other keys pay, and recovery must go on
		a.log.Error(o.String()+" is a key that was revoked: nothing is paid with it, set another one", "key", key.ID)
		return key, nil
	}
	if _, err := a.ensureWallet(ctx, p, key); err != nil {
		return pay.Key{}, o.errorf("%w", err)
	}
	return key, nil
}

// operatorsKey finds the key with a secret, or makes it. A key that an API client has made with
// that secret becomes the operator's: the configuration says whose it is now.
func operatorsKey(ctx context.Context, p *pay.Payer, want pay.KeyRequest) (pay.Key, error) {
	want.Operator = true
	key, err := p.KeyBySecret(ctx, want.Secret)
	if errors.Is(err, pay.ErrKeyNotFound) {
		key, _, err = p.CreateKey(ctx, want)
		if errors.Is(err, pay.ErrKeyExists) { // another node was first
			key, err = p.KeyBySecret(ctx, want.Secret)
		}
	}
	if err != nil {
		return pay.Key{}, err
	}
	return p.AdoptKey(ctx, key)
}

// ensureWallet finds a key's wallet on the first network, or makes it.
func (a *App) ensureWallet(ctx context.Context, p *pay.Payer, key pay.Key) (pay.Wallet, error) {
	network := a.settings.networks[0].Name
	wallets, err := p.ListWallets(ctx, key)
	if err != nil {
		return pay.Wallet{}, err
	}
	for _, w := range wallets {
		if w.Network == network {
			return w, nil
		}
	}
	w, err := p.CreateWallet(ctx, key, network)
	if err != nil {
		return pay.Wallet{}, err
	}
	address := "none, because no wallet provider is configured"
	if w.Address != nil {
		address = w.Address.String()
	}
	a.log.Info("wallet made; fund it to pay", "key", key.ID, "label", key.Label, "network", network, "address", address)
	return w, nil
}
