package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/sandbox/hostile"
)

const (
	// nodes is the number of pursers.
	nodes = 3
	// validity of the sellers' challenges.
	validity = 30 * time.Second
	// patience bounds every operation on a busy machine.
	patience = shop.Patience
	// firstOrder is so large that all orders cost about the same: an order's price has its number in it.
	firstOrder = 4_000_000_000
	// maxOrders bounds the orders of a test.
	maxOrders = 200_000
	// funds is more than any test spends.
	funds = 1 << 58
)

// budgetOf returns a budget, in the smallest unit, that has room for exactly n orders, whichever they are:
// n of the dearest fit, and n+1 of the cheapest do not.
func budgetOf(n int) uint64 {
	return uint64(n) * hostile.PriceStep * (firstOrder + maxOrders)
}

// world is pursers on one database, with all that is around them.
type world struct {
	*shop.Shop
	database *pgtest.Server
	pursers  []*process.Purser
	// customers have the deployment's key, each at one of the nodes.
	customers []*hostile.Customer
	// deaths counts the beginnings and ends of restarts of the database.
	deaths atomic.Int64
}

// newWorld starts nodes with a budget for so many orders.
func newWorld(t *testing.T, orders int) *world {
	t.Helper()
	clock := process.NewClock(t)
	if now := clock.Now().UTC(); now.Add(3*time.Hour).Month() != now.Month() {
		clock.Forward(t, 4*time.Hour) // no month ends during the test, which would renew the budget
	}
	w := &world{Shop: shop.New(t, clock, validity), database: pgtest.Start(t)}
	budget := budgetOf(orders)
	dir := t.TempDir()
	for n := range nodes {
		p := process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(dir, fmt.Sprint("node", n)),
			w.Settings("PURSER_STORE=postgres", "DATABASE_URL="+w.database.URL, "PURSER_DAILY_BUDGET=off", fmt.Sprintf("PURSER_MONTHLY_BUDGET=%d.%06d", budget/1e6, budget%1e6))...)
		p.Output.Without = `"level":"info"`
		w.pursers = append(w.pursers, p)
		p.Launch(t)
	}
	for _, p := range w.pursers { // they make the tables and the key at the same time
		if err := p.Await(p.URL("/")); err != nil {
			t.Fatal(err)
		}
		c, err := hostile.Deployment(shop.Bounded(t), p.URL(""), shop.Key)
		if err != nil {
			t.Fatal(err)
		}
		w.customers = append(w.customers, c)
		if c.Wallet != w.customers[0].Wallet {
			t.Fatal("two nodes have made a wallet for one key")
		}
	}
	if err := w.Fund(shop.Bounded(t), w.customers[0].Wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
	return w
}

// order is the n-th, in one of the forms that there are.
func order(n int, keyed bool) hostile.Order {
	o := hostile.Order{ID: uint64(firstOrder + n), Version: 1 + n%2}
	if n%3 == 2 {
		o.Method = http.MethodPost
	}
	if keyed {
		o.Key = fmt.Sprintf("order-%d", n)
	}
	return o
}

// buy asks one node for an order once.
func (w *world) buy(ctx context.Context, node int, door hostile.Door, o hostile.Order) hostile.Result {
	return w.Buy(ctx, w.customers[node], w.pursers[node], door, o)
}

// insistence bounds the time in which a customer without a key asks again. Later its request is a new purchase.
const insistence = pay.RepeatGrace - 10*time.Second

// insist asks for an order, each time at another node, until the customer has what it wants or cannot get it. It reports
// whether the budget was spent.
func (w *world) insist(ctx context.Context, door hostile.Door, o hostile.Order, luck *rand.Rand) bool {
	began := time.Now()
	return shop.Spent(shop.Insist(ctx, func() bool { return time.Since(began) < insistence }, func() hostile.Result {
		return w.buy(ctx, luck.IntN(nodes), door, o)
	}))
}

// settle has recovery close all payments of a customer, and returns what the books and the chain say.
func (w *world) settle(t *testing.T, c *hostile.Customer) (books hostile.Books, chain hostile.Ledger) {
	t.Helper()
	w.Clock.Until(t, 3*time.Minute, func() string {
		var err error
		if books, chain, err = process.ReadAccount(shop.Bounded(t), c, w.Chain); err != nil {
			return err.Error()
		}
		return shop.Open(books)
	})
	return books, chain
}

// audit compares the books with the chain, ends the nodes and checks the database.
func (w *world) audit(t *testing.T) hostile.Ledger {
	t.Helper()
	books, chain := w.settle(t, w.customers[0])
	found := w.Audit(books, chain, func(uint64) bool { return true })
	for _, f := range found {
		t.Error(f)
	}
	for _, p := range w.pursers {
		p.End(t)
	}
	store := w.open(t)
	said := fmt.Sprint(found)
	for _, p := range shop.Journal(t, store) {
		if strings.Contains(said, p.ID) || strings.Contains(said, "of "+p.Terms.Amount.String()+",") {
			row, err := json.Marshal(p)
			t.Logf("%s %v", row, err)
		}
	}
	if err := errors.Join(store.Check(shop.Bounded(t)), store.Close()); err != nil {
		t.Error(err)
	}
	return chain
}

// open opens the database beside the nodes.
func (w *world) open(t *testing.T) *pgstore.DB {
	t.Helper()
	store, err := pgstore.Open(shop.Bounded(t), pgstore.Options{URL: w.database.URL, MasterKey: shop.MasterKey()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
