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
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

const (
	deploymentKey = "pk_nodesnodesnodesnodesnodesnodes"
	masterKeyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	// nodes is the number of pursers.
	nodes = 3
	// validity of the sellers' challenges.
	validity = 30 * time.Second
	// patience bounds every operation on a busy machine.
	patience = time.Minute
	// firstOrder is so large that all orders cost about the same: an order's price has its number in it.
	firstOrder = 4_000_000_000
	// maxOrders bounds the orders of a test.
	maxOrders = 200_000
	// funds is more than any test spends.
	funds = 1 << 58
)

// sidecar is the door that package hostile has another function for.
const sidecar hostile.Door = "sidecar"

func doors() []hostile.Door { return append(hostile.Doors(), sidecar) }

// budgetOf returns a budget, in the smallest unit, that has room for exactly n orders, whichever they are:
// n of the dearest fit, and n+1 of the cheapest do not.
func budgetOf(n int) uint64 {
	return uint64(n) * hostile.PriceStep * (firstOrder + maxOrders)
}

// world is pursers on one database, with all that is around them.
type world struct {
	*hostile.World
	chain    *ledger.Ledger
	clock    *process.Clock
	database *pgtest.Server
	pursers  []*process.Purser
	// customers have the deployment's key, each at one of the nodes.
	customers []*hostile.Customer

	mu   sync.Mutex
	told map[uint64]bool // orders whose customer got what it paid for
}

// newWorld starts nodes with a budget for so many orders.
func newWorld(t *testing.T, orders int) *world {
	t.Helper()
	clock := process.NewClock(t)
	if now := clock.Now().UTC(); now.Add(3*time.Hour).Month() != now.Month() {
		clock.Forward(t, 4*time.Hour) // no month ends during the test, which would renew the budget
	}
	chain := process.StartLedger(t, clock)
	w := &world{
		World: process.StartHostile(t, chain, clock, validity), chain: chain, clock: clock, database: pgtest.Start(t), told: map[uint64]bool{},
	}
	budget := budgetOf(orders)
	dir := t.TempDir()
	for n := range nodes {
		p := process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(dir, fmt.Sprint("node", n)),
			clock.Setting(), "PURSER_STORE=postgres", "DATABASE_URL="+w.database.URL,
			"PURSER_MASTER_KEY="+masterKeyText, "PURSER_KEY="+deploymentKey, "PURSER_UPSTREAM="+w.SellerURL,
			"PURSER_FACILITATOR_URL="+w.FacilitatorURL, "PURSER_RPC_URL="+w.RPCURL,
			"PURSER_MAX_PAYMENT=off", "PURSER_DAILY_BUDGET=off", fmt.Sprintf("PURSER_MONTHLY_BUDGET=%d.%06d", budget/1e6, budget%1e6),
			"PURSER_PER_MINUTE=off", "PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off",
		)
		p.Output.Without = `"level":"info"`
		w.pursers = append(w.pursers, p)
		p.Launch(t)
	}
	for _, p := range w.pursers { // they make the tables and the key at the same time
		if err := p.Await(p.URL("/")); err != nil {
			t.Fatal(err)
		}
		c, err := hostile.Deployment(bounded(t), p.URL(""), deploymentKey)
		if err != nil {
			t.Fatal(err)
		}
		c.Patience = patience
		w.customers = append(w.customers, c)
		if c.Wallet != w.customers[0].Wallet {
			t.Fatal("two nodes have made a wallet for one key")
		}
	}
	if err := w.Fund(bounded(t), w.customers[0].Wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
	return w
}

// bounded ends what a test waits for.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
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
	var r hostile.Result
	if door == sidecar {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		r = w.customers[node].BuyBeside(ctx, w.pursers[node].SidecarURL(), o)
	} else {
		r = w.customers[node].Buy(ctx, w.SellerURL, door, o)
	}
	if r.Done {
		w.mu.Lock()
		w.told[o.ID] = true
		w.mu.Unlock()
	}
	return r
}

// spent reports whether the budget had no room for the order.
func spent(r hostile.Result) bool {
	return r.Err == nil && !r.Done && strings.Contains(r.Reason, "budget")
}

// insistence bounds the time in which a customer without a key asks again. Later its request is a new purchase.
const insistence = pay.RepeatGrace - 10*time.Second

// insist asks for an order, each time at another node, until the customer has what it wants or cannot get it. It reports
// whether the budget was spent.
func (w *world) insist(ctx context.Context, door hostile.Door, o hostile.Order, luck *rand.Rand) bool {
	began := time.Now()
	for refusals := 0; refusals < 2 && ctx.Err() == nil && time.Since(began) < insistence; {
		r := w.buy(ctx, luck.IntN(nodes), door, o)
		switch {
		case r.Done, r.Told():
			return false
		case spent(r):
			return true
		}
		// Sellers here do not take the same payload twice.
		if refusals++; r.Reason != "paid-not-delivered" && r.Reason != "paid-before" && (r.Err != nil || r.Status != http.StatusPaymentRequired || r.Reason != "") {
			refusals = 0
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}

// settle has recovery close all payments, and returns what the books and the chain say.
func (w *world) settle(t *testing.T) (books hostile.Books, chain hostile.Ledger) {
	t.Helper()
	w.clock.Until(t, 3*time.Minute, func() string {
		var err error
		if books, chain, err = process.ReadAccount(bounded(t), w.customers[0], w.chain); err != nil {
			return err.Error()
		}
		for _, p := range books.Payments {
			if p.State == "open" {
				return fmt.Sprintf("%s: %+v", hostile.RuleClosed, p)
			}
		}
		return ""
	})
	return books, chain
}

// audit compares the books with the chain, ends the nodes and checks the database.
func (w *world) audit(t *testing.T) hostile.Ledger {
	t.Helper()
	books, chain := w.settle(t)
	for _, f := range hostile.Audit(books, chain, nil) {
		if f.Rule != hostile.RuleChecked { // recovery's last look comes later; the chain is compared all the same
			t.Error(f)
		}
	}
	for _, p := range books.Payments {
		if p.Has("disputed") || p.Has("unresolved") { // all are honest, and there is an RPC
			t.Errorf("%s: %+v", hostile.RuleEnd, p)
		}
	}
	per, wrong := chain.PerOrder(), map[string]bool{}
	w.mu.Lock()
	for o := range w.told {
		if per[o] != 1 {
			t.Errorf("an order that its customer got was paid for %d times: %d", per[o], o)
			wrong[fmt.Sprint(o*hostile.PriceStep)] = true
		}
	}
	w.mu.Unlock()
	for _, p := range w.pursers {
		p.End(t)
	}
	store := w.open(t)
	w.tell(t, store, wrong)
	if err := errors.Join(store.Check(bounded(t)), store.Close()); err != nil {
		t.Error(err)
	}
	return chain
}

// open opens the database beside the nodes.
func (w *world) open(t *testing.T) *pgstore.DB {
	t.Helper()
	master, err := vault.ParseMasterKey(masterKeyText)
	if err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.Open(bounded(t), pgstore.Options{URL: w.database.URL, MasterKey: vault.Given(master)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// tell logs the payments of some amounts.
func (w *world) tell(t *testing.T, store *pgstore.DB, amounts map[string]bool) {
	t.Helper()
	const page = 500
	for q := (pay.LabelQuery{Limit: page}); len(amounts) > 0; {
		list, err := store.AllPayments(bounded(t), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if amounts[p.Terms.Amount.String()] {
				row, err := json.Marshal(p)
				t.Logf("%s %v", row, err)
			}
		}
		if len(list) < page {
			return
		}
		q.Before = list[page-1].ID
	}
}

// journaled counts the payments that are open or settled, by amount.
func (w *world) journaled(t *testing.T, store *pgstore.DB) (map[string]int, error) {
	t.Helper()
	const page = 500
	rows := map[string]int{}
	for q := (pay.LabelQuery{Limit: page}); ; {
		list, err := store.AllPayments(bounded(t), q)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if p.State != pay.Void {
				rows[p.Terms.Amount.String()]++
			}
		}
		if len(list) < page {
			return rows, nil
		}
		q.Before = list[page-1].ID
	}
}
