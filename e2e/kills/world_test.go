package kills

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
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
	patience = shop.Patience
)

// world is a purser with all that is around it, and what its customers have been told.
type world struct {
	*shop.Shop
	purser *purser
	// customers, by door. Two doors at most share one.
	customers map[hostile.Door]*hostile.Customer
	seen      []string // what an audit has found fault with
	tools     string   // a server of MCP, at which orders of the proxy are calls of its tool; ""
	called    atomic.Int64
}

// newWorld starts a purser with a customer at each door. Payments are valid for a while. pause is how long its seller waits
// after each piece of an order that it delivers piece by piece; 0: it delivers at once.
func newWorld(t *testing.T, valid time.Duration, pause func(order uint64) time.Duration) *world {
	t.Helper()
	s := shop.New(t, process.NewClock(t), valid)
	s.Seller.Choose = func(v *hostile.Visit) (hostile.SellerFault, bool) {
		each := pause(v.Order)
		return hostile.Piecemeal(3, each), v.Step == hostile.Paid && each > 0
	}
	w := &world{Shop: s, purser: &purser{process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(t.TempDir(), "data"),
		s.Settings("PURSER_DAILY_BUDGET=1000000", "PURSER_MONTHLY_BUDGET=1000000")...)}}
	if !w.purser.start(t, "") {
		t.Fatal("purser died")
	}
	w.customers = w.Enroll(t, w.purser.Purser, money.New(funds))
	return w
}

// buy asks for an order once.
func (w *world) buy(ctx context.Context, door hostile.Door, o hostile.Order) hostile.Result {
	if w.tools != "" && door == hostile.ProxyDoor {
		return w.call(ctx, w.customers[door], o)
	}
	return w.Buy(ctx, w.customers[door], w.purser.Purser, door, o)
}

// insistence bounds the time, by the test's clock, in which a customer without a key asks again. Later its request is a
// new purchase (pay.RepeatGrace). Between the look at the clock and the request, the clock may be set forward once.
const insistence = pay.RepeatGrace - validity

// insist asks for an order until the customer has what it wants, or cannot get it any more.
func (w *world) insist(ctx context.Context, door hostile.Door, o hostile.Order, until time.Time) {
	began := w.Clock.Now()
	shop.Insist(ctx, func() bool {
		return time.Now().Before(until) && (o.Key != "" || w.Clock.Now().Sub(began) <= insistence)
	}, func() hostile.Result { return w.buy(ctx, door, o) })
}

// shopper asks for orders at one door, with idempotency keys or without. Its orders are those of its thousand.
type shopper int

// shoppers are one of each kind.
func shoppers() (all []shopper) {
	for i := range 2 * len(shop.Doors()) {
		all = append(all, shopper(i+1))
	}
	return all
}

func shopperOf(order uint64) shopper { return shopper(order / 1000) }

func (s shopper) door() hostile.Door { return shop.Doors()[int(s-1)%len(shop.Doors())] }
func (s shopper) keyed() bool        { return int(s-1)/len(shop.Doors())%2 == 0 }

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
