package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/testing/histories"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/hostile"
)

const (
	// few is the number of orders for which a small budget has room.
	few = 4
	// buyers contend for a small budget.
	buyers = 3
)

// small is a key with a wallet of its own and a small budget, and what its buyers were told.
type small struct {
	*histories.History
	customers [nodes]*hostile.Customer // the same, at each node
}

// newSmall makes a key at some node, however often nodes die meanwhile; nil if the context ends first.
func (w *world) newSmall(ctx context.Context, luck *rand.Rand) *small {
	body := fmt.Sprintf(`{"label":"small","wallet":"new","policy":{"monthly_budget":"%d"}}`, budgetOf(few))
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		var made adminapi.CreatedKey
		p := w.pursers[luck.IntN(nodes)]
		got, err := process.Ask(ctx, process.AdminClient(p.Socket()), http.MethodPost, "http://127.0.0.1/purser/keys", body)
		if err == nil {
			err = got.Decode(http.StatusCreated, &made)
		}
		if err != nil {
			continue
		}
		if c, err := hostile.Deployment(ctx, p.URL(""), made.Key); err == nil && w.Fund(ctx, c.Wallet, money.New(funds)) == nil {
			s := &small{History: histories.New("budget "+made.ID, histories.Budget(budgetOf(few)))}
			for n, p := range w.pursers {
				s.customers[n], _ = c.At(p.URL("")) // a URL that worked
			}
			return s
		}
	}
	return nil
}

// buyAll has buyers spend the small budget until it refuses each of them.
func (w *world) buyAll(ctx context.Context, s *small, seed uint64, orders *atomic.Int64) {
	var all sync.WaitGroup
	for i := range buyers {
		luck := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range few {
				o := order(int(orders.Add(1)), true)
				door := hostile.Doors()[luck.IntN(len(hostile.Doors()))]
				said := histories.Unknown
				for tries := 0; said == histories.Unknown && tries < 10 && ctx.Err() == nil; tries++ {
					said = w.attempt(ctx, s, i, luck.IntN(nodes), door, o)
					time.Sleep(time.Duration(luck.IntN(500)) * time.Millisecond)
				}
				if said != histories.Done {
					return
				}
			}
		})
	}
	all.Wait()
}

// attempt asks for an order once. A refusal while the database dies may be due to a reservation that the database
// loses, so it tells nothing.
func (w *world) attempt(ctx context.Context, s *small, buyer, node int, door hostile.Door, o hostile.Order) histories.Said {
	amount := o.ID * hostile.PriceStep
	return s.Do(buyer, histories.Reserve{ID: strconv.FormatUint(o.ID, 10), Amount: amount}, func() histories.Outcome {
		deaths := w.deaths.Load()
		r := s.customers[node].Buy(ctx, w.SellerURL, door, o)
		switch {
		case r.Done:
			return histories.Outcome{Said: histories.Done}
		case shop.Spent(r) && deaths%2 == 0 && deaths == w.deaths.Load():
			return histories.Outcome{Said: histories.Refused}
		}
		return histories.Outcome{Said: histories.Unknown}
	}).Said
}

// check compares what the buyers of small budgets were told with a model, once all payments are closed, and the books
// with the chain.
func (w *world) check(t *testing.T, all []*small) {
	t.Helper()
	var list []*histories.History
	for _, s := range all {
		books, chain, err := process.ReadAccount(shop.Bounded(t), s.customers[0], w.Chain)
		if err != nil || shop.Open(books) != "" { // the clock need not go on for the others
			books, chain = w.settle(t, s.customers[0])
		}
		for _, f := range w.Audit(books, chain, func(uint64) bool { return false }) {
			t.Error(f)
		}
		s.Do(0, histories.Sum{}, func() histories.Outcome {
			sum := histories.Outcome{Said: histories.Done}
			for _, p := range books.Payments {
				if n, err := strconv.ParseUint(p.Amount, 10, 64); err != nil {
					t.Error(err)
				} else if p.State != "void" {
					sum.N += n
				}
			}
			return sum
		})
		list = append(list, s.History)
	}
	histories.Check(t, list...)
}
