package faults

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// Shape of a random run.
const (
	customers = 6 // of an installation
	tries     = 4 // of a customer for an order
	skew      = 5 * time.Minute
)

// trouble picks the faults of one installation. An order's faults depend on the seed, the order and how often it
// came, and not on what else goes on.
type trouble struct {
	seed        uint64
	facilitator []hostile.Scenario
	seller      []hostile.Scenario
	over        atomic.Bool

	mu   sync.Mutex
	came map[string]int
}

// newTrouble makes trouble of all kinds.
func newTrouble(seed uint64) *trouble {
	tr := &trouble{seed: seed, came: map[string]int{}}
	for _, s := range hostile.Scenarios() {
		switch {
		case s.Pair:
		case len(s.Facilitator) == 1:
			tr.facilitator = append(tr.facilitator, s)
		case len(s.Seller) == 1:
			tr.seller = append(tr.seller, s)
		}
	}
	return tr
}

// draw is the luck of an order at a party.
func (tr *trouble) draw(party string, order uint64) *rand.Rand {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	at := fmt.Sprintf("%s %d", party, order)
	tr.came[at]++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", at, tr.came[at])
	return rand.New(rand.NewPCG(tr.seed, h.Sum64()))
}

// facilitatorFault picks the fault of a call to the facilitator.
func (tr *trouble) facilitatorFault(c *hostile.Call) (hostile.FacilitatorFault, bool) {
	luck := tr.draw(c.Path, hostile.OrderOf(c.Authorization.Value.Big()))
	if tr.over.Load() || luck.IntN(100) < 60 {
		return hostile.FacilitatorFault{}, false
	}
	f := tr.facilitator[luck.IntN(len(tr.facilitator))].Facilitator[0]
	return f, f.On == c.Path
}

// sellerFault picks the fault of a request to the seller.
func (tr *trouble) sellerFault(v *hostile.Visit) (hostile.SellerFault, bool) {
	luck := tr.draw(fmt.Sprint("seller", v.Step), v.Order)
	if tr.over.Load() || luck.IntN(100) < 50 {
		return hostile.SellerFault{}, false
	}
	f := tr.seller[luck.IntN(len(tr.seller))].Seller[0]
	return f, f.On == v.Step
}

// shop has a customer ask for one order after the other, and ask again for what it did not get. Each order has an
// idempotency key, so it may move its money once.
func (tr *trouble) shop(ctx context.Context, at *hostile.World, c *hostile.Customer, n int) {
	luck := rand.New(rand.NewPCG(tr.seed, uint64(n)))
	for order := uint64(n+1) * 1000; ctx.Err() == nil; order++ {
		door := hostile.Doors()[luck.IntN(3)]
		o := hostile.Order{ID: order, Version: 1 + luck.IntN(2), Key: fmt.Sprintf("order-%d", order)}
		if luck.IntN(4) == 0 {
			o.Method = "POST"
		}
		for n := 0; n < tries && ctx.Err() == nil; n++ {
			twins := luck.IntN(5) == 0
			wait := 15 * time.Second
			if luck.IntN(4) == 0 {
				wait = time.Duration(luck.IntN(1500)) * time.Millisecond
			}
			if buy(at, c, door, o, wait, twins) {
				break
			}
			time.Sleep(20 * time.Millisecond) // a refused customer does not come back at once
		}
	}
}

// buy asks for an order once, or twice at once.
func buy(at *hostile.World, c *hostile.Customer, door hostile.Door, o hostile.Order, wait time.Duration, twins bool) (done bool) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	results := make(chan hostile.Result, 2)
	n := 1
	if twins {
		n = 2
	}
	for range n {
		go func() { results <- c.Buy(ctx, at.SellerURL, door, o) }()
	}
	for range n {
		if r := <-results; r.Done {
			done = true
		}
	}
	return done
}
