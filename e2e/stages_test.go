package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

// moment says where a payment is held: the chain, the facilitator and the seller run in the test's
// process.
type moment string

const (
	atVerify        moment = "the facilitator has the payload to verify"
	atSettle        moment = "the facilitator has the payload to settle"
	afterSettle     moment = "the facilitator has settled and not answered"
	beforeChallenge moment = "the seller has not asked for money yet"
	beforeSettling  moment = "the seller has the payload"
	afterSettling   moment = "the seller has settled and not answered"
	midBody         moment = "half of the answer is delivered"
)

// way is a customer's way of buying.
type way string

const (
	api       way = "api"
	proxied   way = "proxy"
	beside    way = "sidecar"
	inTunnel  way = "intercepted"
	inTunnel2 way = "intercepted, HTTP/2"
)

// stage is a payment in flight, and what becomes of it when its purser ends before the answer comes.
type stage struct {
	moment moment
	way    way
	gone   bool   // its customer has hung up
	left   string // its state in the journal then; "" if there is no payment
	final  string // its state when recovery is through
}

// stages returns all stages. A party settles what it has received, even when its caller has left.
func stages() []stage {
	list := []stage{
		{atVerify, api, false, "open", "void"},
		{atSettle, api, false, "open", "settled"},
		{afterSettle, api, false, "open", "settled"},
		{atSettle, api, true, "open", "settled"},
	}
	for _, w := range []way{proxied, beside, inTunnel, inTunnel2} {
		list = append(
			list, stage{beforeChallenge, w, false, "", ""}, stage{beforeSettling, w, false, "open", "settled"},
			stage{afterSettling, w, false, "open", "settled"}, stage{midBody, w, false, "settled", "settled"},
			stage{beforeSettling, w, true, "open", "settled"},
		)
	}
	return list
}

// intercepted reports whether the payment's connection is one that the server has given away.
func (s stage) intercepted() bool { return s.way == inTunnel || s.way == inTunnel2 }

// count returns the number of stages in a state.
func count(state func(stage) string, is string) (n int) {
	for _, s := range stages() {
		if state(s) == is {
			n++
		}
	}
	return n
}

func left(s stage) string  { return s.left }
func final(s stage) string { return s.final }

// held is an answer that waits.
type held struct {
	once sync.Once
	came chan struct{} // closed when a payment is held here
	open chan struct{} // closed when it may go
}

// here waits until the answer may go.
func (h *held) here() {
	h.once.Do(func() { close(h.came) })
	<-h.open
}

// drain is a purser with a payment in each stage. A stage's order is its place in stages, from 1.
type drain struct {
	*hostile.World
	*purser
	site         site
	agent, owner *hostile.Customer
	clock        *process.Clock
	chain        *ledger.Ledger

	held    []*held
	results []chan error // what became of each stage's request

	mu   sync.Mutex
	came []uint64 // the orders that reached the seller
}

// holding bounds the time that stages are held. purser waits 30 s for a facilitator's /verify in
// any case.
const holding = 4 * time.Minute

// lateOrder is the first of those that are asked for when purser ends.
const lateOrder = 1000

// startDrain starts a purser and brings a payment to each stage. Its shipped configuration may be edited.
func startDrain(t *testing.T, validity time.Duration, edit ...string) *drain {
	t.Helper()
	d := &drain{clock: process.NewClock(t)}
	for range stages() {
		d.held = append(d.held, &held{came: make(chan struct{}), open: make(chan struct{})})
		d.results = append(d.results, make(chan error, 1))
	}
	d.chain = process.StartLedger(t, d.clock)
	d.World = process.StartHostile(t, d.chain, d.clock, validity)
	d.Facilitator.Choose = d.facilitate
	d.Seller.Choose = d.sell
	d.site = startSite(t, nameOther, http.HandlerFunc(d.serve))
	t.Cleanup(func() { d.letGo(func(stage) bool { return true }) }) // before the servers wait for their handlers

	key := "pk_" + strings.Repeat("drain", 6)
	d.purser = newPurser(t, d.FacilitatorURL, "PURSER_RPC_URL="+d.RPCURL, d.clock.Setting(), "PURSER_KEY="+key, "PURSER_UPSTREAM="+d.site.plain)
	d.Binary = process.Program(t, process.Failpoints)
	d.Config = process.Shipped(t, append([]string{process.ProxyBlock, process.ProxyBlock + env.proxyDirectives()}, edit...)...)
	d.start(t)
	ctx := t.Context()
	var errs [2]error
	d.agent, errs[0] = hostile.Enroll(ctx, d.URL(""))
	d.owner, errs[1] = hostile.Deployment(ctx, d.URL(""), key)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*hostile.Customer{d.agent, d.owner} {
		c.Patience = holding
		if err := d.Fund(ctx, c.Wallet, money.New(funds)); err != nil {
			t.Fatal(err)
		}
	}
	leave := make([]context.CancelFunc, len(stages()))
	hold := func(some func(stage) bool) {
		t.Helper()
		for i, s := range stages() {
			if some(s) {
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(cancel)
				leave[i] = cancel
				go func() { d.results[i] <- d.buy(ctx, t, s.way, uint64(i+1)) }()
			}
		}
		for i, s := range stages() {
			if some(s) {
				d.awaitHeld(t, i)
				if s.gone {
					leave[i]()
				}
			}
		}
	}
	verifies := func(s stage) bool { return s.moment == atVerify }
	hold(func(s stage) bool { return !verifies(s) })
	process.Eventually(t, time.Minute, func() string { // the books are written behind the answers
		if n := len(d.rows(t, "settled")); n != count(left, "settled") {
			return fmt.Sprintf("%d payments are settled", n)
		}
		return ""
	})
	hold(verifies) // last: purser waits least for those
	return d
}

// awaitHeld waits until a stage's payment is held.
func (d *drain) awaitHeld(t *testing.T, i int) {
	t.Helper()
	select {
	case <-d.held[i].came:
	case err := <-d.results[i]:
		t.Fatalf("%+v: ended before it was held: %v", stages()[i], err)
	case <-time.After(time.Minute):
		t.Fatalf("%+v: not held", stages()[i])
	}
}

// at returns the place where an order is held, if a stage holds it.
func (d *drain) at(order uint64) (moment, *held) {
	if order < 1 || order > uint64(len(d.held)) {
		return "", nil
	}
	return stages()[order-1].moment, d.held[order-1]
}

// facilitate is the facilitator's part of holding.
func (d *drain) facilitate(c *hostile.Call) (hostile.FacilitatorFault, bool) {
	m, h := d.at(hostile.OrderOf(c.Authorization.Value.Big()))
	do := map[moment]func(*hostile.Call){
		atVerify:    func(c *hostile.Call) { h.here(); c.Send(c.Serve()) },
		atSettle:    func(c *hostile.Call) { h.here(); c.Send(c.Serve()) },
		afterSettle: func(c *hostile.Call) { answer := c.Serve(); h.here(); c.Send(answer) },
	}[m]
	path := hostile.Settle
	if m == atVerify {
		path = hostile.Verify
	}
	return hostile.FacilitatorFault{Name: string(m), On: path, Do: do}, do != nil && c.Path == path
}

// sell is the seller's.
func (d *drain) sell(v *hostile.Visit) (hostile.SellerFault, bool) {
	m, h := d.at(v.Order)
	do := map[moment]func(*hostile.Visit){
		beforeChallenge: func(v *hostile.Visit) { h.here(); v.Serve() },
		beforeSettling: func(v *hostile.Visit) {
			h.here()
			tx, _ := v.Settle() // whether or not the customer is still there
			v.Deliver(v.Receipt(tx))
		},
		afterSettling: func(v *hostile.Visit) {
			tx, _ := v.Settle()
			h.here()
			v.Deliver(v.Receipt(tx))
		},
	}[m]
	step := hostile.Paid
	if m == beforeChallenge {
		step = hostile.Unpaid
	}
	return hostile.SellerFault{Name: string(m), On: step, Do: do}, do != nil && v.Step == step
}

// serve is the seller, with the answers that are held in the middle.
func (d *drain) serve(w http.ResponseWriter, r *http.Request) {
	order, _ := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	d.mu.Lock()
	d.came = append(d.came, order)
	d.mu.Unlock()
	if m, h := d.at(order); m == midBody && paidRequest(r, nil) {
		w = &halves{w, h}
	}
	d.Seller.ServeHTTP(w, r)
}

// halves is an answer whose second half is held.
type halves struct {
	http.ResponseWriter
	held *held
}

func (h *halves) Write(b []byte) (int, error) {
	n, err := h.ResponseWriter.Write(b[:len(b)/2])
	if err == nil {
		err = http.NewResponseController(h.ResponseWriter).Flush()
	}
	if err != nil {
		return n, err
	}
	h.held.here()
	rest, err := h.ResponseWriter.Write(b[n:])
	return n + rest, err
}

// buy asks for an order once. The error is nil if all of what was asked for came.
func (d *drain) buy(ctx context.Context, t *testing.T, w way, order uint64) error {
	ctx, cancel := context.WithTimeout(ctx, holding)
	defer cancel()
	var r hostile.Result
	switch w {
	case api:
		r = d.agent.Buy(ctx, d.site.plain, hostile.PayerDoor, hostile.Order{ID: order})
	case proxied:
		r = d.agent.Buy(ctx, d.site.plain, hostile.ProxyDoor, hostile.Order{ID: order})
	case beside:
		r = d.owner.BuyBeside(ctx, d.SidecarURL(), hostile.Order{ID: order})
	case inTunnel, inTunnel2:
		client := (&payer{host: d.Host(), key: d.agent.Key}).behind(t, w == inTunnel2)
		got, err := process.Ask(ctx, client, http.MethodGet, fmt.Sprintf("%s/buy?id=%d", d.site.https, order), "")
		if err == nil && got.Body != fmt.Sprintf(`{"order":%d}`, order) {
			err = fmt.Errorf("%d: %q", got.Status, got.Body)
		}
		return err
	}
	if r.Done && r.Err == nil {
		return nil
	}
	return errors.New(r.String())
}

// letGo ends the holding of some stages.
func (d *drain) letGo(some func(stage) bool) {
	for i, s := range stages() {
		select {
		case <-d.held[i].open:
			continue
		default:
		}
		if some(s) {
			close(d.held[i].open)
		}
	}
}
