package faults

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
)

// Shape of a random run.
const (
	enough      = 36 // orders of an installation
	enoughKinds = 8  // of faults that it has met
	customers   = 6  // of an installation
	tries       = 4  // of a customer for an order
	skew        = 5 * time.Minute
	clockTime   = "05.000"
)

// wish is an order, with the customer's knowledge of it.
type wish struct {
	order uint64
	door  hostile.Door
	keyed bool
	heard int // how often it was told that it has what it wants
	story []string
}

// trouble picks the faults of one installation. An order's faults depend on the seed, the order and how often it
// came, and not on what else goes on.
type trouble struct {
	seed        uint64
	facilitator []hostile.Scenario
	seller      []hostile.Scenario
	over        atomic.Bool

	mu     sync.Mutex
	wishes map[uint64]*wish
	came   map[string]int
	met    map[string]int // by fault
}

// newTrouble makes trouble of all kinds.
func newTrouble(seed uint64) *trouble {
	tr := &trouble{seed: seed, wishes: map[uint64]*wish{}, came: map[string]int{}, met: map[string]int{}}
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
	at := fmt.Sprintf("%s %d", party, order)
	tr.came[at]++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", at, tr.came[at])
	return rand.New(rand.NewPCG(tr.seed, h.Sum64()))
}

// facilitatorFault picks the fault of a call to the facilitator.
func (tr *trouble) facilitatorFault(c *hostile.Call) (hostile.FacilitatorFault, bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	order := hostile.OrderOf(c.Authorization.Value.Big())
	luck := tr.draw(c.Path, order)
	if tr.over.Load() || luck.IntN(100) < 60 {
		return hostile.FacilitatorFault{}, false
	}
	s := tr.facilitator[luck.IntN(len(tr.facilitator))]
	if s.Facilitator[0].On != c.Path {
		return hostile.FacilitatorFault{}, false
	}
	tr.met[s.Name]++
	return s.Facilitator[0], true
}

// sellerFault picks the fault of a request to the seller.
func (tr *trouble) sellerFault(v *hostile.Visit) (hostile.SellerFault, bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	luck := tr.draw(fmt.Sprint("seller", v.Step), v.Order)
	if tr.over.Load() || luck.IntN(100) < 50 {
		return hostile.SellerFault{}, false
	}
	s := tr.seller[luck.IntN(len(tr.seller))]
	w := tr.wishes[v.Order]
	if s.Seller[0].On != v.Step || s.NeedsKey && w.door != hostile.ProxyDoor && !w.keyed {
		return hostile.SellerFault{}, false
	}
	tr.met[s.Name]++
	return s.Seller[0], true
}

// enough reports whether enough has happened.
func (tr *trouble) enough() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.wishes) >= enough && len(tr.met) >= enoughKinds
}

func (tr *trouble) add(w *wish) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.wishes[w.order] = w
}

// shop has a customer ask for one order after the other, and ask again for what it did not get.
//
// A customer without a key asks again once purser has noticed that it has hung up, or the two requests are two purchases.
func (tr *trouble) shop(
	ctx context.Context, at *hostile.World, c *hostile.Customer, n int, keyed bool, noticed func(key string),
) {
	luck := rand.New(rand.NewPCG(tr.seed, uint64(n)))
	for order := uint64(n+1) * 1000; ctx.Err() == nil; order++ {
		w := &wish{order: order, door: hostile.Doors()[luck.IntN(3)], keyed: keyed || luck.IntN(2) == 0}
		tr.add(w)
		o := hostile.Order{ID: order, Version: 1 + luck.IntN(2)}
		if luck.IntN(4) == 0 {
			o.Method = "POST"
		}
		if w.keyed {
			o.Key = fmt.Sprintf("order-%d", order)
		}
		for n := 0; n < tries && ctx.Err() == nil; n++ {
			twins := w.keyed && luck.IntN(5) == 0
			wait := 15 * time.Second
			if luck.IntN(4) == 0 {
				wait = time.Duration(luck.IntN(1500)) * time.Millisecond
			}
			if tr.buy(at, c, w, o, wait, twins) {
				break
			}
			time.Sleep(20 * time.Millisecond) // a refused customer does not come back at once
			if !w.keyed {
				noticed(c.Key)
			}
		}
	}
}

// buy asks for an order once, or twice at once.
func (tr *trouble) buy(at *hostile.World, c *hostile.Customer, w *wish, o hostile.Order, wait time.Duration, twins bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	results := make(chan hostile.Result, 2)
	n := 1
	if twins {
		n = 2
	}
	began := time.Now()
	for range n {
		go func() { results <- c.Buy(ctx, at.SellerURL, w.door, o) }()
	}
	done := false
	for range n {
		r := <-results
		if r.Done || !w.keyed && r.Told() {
			w.heard++
			done = true
		}
		w.story = append(w.story, fmt.Sprintf("%s to %s: %s", began.Format(clockTime), time.Now().Format(clockTime), r))
	}
	return done
}

// allowed returns how often each order may have moved money: once, and, without a key, once more
// for each complete answer that the customer did not hear.
func (tr *trouble) allowed(rows []*pay.Payment) map[uint64]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	answered := map[uint64]int{}
	for _, row := range rows {
		if row.Answered {
			answered[hostile.OrderOf(row.Terms.Amount.Big())]++
		}
	}
	most := map[uint64]int{}
	for order, w := range tr.wishes {
		most[order] = 1
		if !w.keyed {
			most[order] += max(0, answered[order]-w.heard)
		}
	}
	return most
}

// operate runs recovery and makes the trouble that does not belong to single calls.
func operate(ctx context.Context, t *testing.T, in *installation, luck *rand.Rand, restarts, skews bool) {
	rpc := []hostile.RPCFault{
		hostile.Lags, hostile.OtherChain, hostile.OtherToken, hostile.Refusing, hostile.Overloaded, hostile.Babbles,
		hostile.NoLogs, hostile.NoSafeTag,
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(50+luck.IntN(150)) * time.Millisecond)
		switch luck.IntN(14) {
		case 0:
			in.world.RPC.Show(rpc[luck.IntN(len(rpc))].Views[0])
		case 1, 2, 3:
			in.world.RPC.Show(hostile.View{})
		case 4:
			in.free.Store(scarce)
		case 5, 6:
			in.free.Store(1 << 40)
		case 7:
			in.world.Late(ctx)
		case 8:
			if skews {
				in.skew.Store(int64(luck.IntN(3)-1) * int64(skew))
			}
		case 9:
			if restarts {
				in.stop(t)
				in.start(t)
			}
		default:
			_, _ = in.payer.RecoverOnce(ctx) // it may be down
		}
	}
}

// Everything at once, at random: customers that give up, repeat and come twice, at every door, with a facilitator, a
// seller and an RPC that fail, a disk that fills up, a clock that jumps and restarts. Afterwards the books are the
// chain's.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	for run := range *runs {
		n := *seed + uint64(run)
		if *seed == 0 {
			n = rand.Uint64() >> 16
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Logf("repeat with -faults.seed=%d", n)
			randomRun(t, n)
		})
	}
}

// bazaar is an installation with its customers and its trouble.
type bazaar struct {
	in        *installation
	trouble   *trouble
	customers []*hostile.Customer
	// restarts and skews say what else its operator does.
	restarts, skews bool
}

func openBazaar(t *testing.T, g *ground, seed uint64, restarts, skews bool) *bazaar {
	t.Helper()
	b := &bazaar{in: install(t, g, impatientWithSellers), trouble: newTrouble(seed), restarts: restarts, skews: skews}
	b.trouble.over.Store(true)
	b.in.world.Facilitator.Choose, b.in.world.Seller.Choose = b.trouble.facilitatorFault, b.trouble.sellerFault
	b.customers = make([]*hostile.Customer, customers)
	var all sync.WaitGroup
	for i := range b.customers {
		all.Go(func() {
			c, err := b.in.tryEnroll()
			if err != nil {
				t.Error(err)
				return
			}
			first := &wish{order: uint64(10 + i), door: hostile.PayerDoor, keyed: true}
			b.trouble.add(first)
			// It makes the chain known to the store before anything goes wrong.
			ctx := bounded(t)
			var r hostile.Result
			for !r.Done && ctx.Err() == nil { // on a busy machine purser's patience may end first
				r = c.Buy(ctx, b.in.world.SellerURL, first.door, hostile.Order{ID: first.order, Key: "first"})
			}
			if !r.Done {
				t.Errorf("without any trouble the answer is %s", r)
			}
			b.customers[i] = c
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	b.trouble.over.Store(false)
	return b
}

// trade lets customers and operator do what they do until enough has happened.
func (b *bazaar) trade(t *testing.T, luck *rand.Rand) {
	ctx, end := context.WithTimeout(context.Background(), patience)
	defer end()
	var shoppers, operator sync.WaitGroup
	for i, c := range b.customers {
		// Without a key, who asks again by another clock buys again.
		shoppers.Go(func() { b.trouble.shop(ctx, b.in.world, c, i, b.skews, func(key string) { b.in.noticed(t, key) }) })
	}
	operation, stop := context.WithCancel(context.Background())
	operator.Go(func() { operate(operation, t, b.in, luck, b.restarts, b.skews) })
	for ctx.Err() == nil && !b.trouble.enough() {
		time.Sleep(50 * time.Millisecond)
	}
	end()
	b.trouble.over.Store(true)
	shoppers.Wait()
	stop()
	operator.Wait()
	b.in.free.Store(1 << 40)
	b.in.skew.Store(0)
	b.in.world.Calm()
}

// tell shows what is known of the orders that a finding names.
func (b *bazaar) tell(t *testing.T, f hostile.Finding, rows []*pay.Payment) {
	t.Helper()
	b.trouble.mu.Lock()
	defer b.trouble.mu.Unlock()
	for order, w := range b.trouble.wishes {
		if !strings.Contains(f.Detail, fmt.Sprintf("order %d ", order)) {
			continue
		}
		t.Logf("order %d, %s, with a key: %v: %s", order, w.door, w.keyed, strings.Join(w.story, "\n\t"))
		for _, row := range rows {
			if hostile.OrderOf(row.Terms.Amount.Big()) == order {
				t.Logf("payment %s of %s, %s, answered: %v, unanswered: %v, created %s, closed %s, reason %q, notes %v", row.ID,
					row.Terms.Amount, row.Labels(), row.Answered, row.Unanswered, row.Created.Format(clockTime),
					row.Closed.Format(clockTime), row.Reason, row.Notes)
			}
		}
	}
}

// balance audits every customer.
func (b *bazaar) balance(t *testing.T) {
	t.Helper()
	transfers, payments := 0, 0
	for _, c := range b.customers {
		books, ledger := b.in.account(t, c)
		transfers, payments = transfers+len(ledger.Transfers), payments+len(books.Payments)
		key, err := b.in.payer.Resolve(bounded(t), c.Key)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := b.in.books.Payments(bounded(t), key, "", 500, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(books.Payments) {
			t.Fatalf("%d payments, of which %d are seen", len(books.Payments), len(rows))
		}
		for _, f := range hostile.Audit(books, ledger, b.trouble.allowed(rows)) {
			t.Errorf("%s, %s", c.Wallet, f)
			b.tell(t, f, rows)
		}
	}
	if err := b.in.store.Check(bounded(t)); err != nil {
		t.Error(err)
	}
	b.trouble.mu.Lock()
	defer b.trouble.mu.Unlock()
	t.Logf("%d orders, %d payments, %d transfers, %d kinds of faults met", len(b.trouble.wishes), payments, transfers, len(b.trouble.met))
	if transfers < customers || len(b.trouble.met) < enoughKinds {
		t.Error("hardly anything happened")
	}
}

func randomRun(t *testing.T, seed uint64) {
	g := realGround(t)
	bazaars := []*bazaar{
		openBazaar(t, g, seed, false, false), openBazaar(t, g, seed+1, true, false), openBazaar(t, g, seed+2, false, true),
	}
	var trade sync.WaitGroup
	for n, b := range bazaars {
		trade.Go(func() { b.trade(t, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	trade.Wait()
	for _, c := range bazaars {
		for _, customer := range c.customers {
			c.in.quiet(t, customer)
		}
		c.in.world.Late(bounded(t))
	}
	g.pass(t, 3*time.Hour)
	var all []*installation
	for _, b := range bazaars {
		all = append(all, b.in)
	}
	closeBooks(t, g, all...)
	for _, b := range bazaars {
		b.balance(t)
	}
}
