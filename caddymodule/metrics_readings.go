package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// What a scrape must not wait for is read in the background, by the tenant that recovers, and
// only while somebody scrapes: a scrape gets what was read after the one before it.

const (
	quotaEvery  = time.Minute
	walletEvery = 5 * time.Minute
	// readTime bounds a round.
	readTime = time.Minute
	// maxOwners bounds the organizations, and the keys, that are looked at in a round, maxWallets the balances
	// that are asked for.
	maxOwners, maxWallets = 10_000, 100
	// inUse is how long ago a key may have spent for its wallets to count.
	inUse = 30 * 24 * time.Hour
	// readPage is how many rows are listed at once.
	readPage = 1000
)

// readings are what was read last.
type readings struct {
	wake chan struct{} // of one: somebody has scraped

	mu   sync.Mutex
	last reading
}

// reading is nil where nothing is known.
type reading struct {
	health  *pay.Health
	quota   *quotaReading
	wallets []walletReading
	// when quotas and wallets are to be read again
	quotaDue, walletsDue time.Time
}

type quotaReading struct {
	used                     float64
	near, exhausted, counted int
	// fullest is the owner with the largest part used; "" without any.
	fullest string
	// fullestUsed and fullestMost are its payments of this month.
	fullestUsed, fullestMost string
}

// walletReading is of the wallets of one network.
type walletReading struct {
	network, currency string
	wallets           int
	total, lowest     x402.Amount
}

func newReadings() *readings { return &readings{wake: make(chan struct{}, 1)} }

// inherit takes over what the configuration before knew, so that alerts do not start over with a reload. All of it is
// read anew after the next scrape.
func (r *readings) inherit(from *readings) {
	from.mu.Lock()
	known := from.last
	from.mu.Unlock()
	known.quotaDue, known.walletsDue = time.Time{}, time.Time{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = known
}

// take returns what is known, and has it read anew.
func (r *readings) take() reading {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// measure reads until ctx ends, whenever somebody has scraped.
func (t *tenant) measure(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.readings.wake:
			t.read(ctx)
		}
	}
}

// read reads what is due.
func (t *tenant) read(ctx context.Context) {
	life := ctx
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	t.readings.mu.Lock()
	next := t.readings.last
	t.readings.mu.Unlock()
	health := t.payer.Health(ctx)
	now := time.Now()
	next.health = &health
	if !now.Before(next.quotaDue) {
		quota, err := t.readQuota(ctx, now)
		if err != nil {
			t.log.Debug("quotas not read", "error", err)
		}
		next.quota, next.quotaDue = quota, now.Add(quotaEvery)
	}
	if t.chain != nil && !now.Before(next.walletsDue) {
		next.walletsDue = now.Add(quotaEvery)
		next.wallets = nil
		if health.RPC.OK { // what another chain says is nobody's balance
			wallets, err := t.readWallets(ctx, now)
			if err != nil {
				t.log.Debug("balances not read", "error", err)
			} else {
				next.walletsDue = now.Add(walletEvery)
			}
			next.wallets = wallets
		}
	}
	if life.Err() != nil {
		return // what was cut off proves nothing
	}
	t.readings.mu.Lock()
	t.readings.last = next
	t.readings.mu.Unlock()
}

// readQuota looks at this month's payments of organizations and unclaimed keys. The operator's
// keys have no quota.
func (t *tenant) readQuota(ctx context.Context, now time.Time) (*quotaReading, error) {
	store, plans, q := t.home.store, t.books.Plans(), new(quotaReading)
	if !t.books.HasPlans() {
		return q, nil
	}
	count := func(name, owner string, most int) error {
		n, err := store.Counter(ctx, pay.PlaceCounter(owner, now))
		if err != nil {
			return err
		}
		used := 1.0
		if most > 0 {
			used = inexact(n) / float64(most)
		}
		q.counted++
		if used > q.used || q.fullest == "" {
			q.fullest, q.fullestUsed, q.fullestMost = name, n.String(), strconv.Itoa(most)
		}
		q.used = max(q.used, used)
		switch {
		case used >= 1:
			q.exhausted++
		case used >= 0.8:
			q.near++
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

// readWallets asks the chain for the balances of wallets in use.
func (t *tenant) readWallets(ctx context.Context, now time.Time) ([]walletReading, error) {
	own := ""
	if secret := t.app.settings.key; secret != "" {
		k, err := t.payer.Resolve(ctx, secret)
		if err != nil {
			return nil, fmt.Errorf("the deployment's key: %w", err)
		}
		own = k.ID
	}
	of := map[string][]pay.Wallet{} // by network
	left := maxWallets
	take := func(w pay.Wallet) {
		if w.Deleted == nil && w.Address != nil && left > 0 {
			of[w.Network] = append(of[w.Network], w)
			left--
		}
	}
	if own != "" {
		mine, err := t.home.store.Wallets(ctx, own)
		if err != nil {
			return nil, err
		}
		for _, w := range mine {
			take(w)
		}
	}
	wallets := func(after string) ([]pay.Wallet, error) { return t.home.store.AllWallets(ctx, after, readPage) }
	err := paged(wallets, func(w pay.Wallet) (string, error) {
		if w.KeyID == own || left == 0 {
			return w.ID, nil
		}
		spent, err := t.home.store.SpendEvents(ctx, w.KeyID, pay.SpendQuery{Limit: 1})
		if err == nil && len(spent) > 0 && now.Sub(spent[0].Created) < inUse {
			take(w)
		}
		return w.ID, err
	})
	if err != nil {
		return nil, fmt.Errorf("wallets: %w", err)
	}
	var read []walletReading
	for _, n := range t.app.settings.networks {
		r := walletReading{network: n.Name, currency: n.Assets[0].Symbol}
		for _, w := range of[n.Name] {
			have, err := t.chain.Balance(ctx, n.Assets[0], *w.Address)
			if err != nil {
				return nil, err
			}
			if r.wallets == 0 || have.Cmp(r.lowest) < 0 {
				r.lowest = have
			}
			r.wallets++
			r.total, _ = r.total.Add(have) // all there is of a currency fits
		}
		read = append(read, r)
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
