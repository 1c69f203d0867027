package nodes

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
)

const (
	// shoppers is the number of customers of each door, half of which use idempotency keys.
	shoppers = 4
	// pace is the time from one order of a shopper to its next. The pursers are killed, not flooded.
	pace = 700 * time.Millisecond
	// perSecond is the number of orders that the budget has for each second of load: about half of what is asked for.
	perSecond = 8
	// between is the mean time from one kill to the next.
	between = 3 * time.Second
)

// Three nodes spend from one budget at all doors. A node is killed every few seconds and started again, and the
// database is killed under load. The budget is spent to the last order and no further. Each order is paid for once at
// most, and each transfer is in the books. Small budgets are spent meanwhile, and refuse only what has no room.
func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	t.Logf("repeat with -nodes.seed=%d", first)
	luck := rand.New(rand.NewPCG(first, 0))
	fits := max(20, int(duration.Seconds()*perSecond))
	w := newWorld(t, fits)

	shopping, over := context.WithCancel(context.Background())
	var full atomic.Bool // no new orders
	var shops sync.WaitGroup
	defer func() {
		full.Store(true)
		over()
		shops.Wait()
	}()
	var orders, refused atomic.Int64
	for i := range shoppers * len(shop.Doors()) {
		luck := rand.New(rand.NewPCG(first, uint64(i+1)))
		door, keyed := shop.Doors()[i%len(shop.Doors())], i/len(shop.Doors())%2 == 0
		shops.Go(func() {
			for next := time.Now(); !full.Load(); {
				if w.insist(shopping, door, order(int(orders.Add(1)), keyed), luck) {
					refused.Add(1)
				}
				next = next.Add(pace)
				select {
				case <-time.After(time.Until(next)):
				case <-shopping.Done():
				}
			}
		})
	}
	var smalls [2][]*small // each one is made after the one before
	for i := range smalls {
		luck := rand.New(rand.NewPCG(first, uint64(1000+i)))
		shops.Go(func() {
			for !full.Load() {
				if s := w.newSmall(shopping, luck); s != nil {
					smalls[i] = append(smalls[i], s)
					w.buyAll(shopping, s, luck.Uint64(), &orders)
				}
			}
		})
	}

	kills, restarted := 0, 0
	ends := time.Now().Add(*duration)
	for began := time.Now(); time.Now().Before(ends); {
		time.Sleep(between/2 + time.Duration(luck.Int64N(int64(between))))
		if due := began.Add(*duration * time.Duration(restarted+1) / time.Duration(*restarts+1)); restarted < *restarts && time.Now().After(due) {
			w.deaths.Add(1)
			w.database.Restart(t)
			w.deaths.Add(1)
			restarted++
		}
		w.kill(t, luck.IntN(nodes))
		kills++
	}
	full.Store(true)
	late := time.AfterFunc(patience, over)
	defer late.Stop()
	shops.Wait()
	if kills < 3 || restarted != *restarts {
		t.Errorf("%d kills and %d restarts of the database", kills, restarted)
	}

	// A payment that a kill has left open frees its budget when it is void, and the money is spent again.
	for {
		_, chain := w.settle(t, w.customers[0])
		moved := len(chain.Transfers)
		if moved > fits {
			t.Fatalf("%d orders were paid for, and the budget has room for %d", moved, fits)
		}
		done := 0
		for w.buy(shop.Bounded(t), luck.IntN(nodes), hostile.PayerDoor, order(int(orders.Add(1)), true)).Done {
			done++
		}
		if done == 0 && moved == fits {
			break
		}
		if done == 0 {
			w.awaitRoom(t, fits, luck, &orders)
		}
	}
	if orders.Load() >= maxOrders {
		t.Fatal("there were more orders than their prices allow for")
	}
	w.check(t, slices.Concat(smalls[:]...))
	chain := w.audit(t)
	if len(chain.Transfers) != fits {
		t.Errorf("%d orders were paid for, and the budget has room for %d", len(chain.Transfers), fits)
	}
	if refused.Load() == 0 {
		t.Error("the budget was never spent under load")
	}
	t.Logf("%d orders, %d refused for the budget; %d paid for; %d kills of nodes, %d of the database", orders.Load(), refused.Load(), len(chain.Transfers), kills, restarted)
}

// kill ends a node at once, looks at what it left, and starts it again.
func (w *world) kill(t *testing.T, node int) {
	t.Helper()
	p := w.pursers[node]
	p.Kill()
	w.recorded(t)
	p.Launch(t)
	if err := p.Await(p.URL("/")); err != nil {
		t.Fatal(err)
	}
}

// recorded fails the test if more was moved than payments that are open or settled are for.
func (w *world) recorded(t *testing.T) {
	t.Helper()
	chain, err := hostile.ReadLedger(shop.Bounded(t), w.Chain, w.customers[0].Wallet) // before the books
	if err != nil {
		t.Fatal(err)
	}
	store := w.open(t)
	defer store.Close()
	rows := map[string]int{}
	for _, p := range shop.Journal(t, store) {
		if p.State != pay.Void {
			rows[p.Terms.Amount.String()]++
		}
	}
	for _, tr := range chain.Transfers {
		if rows[tr.Value.String()] == 0 {
			t.Errorf("order %d was paid for, and no payment is for it", hostile.OrderOf(tr.Value))
		}
	}
}

// awaitRoom waits until a payment that was void gives back what it reserved.
func (w *world) awaitRoom(t *testing.T, fits int, luck *rand.Rand, orders *atomic.Int64) {
	t.Helper()
	w.Clock.Until(t, patience, func() string {
		r := w.buy(shop.Bounded(t), luck.IntN(nodes), hostile.PayerDoor, order(int(orders.Add(1)), true))
		if r.Done {
			return ""
		}
		return "the budget has room, and refuses: " + r.String()
	})
}

// Callers who use one idempotency key at several nodes at once get one payment.
func TestOneKeyAtSeveralNodes(t *testing.T) {
	t.Parallel()
	const rounds = 12
	w := newWorld(t, rounds)
	for n := range rounds {
		door := shop.Doors()[n%len(shop.Doors())]
		o := order(n+1, true)
		o.Method = ""
		var callers sync.WaitGroup
		var done atomic.Int64
		var other sync.Map // what callers were told who did not get it
		together := make(chan struct{})
		for caller := range 2 * nodes {
			callers.Go(func() {
				<-together
				if r := w.buy(t.Context(), caller%nodes, door, o); r.Done {
					done.Add(1)
				} else {
					other.Store(caller, r.String())
				}
			})
		}
		close(together)
		callers.Wait()
		if done.Load() == 0 {
			other.Range(func(_, said any) bool {
				t.Errorf("%s: no caller got the order: %s", door, said)
				return false
			})
		}
	}
	if chain := w.audit(t); len(chain.Transfers) != rounds {
		t.Errorf("%d orders were paid for, not %d", len(chain.Transfers), rounds)
	}
}
