// Package books keeps what surrounds a payment: keys, wallets, organizations, accounts and browser
// sessions, and the lists and sums of what was paid. It works over [pay.Store] and never signs or
// sends anything. The pay core, package pay, makes the payments.
package books

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Options configure Books. Store and Wallets are required.
type Options struct {
	Store   pay.Store
	Wallets pay.Wallets
	Clock   pay.Clock // default: that of the machine
	Logger  *slog.Logger
	// Networks that wallets can be made for. Default: the pinned networks marked as default.
	Networks []x402.Network
	// Plans bound organizations. A limit that is not set is that of the shipped plans.
	Plans pay.Plans
	// NoPlans gives every organization the highest limits that a plan can be set to.
	NoPlans bool
	// KeyCreated is called after a key was stored. Default: nothing.
	KeyCreated func()
}

// lists are the store's methods that Books hands on as they are: see [pay.Store].
type lists interface {
	Account(ctx context.Context, id string) (pay.Account, error)
	AllPayments(ctx context.Context, q pay.LabelQuery) ([]*pay.Payment, error)
	AllWallets(ctx context.Context, after string, limit int) ([]pay.Wallet, error)
	ClosedPayments(ctx context.Context, q pay.ClosedQuery) (pay.ClosedPage, error)
	AuditEntries(ctx context.Context, q pay.AuditQuery) ([]pay.AuditEntry, error)
	DeploymentWallet(ctx context.Context, network string) (pay.Wallet, error)
	ExecKey(ctx context.Context) (pay.Key, error)
	Wallet(ctx context.Context, id string) (pay.Wallet, error)
	WalletByAddress(ctx context.Context, address x402.Address) (pay.Wallet, error)
	WalletKeys(ctx context.Context, walletID, after string, limit int) ([]string, error)
	DeleteSession(ctx context.Context, id string) error
	Key(ctx context.Context, id string) (pay.Key, error)
	Organization(ctx context.Context, id string) (pay.Organization, error)
	Organizations(ctx context.Context, after string, limit int) ([]pay.Organization, error)
}

// Books keeps keys, wallets, organizations, accounts and sessions. It is safe for concurrent use.
type Books struct {
	lists
	reader     pay.StoreReader // for what only reads
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
		lists: o.Store, reader: o.Store, store: o.Store, wallets: o.Wallets, now: o.Clock, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		networks: o.Networks, plans: plans, noPlans: o.NoPlans, keyCreated: o.KeyCreated,
	}
	if b.now == nil {
		b.now = failpoint.Now
	}
	if len(b.networks) == 0 {
		b.networks = x402.DefaultNetworks()
	}
	if b.keyCreated == nil {
		b.keyCreated = func() {}
	}
	return b, nil
}

// Now returns the time by the clock of the books.
func (b *Books) Now() time.Time { return b.now().UTC() }
