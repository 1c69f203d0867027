package kills

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

const (
	// validity is the shortest that purser takes.
	validity = 10 * time.Second
	// unhurried is for orders that are asked for once: neither purser nor a seller takes a payment with less than six seconds
	// left, which is not much of ten on a busy machine.
	unhurried = time.Minute
	// funds is a customer's first balance: a thousand dollars.
	funds = 1_000_000_000
	// patience bounds every honest operation on a busy machine.
	patience = time.Minute
)

// sidecar is the door that package hostile has another function for.
const sidecar hostile.Door = "sidecar"

func doors() []hostile.Door { return append(hostile.Doors(), sidecar) }

// world is a purser with all that is around it, and what its customers have been told.
type world struct {
	*hostile.World
	chain  *ledger.Ledger
	clock  *process.Clock
	purser *purser
	// customers, by door. Two doors at most share one.
	customers map[hostile.Door]*hostile.Customer
	seen      []string // what an audit has found fault with

	mu   sync.Mutex
	told map[uint64]bool // orders whose customer got what it paid for
}

// newWorld starts a purser with a customer at each door. Payments are valid for a while. pause is how long its seller waits
// after each piece of an order that it delivers piece by piece; 0: it delivers at once.
func newWorld(t *testing.T, valid time.Duration, pause func(order uint64) time.Duration) *world {
	t.Helper()
	clock := process.NewClock(t)
	chain := process.StartLedger(t, clock)
	h := process.StartHostile(t, chain, clock, valid)
	h.Seller.Choose = func(v *hostile.Visit) (hostile.SellerFault, bool) {
		each := pause(v.Order)
		return hostile.Piecemeal(3, each), v.Step == hostile.Paid && each > 0
	}
	w := &world{
		World: h, chain: chain, clock: clock, customers: map[hostile.Door]*hostile.Customer{}, told: map[uint64]bool{},
		purser: newPurser(t, filepath.Join(t.TempDir(), "data"), h.SellerURL, h.FacilitatorURL, h.RPCURL, clock.Setting()),
	}
	if !w.purser.start(t, "") {
		t.Fatal("purser died")
	}
	w.enroll(t)
	return w
}

// enroll makes the customers, with money.
func (w *world) enroll(t *testing.T) {
	t.Helper()
	ctx := bounded(t)
	api, err1 := hostile.Enroll(ctx, w.purser.URL(""))
	agent, err2 := hostile.Enroll(ctx, w.purser.URL(""))
	owner, err3 := hostile.Deployment(ctx, w.purser.URL(""), deploymentKey)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	w.customers = map[hostile.Door]*hostile.Customer{
		hostile.PayerDoor: api, hostile.SellerDoor: api, hostile.ProxyDoor: agent, sidecar: owner,
	}
	for _, c := range w.everybody() {
		if err := w.Fund(ctx, c.Wallet, money.New(funds)); err != nil {
			t.Fatal(err)
		}
	}
}

// everybody is each customer once.
func (w *world) everybody() []*hostile.Customer {
	seen := map[*hostile.Customer]bool{}
	for _, c := range w.customers {
		seen[c] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// buy asks for an order once.
func (w *world) buy(ctx context.Context, door hostile.Door, o hostile.Order) hostile.Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var r hostile.Result
	if door == sidecar {
		r = w.customers[door].BuyBeside(ctx, w.purser.SidecarURL(), o)
	} else {
		r = w.customers[door].Buy(ctx, w.SellerURL, door, o)
	}
	if r.Done {
		w.mu.Lock()
		w.told[o.ID] = true
		w.mu.Unlock()
	}
	return r
}

// insistence bounds the time, by the test's clock, in which a customer without a key asks again. Later its request is a
// new purchase (pay.RepeatGrace). Between the look at the clock and the request, the clock may be set forward once.
const insistence = pay.RepeatGrace - validity

// insist asks for an order until the customer has what it wants, or cannot get it any more. A payment that is open and
// expired is waited for: recovery closes it.
func (w *world) insist(ctx context.Context, door hostile.Door, o hostile.Order, until time.Time) {
	began := w.clock.Now()
	for refusals := 0; refusals < 2 && ctx.Err() == nil && time.Now().Before(until); {
		if o.Key == "" && w.clock.Now().Sub(began) > insistence {
			return
		}
		r := w.buy(ctx, door, o)
		wait := 50 * time.Millisecond
		switch {
		case r.Done, r.Told():
			return
		case r.Err == nil:
			wait = 300 * time.Millisecond
		}
		// Sellers here do not take the same payload twice.
		if refusals++; !paidAndRefused(r) {
			refusals = 0
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// paidAndRefused reports whether the seller refused a payload because it had been used before. At
// the proxy the answer says so. A customer that pays by itself sees a bare 402.
func paidAndRefused(r hostile.Result) bool {
	return r.Reason == "paid-not-delivered" || r.Reason == "paid-before" || r.Err == nil && r.Status == http.StatusPaymentRequired && r.Reason == ""
}

// bounded ends what a test waits for.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// shopper asks for orders at one door, with idempotency keys or without. Its orders are those of its thousand.
type shopper int

// shoppers are one of each kind.
func shoppers() (all []shopper) {
	for i := range 2 * len(doors()) {
		all = append(all, shopper(i+1))
	}
	return all
}

func shopperOf(order uint64) shopper { return shopper(order / 1000) }

func (s shopper) door() hostile.Door { return doors()[int(s-1)%len(doors())] }
func (s shopper) keyed() bool        { return int(s-1)/len(doors())%2 == 0 }

func (s shopper) String() string {
	if s.keyed() {
		return string(s.door()) + ", with keys"
	}
	return string(s.door()) + ", without keys"
}

// order is the n-th of a shopper, in all forms that there are.
func (s shopper) order(n int) hostile.Order {
	o := hostile.Order{ID: uint64(int(s)*1000 + n), Version: 1 + n%2}
	if n%3 == 2 {
		o.Method = http.MethodPost
	}
	if s.keyed() {
		o.Key = fmt.Sprintf("order-%d", o.ID)
	}
	return o
}
