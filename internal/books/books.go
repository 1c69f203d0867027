// Package books keeps what surrounds a payment: keys, wallets, organizations, accounts and browser
// sessions, and the lists and sums of what was paid. It works over [pay.Store] and never signs or
// sends anything. The pay core, package pay, makes the payments.
package books

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Options configure Books. Store and Wallets are required.
type Options struct {
	Store   pay.Store
	Wallets pay.Wallets
	Clock   pay.Clock // default: time.Now
	Logger  *slog.Logger
	// Networks that wallets can be made for. Default: the pinned networks marked as default.
	Networks []x402.Network
	// Plans bound organizations. A limit that is not set is that of [pay.DefaultPlans].
	Plans pay.Plans
	// NoPlans gives every organization the highest limits that a plan can be set to.
	NoPlans bool
	// KeyCreated is called after a key was stored. Default: nothing.
	KeyCreated func()
}

// Books keeps keys, wallets, organizations, accounts and sessions. It is safe for concurrent use.
type Books struct {
	store      pay.Store
	wallets    pay.Wallets
	now        pay.Clock
	log        *slog.Logger
	networks   []x402.Network
	plans      pay.Plans
	noPlans    bool
	keyCreated func()
}

// New makes Books. It starts nothing.
func New(o Options) (*Books, error) {
	if o.Store == nil || o.Wallets == nil {
		return nil, errors.New("books: a store and a wallet provider are required")
	}
	plans, err := o.Plans.InForce(o.NoPlans)
	if err != nil {
		return nil, err
	}
	b := &Books{
		store: o.Store, wallets: o.Wallets, now: o.Clock, log: o.Logger,
		networks: o.Networks, plans: plans, noPlans: o.NoPlans, keyCreated: o.KeyCreated,
	}
	if b.now == nil {
		b.now = time.Now
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if len(b.networks) == 0 {
		b.networks = x402.DefaultNetworks()
	}
	if b.keyCreated == nil {
		b.keyCreated = func() {}
	}
	return b, nil
}

// AuditEntries lists changes by operators and accounts, newest first.
func (b *Books) AuditEntries(ctx context.Context, q pay.AuditQuery) ([]pay.AuditEntry, error) {
	return b.store.AuditEntries(ctx, q)
}
