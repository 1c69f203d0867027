package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// A scrape must not wait for these. They are read in the background, by the configuration that
// recovers, and only after a scrape: the next scrape gets them.

const (
	quotaEvery  = time.Minute
	walletEvery = 5 * time.Minute
	// readTime bounds a round.
	readTime = time.Minute
	// maxOwners bounds the organizations, and the keys, that are looked at in a round, maxWallets the balances
	// that are asked for.
	maxOwners, maxWallets = 10_000, 100
	// inUse bounds the time since a key's last spend event for its wallets to count.
	inUse = 30 * 24 * time.Hour
	// readPage rows are listed at once.
	readPage = 1000
)

// Source says where readings come from.
type Source struct {
	Payer    *pay.Payer
	Books    *books.Books
	Store    pay.StoreReader
	Chain    pay.Chain // nil without an RPC
	Networks []x402.Network
	Key      string // secret of the deployment's key; "" without one
	Log      *slog.Logger
}

// Readings keeps what was read last. You must call [Readings.Run] to have it read.
type Readings struct {
	Source
	wake chan struct{} // of one: there was a scrape

	mu   sync.Mutex
	last Reading
}

// Reading holds nil where nothing is known.
type Reading struct {
	Health  *pay.Health
	Quota   *Quota
	Wallets []Wallets

	quotaDue, walletsDue time.Time // when they are to be read again
}

// Quota counts the owners of quotas by how far they are this month.
type Quota struct {
	Used                     float64 // largest part of a quota that is used
	Near, Exhausted, Counted int
	// Fullest names the owner with the largest part used; "" without any. FullestUsed and
	// FullestMost are its payments of this month.
	Fullest, FullestUsed, FullestMost string
}

// Wallets sums the balances of wallets of one network.
type Wallets struct {
	Network, Currency string
	Count             int
	Total, Lowest     money.Amount
}

// NewReadings makes readings of a source that knows nothing yet.
func NewReadings(s Source) *Readings { return &Readings{Source: s, wake: make(chan struct{}, 1)} }

// Inherit takes over what the configuration before knew, so that alerts do not start over.
func (r *Readings) Inherit(from *Readings) {
	from.mu.Lock()
	known := from.last
	from.mu.Unlock()
	known.quotaDue, known.walletsDue = time.Time{}, time.Time{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = known
}

// Take returns what is known, and has it read anew.
func (r *Readings) Take() Reading {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Run reads after each scrape until ctx ends.
func (r *Readings) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			r.read(ctx)
		}
	}
}

// read reads what is due.
func (r *Readings) read(ctx context.Context) {
	life := ctx
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r.mu.Lock()
	next := r.last
	r.mu.Unlock()
	health := r.Payer.Health(ctx)
	now := time.Now()
	next.Health = &health
	if !now.Before(next.quotaDue) {
		quota, err := r.ReadQuota(ctx, now)
		if err != nil {
			r.Log.Debug("quotas not read", "error", err)
		}
		next.Quota, next.quotaDue = quota, now.Add(quotaEvery)
	}
	if r.Chain != nil && !now.Before(next.walletsDue) {
		next.walletsDue = now.Add(quotaEvery)
		next.Wallets = nil
		var served []x402.Network
		for _, n := range health.Networks {
			if n.RPC.OK { // another chain's balances are not theirs
				served = append(served, n.Network)
			}
		}
		if len(served) > 0 {
			wallets, err := r.ReadWallets(ctx, now, served)
			if err != nil {
				r.Log.Debug("balances not read", "error", err)
			} else {
				next.walletsDue = now.Add(walletEvery)
			}
			next.Wallets = wallets
		}
	}
	if life.Err() != nil {
		return // what was cut off proves nothing
	}
	r.mu.Lock()
	r.last = next
	r.mu.Unlock()
}

// ReadQuota looks at this month's payments of the owners of quotas.
func (r *Readings) ReadQuota(ctx context.Context, now time.Time) (*Quota, error) {
	store, plans, q := r.Store, r.Books.Plans(), new(Quota)
	if !r.Books.HasPlans() {
		return q, nil
	}
	count := func(name, owner string, most int) error {
		n, err := store.Counter(ctx, pay.PlaceCounter(owner, now))
		if err != nil {
			return err
		}
		used := 1.0
		if most > 0 {
			used = Inexact(n) / float64(most)
		}
		q.Counted++
		if used > q.Used || q.Fullest == "" {
			q.Fullest, q.FullestUsed, q.FullestMost = name, n.String(), strconv.Itoa(most)
		}
		q.Used = max(q.Used, used)
		switch {
		case used >= 1:
			q.Exhausted++
		case used >= 0.8:
			q.Near++
		}
		return nil
	}
	organizations := func(after string) ([]pay.Organization, error) { return store.Organizations(ctx, after, readPage) }
	err := paged(organizations, func(o pay.Organization) (string, error) {
		return o.ID, count("organization "+o.ID, pay.Key{OrganizationID: o.ID}.Owner(), plans.Of(o.Plan).Payments)
	})
	if err != nil {
		return nil, fmt.Errorf("organizations: %w", err)
	}
	keys := func(after string) ([]pay.Key, error) { return store.ListKeys(ctx, after, readPage) }
	err = paged(keys, func(k pay.Key) (string, error) {
		if k.Claimed() || k.Operator {
			return k.ID, nil
		}
		return k.ID, count("key "+cmp.Or(k.Label, k.ID), k.Owner(), plans.Unclaimed())
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return q, nil
}

// ReadWallets asks the chains of some networks for the balances of wallets in use.
func (r *Readings) ReadWallets(ctx context.Context, now time.Time, networks []x402.Network) ([]Wallets, error) {
	own := ""
	if secret := r.Key; secret != "" {
		k, err := r.Payer.Resolve(ctx, secret)
		if err != nil {
			return nil, fmt.Errorf("the deployment's key: %w", err)
		}
		own = k.ID
	}
	of := map[string][]pay.Wallet{} // by network
	left, taken := maxWallets, map[string]bool{}
	take := func(w pay.Wallet) {
		if w.Deleted == nil && w.Address != nil && left > 0 {
			of[w.Network], taken[w.ID] = append(of[w.Network], w), true
			left--
		}
	}
	if own != "" {
		mine, err := r.Store.Wallets(ctx, own)
		if err != nil {
			return nil, err
		}
		for _, w := range mine {
			take(w)
		}
	}
	wallets := func(after string) ([]pay.Wallet, error) { return r.Store.AllWallets(ctx, after, readPage) }
	err := paged(wallets, func(w pay.Wallet) (string, error) {
		if taken[w.ID] || left == 0 {
			return w.ID, nil
		}
		// Any of the keys that it is lent to may spend from it.
		if lent, err := r.Store.WalletKeys(ctx, w.ID, "", 1); err != nil || len(lent) > 0 {
			take(w)
			return w.ID, err
		}
		spent, err := r.Store.SpendEvents(ctx, w.KeyID, pay.SpendQuery{Limit: 1})
		if err == nil && len(spent) > 0 && now.Sub(spent[0].Created) < inUse {
			take(w)
		}
		return w.ID, err
	})
	if err != nil {
		return nil, fmt.Errorf("wallets: %w", err)
	}
	var read []Wallets
	for _, n := range networks {
		sum := Wallets{Network: n.Name, Currency: n.Assets[0].Symbol}
		for _, w := range of[n.Name] {
			have, err := r.Chain.Balance(ctx, n, n.Assets[0], *w.Address)
			if err != nil {
				return nil, err
			}
			if sum.Count == 0 || have.Cmp(sum.Lowest) < 0 {
				sum.Lowest = have
			}
			sum.Count++
			sum.Total, _ = sum.Total.Add(have) // all there is of a currency fits
		}
		read = append(read, sum)
	}
	return read, nil
}

// paged visits the rows of a listing, up to maxOwners. visit returns a row's id.
func paged[T any](list func(after string) ([]T, error), visit func(T) (id string, err error)) error {
	after := ""
	for range maxOwners / readPage {
		page, err := list(after)
		if err != nil {
			return err
		}
		for _, row := range page {
			if after, err = visit(row); err != nil {
				return err
			}
		}
		if len(page) < readPage {
			break
		}
	}
	return nil
}
