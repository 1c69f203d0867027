package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

var errBudget = errors.New("budget is used up")

// One budget for 1000 payments, three nodes, and a database that ends their connections after each few, and
// once restarts: 1000 payments are made, each once.
func TestBudgetThroughLostConnections(t *testing.T) {
	t.Parallel()
	const payments, callers = 1000, 24
	server := pgtest.Start(t)
	url, ctx := fresh(t, server), t.Context()
	var nodes []*pgstore.DB
	for range 3 {
		o := &opener{url: url}
		o.Open(t)
		t.Cleanup(func() { o.Close(t) })
		nodes = append(nodes, o.db)
	}
	k, err := nodes[0].CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: uuid.Must(uuid.NewV7()).String(), Created: time.Now()}, Secret: "pk_" + uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	var made, lost atomic.Int64
	moves := make(chan struct{}, 1) // a payment was made, so that the next connections may be lost
	var breaker sync.WaitGroup
	breaker.Go(func() {
		n := 0
		for range moves {
			if n++; n == 20 {
				server.Restart(t)
			}
			lost.Add(server.EndConnections(t))
		}
	})
	most := money.New(5 * payments)
	day := time.Now()
	// Each try of a purchase has a payment of its own, as package pay makes it.
	call := func(name string) *pay.Begin {
		b := callOf(k, day)
		b.IdempotencyKey, b.New.IdempotencyKey = name, name
		b.Fingerprint, b.Identity = pay.HashOf("f", name), pay.HashOf("i", name)
		b.New.Fingerprint, b.New.Identity = b.Fingerprint, b.Identity
		for j := range b.Limits {
			if b.Limits[j].Counter == pay.DailyCounter(k.ID, "USDC", day) {
				b.Limits[j].Max, b.Limits[j].Refusal = &most, errBudget
			}
		}
		return b
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			d := nodes[i%len(nodes)]
			for n := 0; ; n++ {
				name := fmt.Sprintf("%d/%d", i, n)
				begun, err := insist(ctx, func() (pay.Begun, error) { return d.Begin(ctx, call(name)) })
				if errors.Is(err, errBudget) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if begun.How != pay.Created && begun.How != pay.Busy {
					t.Errorf("a payment of its own got %d", begun.How)
					return
				}
				made.Add(1)
				select {
				case moves <- struct{}{}:
				default:
				}
				p := begun.Payment
				o := pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: day, Verdict: pay.VerdictSettled, EventID: uuid.Must(uuid.NewV7()).String(), Release: true, Answered: true}
				if _, err := insist(ctx, func() (*pay.Payment, error) { p, _, err := d.Record(ctx, o); return p, err }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	close(moves)
	breaker.Wait()
	used, err := nodes[1].Counter(ctx, pay.DailyCounter(k.ID, "USDC", day))
	if err != nil || used != most || made.Load() != payments {
		t.Errorf("%d payments were made, %s is used, %v", made.Load(), used, err)
	}
	if n, err := nodes[2].CountOpen(ctx, string(pay.Settled)); err != nil || n != payments {
		t.Errorf("%d payments are settled, %v", n, err)
	}
	if _, err := insist(ctx, func() (int, error) { return 0, nodes[0].Check(ctx) }); err != nil {
		t.Error(err)
	}
	if lost.Load() == 0 {
		t.Error("no connection was lost")
	}
	t.Logf("%d connections were lost", lost.Load())
}

// insist repeats a call while the store is unavailable, as a caller under an idempotency key does.
func insist[T any](ctx context.Context, call func() (T, error)) (value T, err error) {
	for ctx.Err() == nil {
		switch value, err = call(); {
		case errors.Is(err, pay.ErrQueued): // the store writes it later
			return value, nil
		case !errors.Is(err, pay.ErrUnavailable):
			return value, err
		}
	}
	return value, ctx.Err()
}

// A node may ask more than once whether a batch was committed, because that answer may be lost, too. Its
// own question does not count as the batch.
func TestLostBatchStaysLost(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d, lost, written := node(t, pgstore.Options{URL: url}), uuid.New(), uuid.New()
	run(t, url, fmt.Sprintf(`INSERT INTO operations (id) VALUES ('%s')`, written))
	for range 3 {
		for id, want := range map[uuid.UUID]bool{lost: false, written: true} {
			if done, err := d.Committed(t.Context(), id); err != nil || done != want {
				t.Errorf("committed: %t instead of %t, %v", done, want, err)
			}
		}
	}
}

// Keys share a wallet, and nodes settle their payments at the same time: no payment is missing in the sums of
// the wallet.
func TestSumsOfSharedWallet(t *testing.T) {
	t.Parallel()
	const keys, payments = 8, 20
	url := fresh(t, pgtest.Start(t))
	nodes := []*pgstore.DB{node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})}
	var all sync.WaitGroup
	for i := range keys {
		k := keyOn(t, nodes[0])
		all.Go(func() {
			pays(t, nodes[i%len(nodes)], k, payments)
		})
	}
	all.Wait()
	n, now := 0, nodes[0].Now()
	err := nodes[0].VisitWalletDays(t.Context(), []string{"w"}, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), func(_ string, d pay.WalletDay) { n += d.Spent.Count })
	if err != nil || n != keys*payments {
		t.Errorf("%d of %d payments are summed up, %v", n, keys*payments, err)
	}
}
