package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The model: callers that buy, repeat and vanish; a facilitator and sellers that settle,
// fail, stay silent or lie; a process that is killed; time. What must hold whatever the
// order: a logical request moves money at most once, every move is in the books or in an
// open row, and every counter is what the rows say.

// logical is one thing that a caller wants once, and all payloads it was given for it.
type logical struct {
	url, idem string
	payments  map[string]bool
	// closed: the caller got its answer, so that asking again without a key is a new wish.
	closed bool
}

type model struct {
	*world
	rapid *rapid.T
	wants []*logical
	// handed are seller-mode payloads that left; a seller may settle them at any time.
	handed map[string]x402.Payload
	lied   map[string]bool
	// misled are payments that an operator declared void although money had moved, or settled
	// although it had not.
	misled map[string]bool
	// leaked are payments that moved, or could, although purser was told that they did not leave:
	// abandoned after they had, or refused by a facilitator that sends all the same.
	leaked map[string]bool
	// blind: for some time there was no RPC to tell of them.
	blind bool
}

// escaped reports whether a payment moved behind purser's back while no RPC could tell.
func (m *model) escaped(id string) bool { return m.blind && m.leaked[id] }

func TestModel(t *testing.T) {
	t.Parallel()
	for _, withChain := range []bool{true, false} {
		t.Run(fmt.Sprintf("chain=%v", withChain), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(t, func(o *pay.Options) {
					if !withChain {
						o.Chain = nil
					}
				})
				m := &model{
					world: w, rapid: rt, handed: map[string]x402.Payload{}, lied: map[string]bool{}, misled: map[string]bool{},
					leaked: map[string]bool{}, blind: !withChain,
				}
				rt.Repeat(map[string]func(*rapid.T){
					"buy":      m.buy,
					"repeat":   m.repeat,
					"insist":   m.insist,
					"proxy":    m.proxy,
					"seller":   m.sellerSettles,
					"receipt":  m.receipt,
					"crash":    func(*rapid.T) { m.restart() },
					"recover":  func(*rapid.T) { m.recoverOnce() },
					"operator": m.operator,
					"rpc": func(rt *rapid.T) {
						if withChain {
							m.disturb(rt)
						}
					},
					"time": func(rt *rapid.T) {
						m.chain.advance(time.Duration(rapid.IntRange(1, 200).Draw(rt, "seconds")) * time.Second)
					},
					"": m.invariants,
				})
				m.end(withChain)
			})
		})
	}
}

var (
	verifyModes = []string{"", "", "", "", "refuse", "refuse-moved", "fail", "unreachable"}
	settleModes = []string{"", "", "", "refuse", "fail", "fail-moved", "moved-unclear", "pending", "lie"}
)

func (m *model) buy(rt *rapid.T) {
	n := len(m.wants)
	want := &logical{url: fmt.Sprintf("https://api.example.com/%d", n), payments: map[string]bool{}}
	if rapid.Bool().Draw(rt, "keyed") {
		want.idem = fmt.Sprintf("idem-%d", n)
	}
	m.wants = append(m.wants, want)
	m.call(rt, want)
}

func (m *model) repeat(rt *rapid.T) {
	if len(m.wants) == 0 {
		return
	}
	want := rapid.SampledFrom(m.wants).Draw(rt, "want")
	if want.idem == "" && (want.closed || m.overdue(want)) {
		return
	}
	m.call(rt, want)
}

// insist is a caller that repeats one request until it is answered, as retrying HTTP
// libraries do.
func (m *model) insist(rt *rapid.T) {
	m.buy(rt)
	want := m.wants[len(m.wants)-1]
	for range rapid.IntRange(1, 4).Draw(rt, "more") {
		if want.idem == "" && (want.closed || m.overdue(want)) {
			return
		}
		if rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
			m.restart()
		}
		m.chain.advance(time.Duration(rapid.IntRange(0, 20).Draw(rt, "pause")) * time.Second)
		m.call(rt, want)
	}
}

// overdue: the window in which a call without a key is a repeat is over.
func (m *model) overdue(want *logical) bool {
	for id := range want.payments {
		if m.chain.clock().After(m.payment(id).ValidBefore().Add(pay.RepeatGrace - time.Second)) {
			return true
		}
	}
	return false
}

// call is one call of POST /v1/pay for a want.
func (m *model) call(rt *rapid.T, want *logical) {
	v, s := rapid.SampledFrom(verifyModes).Draw(rt, "verify"), rapid.SampledFrom(settleModes).Draw(rt, "settle")
	m.fac.mode(v, s)
	settlement := pay.SettlePayer
	if len(want.url)%2 == 0 {
		settlement = pay.SettleSeller
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := rapid.IntRange(0, 9).Draw(rt, "gone") == 0
	if gone {
		cancel()
	}
	a, err := m.payer.Pay(ctx, m.rest(settlement, want.url, "1000", want.idem))
	var failed *pay.FailedError
	if errors.As(err, &failed) && failed.Payment != nil {
		want.payments[failed.Payment.ID] = true
		m.leaked[failed.Payment.ID] = m.leaked[failed.Payment.ID] || v == "refuse-moved"
	}
	if err != nil {
		return
	}
	p := a.Payment()
	want.payments[p.ID] = true
	if settlement == pay.SettlePayer && p.State != pay.Settled {
		rt.Fatalf("a payer payment answered 200 in state %s", p.State)
	}
	if s == "lie" && m.chain.transaction(p.Authorization.Nonce) == "" {
		m.lied[p.ID] = true
	}
	if settlement == pay.SettleSeller {
		m.handed[p.ID] = a.Payload()
	}
	answered := !gone && rapid.IntRange(0, 3).Draw(rt, "answered") > 0
	a.Finish(answered)
	m.settleDown()
	if answered && settlement == pay.SettlePayer {
		want.closed = true
	}
}

// proxy is one request through the proxy: the seller settles, or not, and answers, or not.
func (m *model) proxy(rt *rapid.T) {
	n := len(m.wants)
	want := &logical{url: fmt.Sprintf("https://proxied.example.com/%d", n), payments: map[string]bool{}}
	if rapid.Bool().Draw(rt, "keyed") {
		want.idem = fmt.Sprintf("idem-%d", n)
	}
	m.wants = append(m.wants, want)
	want.closed = true // "repeat" calls REST; the proxy's own repeats are made here
	for range rapid.IntRange(1, 4).Draw(rt, "tries") {
		if m.proxyOnce(rt, want) {
			return
		}
		m.chain.advance(time.Duration(rapid.IntRange(0, 40).Draw(rt, "pause")) * time.Second)
		if rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
			m.restart()
		}
	}
}

func (m *model) proxyOnce(rt *rapid.T, want *logical) (answered bool) {
	m.fac.mode("", "")
	// The price may differ at every try; an unanswered payment is sent again all the same.
	amount := fmt.Sprint(rapid.IntRange(900, 1100).Draw(rt, "price"))
	a, err := m.payer.Open(context.Background(), m.proxied(want.url, amount, want.idem))
	if err != nil {
		return false
	}
	want.payments[a.Payment().ID] = true
	m.handed[a.Payment().ID] = a.Payload()
	tx := ""
	if rapid.Bool().Draw(rt, "moves") {
		tx = m.sellerMoves(a.Payload())
	}
	switch rapid.IntRange(0, 4).Draw(rt, "answer") {
	case 0:
		a.Answer402("settlement_pending")
	case 1:
		if tx == "" && m.chain.transaction(a.Payment().Authorization.Nonce) != "" {
			a.Answer402("invalid_exact_evm_nonce_already_used")
		}
	case 2:
		if tx != "" {
			a.Receipt(x402.Receipt{Success: true, Transaction: tx, Network: "base"})
			answered = true
		}
	case 4:
		m.leaked[a.Payment().ID] = true
		a.Abandon("no connection")
	}
	a.Finish(answered)
	m.settleDown()
	return answered
}

func (m *model) sellerSettles(rt *rapid.T) {
	for id := range m.handed {
		if p := m.payment(id); p.Signature != nil && rapid.Bool().Draw(rt, "settles") {
			m.sellerMoves(m.handed[id])
		}
		return
	}
}

func (m *model) receipt(rt *rapid.T) {
	for id, payload := range m.handed {
		r := x402.Receipt{Success: rapid.Bool().Draw(rt, "success"), Network: "eip155:8453", ErrorReason: "unknown"}
		a, _, err := payload.Authorization()
		if err != nil {
			rt.Fatal(err)
		}
		if r.Success {
			// An honest receipt names the transfer. (A lying one is a test of its own.)
			if r.Transaction = m.chain.transaction(a.Nonce); r.Transaction == "" {
				return
			}
		}
		if _, err := m.payer.PostReceipt(context.Background(), m.key, id, r); err != nil {
			rt.Fatal(err)
		}
		if r.Success {
			m.closeWant(id)
		}
		return
	}
}

// operator resolves a payment, rightly or wrongly, whenever that is allowed.
func (m *model) operator(rt *rapid.T) {
	m.settleDown()
	rows, err := m.store.AllPayments(context.Background(), pay.LabelQuery{Label: "open", Limit: 1000})
	if err != nil || len(rows) == 0 {
		return
	}
	p := rapid.SampledFrom(rows).Draw(rt, "open")
	moved := m.chain.transaction(p.Authorization.Nonce) != ""
	right := rapid.IntRange(0, 3).Draw(rt, "right") > 0
	as := pay.Void
	if moved == right {
		as = pay.Settled
	}
	_, err = m.payer.ResolvePayment(context.Background(), p.ID, pay.Ruling{As: as, Reason: "model"})
	var cannot *pay.UnresolvableError
	switch {
	case err == nil && m.chain.clock().Before(p.ValidBefore()):
		rt.Fatalf("payment %s was resolved while it was valid", p.ID)
	case err == nil && !right:
		m.misled[p.ID] = true
	case err != nil && !errors.As(err, &cannot) && !errors.Is(err, pay.ErrLeaseHeld): // just being let go
		rt.Fatal(err)
	}
}

// disturb takes the RPC away or breaks it, or brings it back.
func (m *model) disturb(rt *rapid.T) {
	switch rapid.SampledFrom([]string{"none", "down", "mute", "well"}).Draw(rt, "rpc") {
	case "none":
		m.opts.Chain, m.blind = nil, true
		m.restart()
	case "down":
		m.chain.rpc(true, false)
	case "mute":
		m.chain.rpc(false, true)
	default:
		m.chain.rpc(false, false)
		m.opts.Chain = m.chain
		m.restart()
	}
}

func (m *model) closeWant(paymentID string) {
	for _, w := range m.wants {
		if w.payments[paymentID] {
			w.closed = true
		}
	}
}

// settleDown waits until releases are written, so that the model's next step sees them.
func (m *model) settleDown() {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if m.store.leases() == 0 {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
	m.rapid.Fatal("a lease was not released")
}

func (m *model) recoverOnce() {
	m.settleDown()
	if _, err := m.payer.RecoverOnce(context.Background()); err != nil {
		m.rapid.Fatal(err)
	}
}

func (m *model) invariants(rt *rapid.T) {
	if err := m.store.check(); err != nil {
		rt.Fatal(err)
	}
	events := map[string]int{}
	for _, e := range m.store.events() {
		if e.Corrects == "" {
			events[e.PaymentID]++
		}
	}
	for _, p := range m.store.payments() {
		moved := m.chain.transaction(p.Authorization.Nonce) != ""
		switch {
		case moved && p.State == pay.Void && !p.Doubted && !m.escaped(p.ID) && (!m.misled[p.ID] || p.Resolution.Proven):
			rt.Fatalf("payment %s moved money and is void: %s", p.ID, p.Reason)
		case p.State == pay.Settled && events[p.ID] != 1:
			rt.Fatalf("settled payment %s has %d spend events", p.ID, events[p.ID])
		case p.State != pay.Settled && events[p.ID] != 0:
			rt.Fatalf("%s payment %s has a spend event", p.State, p.ID)
		}
	}
	for _, w := range m.wants {
		moves := 0
		for id := range w.payments {
			if m.misled[id] || m.escaped(id) { // an operator who declares a paid payment void causes a second one
				continue
			}
			if m.chain.transaction(m.payment(id).Authorization.Nonce) != "" {
				moves++
			}
		}
		if moves > 1 {
			rt.Fatalf("one request (%s, key %q) moved money %d times", w.url, w.idem, moves)
		}
	}
}

// end lets time pass and then compares the books with the chain.
func (m *model) end(withChain bool) {
	m.settleDown()
	if withChain { // whatever there was before, now there is an RPC that answers
		m.chain.rpc(false, false)
		m.opts.Chain = m.chain
		m.restart()
	}
	m.recoverAll()
	for range 3 { // what was unresolved is looked at each hour
		m.chain.advance(time.Hour)
		m.recoverOnce()
	}
	m.invariants(m.rapid)
	for _, p := range m.store.payments() {
		moved := m.chain.transaction(p.Authorization.Nonce) != ""
		switch {
		case withChain && moved != (p.State == pay.Settled && !p.Disputed) && !m.escaped(p.ID):
			m.rapid.Fatalf("payment %s: moved %v, books say %s %v", p.ID, moved, p.State, p.Flags())
		case withChain && p.State == pay.Open:
			m.rapid.Fatalf("payment %s is still open: %+v", p.ID, p)
		case !withChain && p.State == pay.Open && !p.Refused && !p.Unresolved:
			m.rapid.Fatalf("payment %s is open, expired and not marked unresolved", p.ID)
		case !withChain && p.State == pay.Settled && !moved && !m.lied[p.ID] && !m.misled[p.ID]:
			m.rapid.Fatalf("payment %s is settled without evidence", p.ID)
		}
	}
}
