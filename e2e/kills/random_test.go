package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/sandbox/hostile"
)

// Shape of a run.
const (
	minKills, maxKills = 3, 6
	// loadTime bounds the life of a purser before it is killed from outside.
	loadTime = 2500 * time.Millisecond
	// lateTime is the same for a purser that only recovers, from when payments have expired.
	lateTime = 2500 * time.Millisecond
	// finishTime bounds the repeats of customers without goods, after the last kill.
	finishTime = time.Minute
	// manyPasses is the order of magnitude of passes while purser lives.
	manyPasses = 400
	// crowd is the number of shoppers of each kind.
	crowd = 2
	// downTime bounds the pauses of a run before a purser is started again. With the time until payments expire and a run
	// on an idle machine they stay below insistence, so that customers without keys ask again after each kill.
	downTime = 40 * time.Second
	// down is the percentage of deaths that some time without a purser follows. cutOff is that of requests that
	// customers with keys cut off: a customer without one that leaves cannot know whether it was answered. dropped is
	// that of orders that are never asked for again.
	down, cutOff, dropped = 15, 10, 10
)

// deaths bounds deaths under load, and lateDeaths those that come when the load is over and recovery has begun its work.
func deaths() process.Deaths {
	return process.Deaths{Places: failpoint.Places(), Turns: 6, Passes: manyPasses, Within: loadTime}
}

func lateDeaths() process.Deaths {
	d := process.Deaths{Turns: 10, Passes: manyPasses / 4, Within: lateTime}
	for _, p := range recovering() {
		d.Places = append(d.Places, p.place)
	}
	return d
}

// total adds up what all runs have seen.
type total struct {
	mu sync.Mutex
	figures
	runs, failed int
	inside       int // kills by the program itself, at a place
	outside      int // kills from outside
	unrecorded   int // charges that a dead purser has left no record of
}

func (n *total) String() string {
	return fmt.Sprintf("%d runs, %d failed; %d kills landed (%d at failpoints, %d at random times); "+
		"%d payments, %d transfers, %d double charges, %d lost, %d unrecorded when purser died",
		n.runs, n.failed, n.inside+n.outside, n.inside, n.outside,
		n.payments, n.transfers, n.doubles, n.lost, n.unrecorded)
}

// Pursers are killed at random while customers pay at all doors, and started again at once. Whatever customers did not
// get they ask for again.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	t.Logf("repeat with -kills.seed=%d", first)
	began := time.Now()
	var all total
	t.Run("run", func(t *testing.T) {
		for n := range *runs {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				killAtRandom(t, rand.New(rand.NewPCG(first, uint64(n))), &all)
			})
		}
	})
	if all.runs == *runs && all.inside+all.outside < minKills*all.runs {
		t.Errorf("only %d kills landed", all.inside+all.outside)
	}
	if all.transfers < all.runs {
		t.Errorf("only %d payments moved money", all.transfers)
	}
	t.Logf("%v, in %v", &all, time.Since(began).Round(time.Second))
}

func killAtRandom(t *testing.T, luck *rand.Rand, all *total) {
	pieces := luck.Uint64()
	w := newWorld(t, validity, func(order uint64) time.Duration {
		return time.Duration(pieces>>(order%64)&1) * 30 * time.Millisecond
	})
	shopping, over := context.WithCancel(context.Background())
	var full atomic.Bool // no new orders
	var shops sync.WaitGroup
	defer func() {
		full.Store(true)
		over()
		shops.Wait()
	}()
	for s := shopper(1); int(s) <= crowd*len(shoppers()); s++ {
		luck := rand.New(rand.NewPCG(luck.Uint64(), uint64(s)))
		shops.Go(func() {
			for n := 0; !full.Load(); n++ {
				w.shop(shopping, s, s.order(n), luck)
			}
		})
	}

	k := &killing{world: w}
	k.wait(t, process.Death{After: time.Duration(luck.Int64N(int64(loadTime)))})
	paused := time.Duration(0)
	for range minKills + luck.IntN(maxKills-minKills+1) - 1 {
		if luck.IntN(100) < down {
			pause := time.Duration(luck.Int64N(int64(downTime - paused)))
			w.Clock.Forward(t, pause)
			paused += pause
		}
		d := deaths().Draw(luck)
		w.purser.LaunchFor(t, d)
		k.wait(t, d)
	}
	full.Store(true)
	late := time.AfterFunc(finishTime, over)
	defer late.Stop()
	for range luck.IntN(3) {
		d := lateDeaths().Draw(luck)
		w.Clock.Forward(t, validity+10*time.Second)
		w.purser.LaunchFor(t, d)
		k.wait(t, d)
	}
	if !w.purser.start(t, "") {
		t.Fatal("purser died at the end")
	}
	shops.Wait()
	n, more := w.audit(t)
	w.report(t, append(k.found, more...))
	if t.Failed() {
		t.Logf("killed at %v", k.story)
	}

	all.mu.Lock()
	defer all.mu.Unlock()
	all.runs++
	if t.Failed() {
		all.failed++
	}
	all.inside, all.outside = all.inside+k.inside, all.outside+k.outside
	all.unrecorded += len(k.found)
	all.payments, all.transfers = all.payments+n.payments, all.transfers+n.transfers
	all.doubles, all.lost = all.doubles+n.doubles, all.lost+n.lost
	if *runs > 50 && all.runs%10 == 0 {
		fmt.Println(all)
	}
}

// killing records the deaths of a purser so far, and the findings after them.
type killing struct {
	world           *world
	inside, outside int
	story           []process.Death
	found           []hostile.Finding
}

// wait lets a purser die as it was drawn, and looks at what it left.
func (k *killing) wait(t *testing.T, d process.Death) {
	t.Helper()
	if k.world.purser.Die(t, d) {
		k.inside++
	} else {
		k.outside++
	}
	k.story = append(k.story, d)
	k.found = append(k.found, k.world.autopsy(t)...)
}

// shop has a customer ask for one order.
func (w *world) shop(ctx context.Context, s shopper, o hostile.Order, luck *rand.Rand) {
	switch n := luck.IntN(100); {
	case n < dropped:
		w.buy(ctx, s.door(), o)
		return
	case n < dropped+cutOff && s.keyed():
		once, cancel := context.WithTimeout(ctx, time.Duration(luck.IntN(800))*time.Millisecond)
		w.buy(once, s.door(), o)
		cancel()
	}
	w.insist(ctx, s.door(), o, time.Now().Add(finishTime))
}
