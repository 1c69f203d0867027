package kills

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/sandbox/hostile"
)

// pass is a place and how often it is passed until purser dies there.
type pass struct {
	place string
	turn  int
}

// String is the pass as failpoint.KillAt. A pass of the store counts from where its order comes to the journal:
// recovery uses the store as well.
func (p pass) String() string {
	if strings.HasPrefix(p.place, "store/") {
		return fmt.Sprintf("%s>%s:%d", failpoint.Decided, p.place, p.turn)
	}
	return fmt.Sprintf("%s:%d", p.place, p.turn)
}

// once are places that are passed once by an order.
func once(places ...string) (all []pass) {
	for _, p := range places {
		all = append(all, pass{p, 1})
	}
	return all
}

// lanes are the passes of an order at a door, in parts that purser can be led through side by side.
func lanes(door hostile.Door) [][]pass {
	stored := func(commits int) (all []pass) {
		for n := range commits {
			all = append(all, pass{failpoint.StoreCommitting, n + 1}, pass{failpoint.StoreCommitted, n + 1})
		}
		return append(all, once(failpoint.StoreCheckpointing, failpoint.StoreCheckpointed)...)
	}
	core := once(failpoint.Decided, failpoint.Journaled, failpoint.Signed, failpoint.Departing)
	end := once(failpoint.Releasing, failpoint.Released)
	switch door {
	case hostile.PayerDoor:
		return [][]pass{
			stored(3),
			slices.Concat(core, once(failpoint.BeforeVerify, failpoint.AfterVerify, failpoint.BeforeSettle)),
			slices.Concat(once(failpoint.AfterSettle, failpoint.Recording, failpoint.Recorded, failpoint.APIAnswering, failpoint.APIAnswered), end),
		}
	case hostile.SellerDoor:
		return [][]pass{
			stored(3),
			slices.Concat(core, once(failpoint.APIAnswering, failpoint.APIAnswered, failpoint.ReceiptPosted, failpoint.ReceiptRecorded), end),
		}
	default: // the proxy and the sidecar: the seller's challenge is read in pieces as well, and so is what follows
		return [][]pass{
			stored(2),
			slices.Concat(core, once(failpoint.ProxySending, failpoint.ProxyWritten, failpoint.ProxyAnswered, failpoint.ReceiptSeen)),
			slices.Concat(
				[]pass{{failpoint.ProxyPiece, 1}, {failpoint.ProxyPiece, 2}, {failpoint.ProxyPiece, 3}, {failpoint.ProxyPiece, 4}},
				once(failpoint.ProxyFinishing, failpoint.Recording, failpoint.Recorded), end),
		}
	}
}

// distinct is a pause after which purser has read a piece, also on a busy machine: it counts the pieces.
const distinct = 300 * time.Millisecond

// recovering are the places of recovery, which comes to them by itself.
func recovering() []pass {
	return once(failpoint.RecoveryAcquired, failpoint.RecoveryLooked, failpoint.RecoveryRecorded)
}

// Purser is killed at each place of each door, first with idempotency keys, then without. The customer repeats at once.
// Afterwards it is killed at each place of recovery.
func TestEveryFailpoint(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	hit := map[string]bool{}
	through, all := 0, 0
	t.Run("door", func(t *testing.T) {
		for _, s := range shoppers() {
			for i, lane := range lanes(s.door()) {
				all++
				t.Run(fmt.Sprintf("%s, part %d", s, i+1), func(t *testing.T) {
					t.Parallel()
					places := leadThrough(t, s, lane)
					mu.Lock()
					defer mu.Unlock()
					through++
					for _, place := range places {
						hit[place] = true
					}
				})
			}
		}
	})
	if through < all { // some were not asked for, or have failed
		return
	}
	for _, place := range failpoint.Places() {
		if !hit[place] {
			t.Errorf("purser was never killed at %q", place)
		}
	}
}

// leadThrough kills a purser at each pass while a shopper buys, and returns the places where it died.
func leadThrough(t *testing.T, s shopper, lane []pass, change ...func(*world)) (hit []string) {
	w := newWorld(t, unhurried, func(uint64) time.Duration { return distinct })
	for _, f := range change {
		f(w)
	}
	// The first payment of a store records the chain's genesis, too.
	w.insist(context.Background(), s.door(), s.order(0), time.Now().Add(patience))
	w.purser.Kill()
	found := w.autopsy(t)

	for i, p := range lane {
		if !w.purser.start(t, p.String()) {
			t.Fatalf("%v: purser died before it was asked for anything", p)
		}
		o := s.order(i + 1)
		r := w.buy(context.Background(), s.door(), o)
		if !w.purser.dies(t, 20*time.Second) {
			t.Fatalf("%v was not reached: %s", p, r)
		}
		hit = append(hit, p.place)
		found = append(found, w.autopsy(t)...)
		if !w.purser.start(t, "") {
			t.Fatalf("%v: purser died afterwards", p)
		}
		// After the goods have come, only a customer with a key repeats. Without a key it would buy
		// again.
		if again := r; s.keyed() || !r.Done && !r.Told() {
			if again = w.buy(context.Background(), s.door(), o); !again.Done && !shop.PaidAndRefused(again) {
				// It has expired meanwhile, and recovery must say what of it. Now, because without a key the same request
				// is a new purchase two minutes later.
				w.insist(context.Background(), s.door(), o, time.Now().Add(patience))
			}
		}
		w.purser.Kill()
	}
	for _, p := range recovering() {
		w.Clock.Forward(t, 2*unhurried) // leases lapse, and authorizations expire
		w.purser.spawn(t, p.String())
		if !w.purser.dies(t, patience) {
			t.Fatalf("%v was not reached", p)
		}
		hit = append(hit, p.place)
		found = append(found, w.autopsy(t)...)
	}
	if !w.purser.start(t, "") {
		t.Fatal("purser died at the end")
	}
	n, more := w.audit(t)
	w.report(t, append(found, more...))
	if n.transfers != len(lane)+1 {
		t.Errorf("%d orders moved money %d times", len(lane)+1, n.transfers)
	}
	return hit
}
