package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// prepaying is a transport that has paid for GET and POST of /x at a seller.
type prepaying struct {
	*world
	*seller
	tr *Transport
}

// endpoint is that of POST /x.
func (p *prepaying) endpoint() endpoint {
	return endpoint{
		key: p.key.ID, method: "POST", url: p.URL + "/x", host: strings.TrimPrefix(p.URL, "http://"), client: pay.HashOf(""),
	}
}

func newPrepaying(t *testing.T, o TransportOptions, change ...func(*setup)) *prepaying {
	t.Helper()
	p := &prepaying{world: newWorld(t, change...), seller: newSeller(t)}
	if o.Prepay == nil {
		o.Prepay = []string{"127.0.0.1"}
	}
	p.tr = p.transport(nil, o)
	for _, method := range []string{"GET", "POST"} {
		p.buy(t, method, "/x", "first").paid(t)
	}
	p.expect(2, 2, 2)
	return p
}

// buy makes one request of one client, as a door would.
func (p *prepaying) buy(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	a, err := p.try(t.Context(), method, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (p *prepaying) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	r := request(p.world.t, method, p.URL+path, nil, header...)
	if method == "POST" {
		r = request(p.world.t, method, p.URL+path, io.MultiReader(strings.NewReader(body)), header...)
	}
	call := NewCall(p.key, "", IdempotencyKey(r.Header))
	a, err := p.trip(p.tr, call, r.WithContext(ctx))
	call.Finish(err == nil && ctx.Err() == nil)
	return a, err
}

func TestPrepay(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{})
	for i := range 3 {
		p.buy(t, "GET", "/x", "").paid(t)
		body := fmt.Sprint("another body ", i)
		if a := p.buy(t, "POST", "/x", body); a.paid(t) == "" || a.body != "paid:POST:"+body {
			t.Errorf("%q", a.body)
		}
		p.expect(2, 4+2*i, 4+2*i) // the payment came along, and each was a new one
	}
	// Only what was paid for is known.
	p.buy(t, "GET", "/x?q", "").paid(t)
	p.buy(t, "PUT", "/x", "").paid(t)
	other, _, err := p.payer.CreateKey(t.Context(), pay.KeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	call := NewCall(other, "", "")
	a, err := p.trip(p.tr, call, request(t, "GET", p.URL+"/x", nil))
	call.Finish(true)
	if err != nil {
		t.Fatal(err)
	}
	a.declined(t, DeclinedNoWallet, true)
	p.expect(5, 10, 10)
	for _, row := range p.payments() {
		if row := p.closed(row.ID); row.State != pay.Settled || !row.Answered {
			t.Errorf("%+v", row)
		}
	}
}

func TestPrepayIsOptional(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{{"example.com", "*.example.com"}, {}} {
		p := newPrepaying(t, TransportOptions{PayOptions: PayOptions{Prepay: hosts}})
		p.buy(t, "GET", "/x", "").paid(t)
		p.expect(3, 3, 3)
	}
}

func TestPrepayForgets(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	p := newPrepaying(t, TransportOptions{Clock: clock}, func(s *setup) { s.pay.Clock = clock })
	ahead.Store(int64(50 * time.Second))
	p.buy(t, "GET", "/x", "").paid(t)
	p.expect(2, 3, 3)
	ahead.Store(int64(61 * time.Second)) // being used does not make it last
	p.buy(t, "GET", "/x", "").paid(t)
	p.expect(3, 4, 4)
	p.buy(t, "GET", "/x", "").paid(t)
	p.expect(3, 5, 5)
}

// What the seller has asked for before is not what it takes now.
func TestPrepayRefused(t *testing.T) {
	t.Parallel()
	for reason, state := range map[string]pay.State{
		"No matching payment requirements": pay.Open, "invalid_exact_evm_nonce_already_used": pay.Settled,
	} {
		p := newPrepaying(t, TransportOptions{})
		p.price = "20000"
		p.paid = func(rw http.ResponseWriter, r *http.Request, _ int) { p.writeChallenge(rw, r, p.price, reason) }
		a := p.buy(t, "POST", "/x", "second")
		a.declined(t, DeclinedPrepay, false)
		view := a.problem(t)
		if view.Payment == nil || view.Payment.State != state || a.Header.Get(HeaderPayment) != view.Payment.ID || a.Header.Get(HeaderAmount) != "10000" {
			t.Errorf("%v %s", a.Header, a.body)
		}
		p.expect(2, 3, 3)
		if row := p.closed(view.Payment.ID); row.State != state || row.Answered {
			t.Errorf("%+v", row)
		}
		// The client's repeat asks first and gets the same payment, and nothing new is learnt.
		p.paid = func(rw http.ResponseWriter, _ *http.Request, n int) { p.receipt(rw, n) }
		if id := p.buy(t, "POST", "/x", "second").paid(t); id != view.Payment.ID {
			t.Errorf("payment %s after %s", id, view.Payment.ID)
		}
		p.expect(3, 4, 3)
		p.buy(t, "POST", "/x", "third").paid(t)
		p.buy(t, "POST", "/x", "fourth").paid(t)
		p.expect(5, 6, 5)
	}
}

// A load balancer that tries once more sends the same payload, and nothing else is signed.
func TestPrepayRefusedAtEveryAttempt(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{})
	p.paid = func(rw http.ResponseWriter, r *http.Request, _ int) { p.writeChallenge(rw, r, "20000", "no") }
	call := p.call()
	for i := range 3 {
		a, err := p.trip(p.tr, call, request(t, "POST", p.URL+"/x", strings.NewReader("second")))
		if err != nil {
			t.Fatal(err)
		}
		a.declined(t, DeclinedPrepay, false)
		p.expect(2, 3+i, 3)
	}
	call.Finish(true)
}

func TestPrepayMeetsAnError(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{})
	p.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 3 {
			http.Error(rw, "broken", 500)
			return
		}
		p.receipt(rw, n)
	}
	a := p.buy(t, "POST", "/x", "second")
	if a.StatusCode != 500 || a.Header.Get(HeaderPayment) == "" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	p.expect(2, 3, 3)
	if id := p.buy(t, "POST", "/x", "second").paid(t); id != a.Header.Get(HeaderPayment) {
		t.Error("a second payment")
	}
	p.expect(3, 4, 3)
}

// A prepaid request whose answer is lost is repeated with its payment, with a key or not.
func TestPrepayLosesItsAnswer(t *testing.T) {
	t.Parallel()
	for _, header := range [][]string{nil, {"Idempotency-Key", "k-1"}} {
		p := newPrepaying(t, TransportOptions{})
		p.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			switch n {
			case 3, 4:
				hangUp(rw)
			case 5:
				p.writeChallenge(rw, r, p.price, "no")
			default:
				p.receipt(rw, n)
			}
		}
		var ids []string
		for range 2 {
			_, err := p.try(t.Context(), "POST", "/x", "second", header...)
			var lost *SendError
			if !errors.As(err, &lost) {
				t.Fatal(err)
			}
			ids = append(ids, lost.Payment.ID)
		}
		// It is ordinary again: what the seller says of an earlier payment is not about prepaying.
		p.tr.prepay.learn(remembered{endpoint: p.endpoint(), challenge: mustChallenge(t)})
		p.buy(t, "POST", "/x", "second", header...).declined(t, DeclinedOpen, false)
		if id := p.buy(t, "POST", "/x", "second", header...).paid(t); id != ids[0] || id != ids[1] {
			t.Errorf("payments %v and %s", ids, id)
		}
		p.expect(4, 6, 3)
		if header != nil { // the key stands for another request
			p.buy(t, "POST", "/x", "third", header...).declined(t, DeclinedReused, true)
		}
	}
}

// With a key that cannot be kept to nothing is paid, ahead or at all.
func TestPrepayWithABadKey(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{})
	p.buy(t, "POST", "/x", "second", "Idempotency-Key", "a b").declined(t, DeclinedKeyInvalid, true)
	p.expect(3, 2, 2)
	p.buy(t, "POST", "/x", "third").paid(t) // ahead, as before
	p.expect(3, 3, 3)
}

// What policy does not let go is asked for in the ordinary way.
func TestPrepayAgainstPolicy(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{}, func(s *setup) {
		s.pay.DefaultPolicy = pay.Policy{MaxPayment: usdc(1), DailyBudget: pay.CapOf(x402.NewAmount(25_000))}
	})
	p.buy(t, "POST", "/x", "second").declined(t, "daily-budget", true)
	p.expect(3, 2, 2)
	p.price = "5000" // the seller has become cheaper
	p.buy(t, "GET", "/x", "").paid(t)
	p.expect(4, 3, 3)
}

func TestPrepayWithoutAJournal(t *testing.T) {
	t.Parallel()
	var store *outage
	p := newPrepaying(t, TransportOptions{}, func(s *setup) {
		s.store = func(real pay.Store) pay.Store {
			store = &outage{Store: real}
			return store
		}
	})
	store.on.Store(true)
	p.challenge = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "free now") }
	if a := p.buy(t, "GET", "/x", ""); a.StatusCode != 200 || a.body != "free now" || a.Header.Get(HeaderPayment) != "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	p.expect(3, 2, 2)
}

// A body that cannot be kept is sent unpaid, all of it.
func TestPrepayWithALongBody(t *testing.T) {
	t.Parallel()
	p := newPrepaying(t, TransportOptions{PayOptions: PayOptions{MaxReplay: 1000, MaxSpool: 5000, SpoolDir: t.TempDir()}})
	p.buy(t, "POST", "/x", strings.Repeat("y", 5000)).paid(t)
	p.expect(2, 3, 3)
	long := strings.Repeat("0123456789", 1000)
	var got string
	p.challenge = func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
		p.writeChallenge(rw, r, p.price, "")
	}
	p.buy(t, "POST", "/x", long).declined(t, DeclinedBodyTooLarge, true)
	if got != long {
		t.Errorf("the seller got %d of %d bytes", len(got), len(long))
	}
	p.expect(3, 3, 3)
}

// The address is judged before the payload is written.
func TestPrepayOverPlainHTTP(t *testing.T) {
	t.Parallel()
	var forbidden atomic.Bool
	p := newPrepaying(t, TransportOptions{MayPayPlain: func(netip.Addr) bool { return !forbidden.Load() }})
	forbidden.Store(true)
	p.buy(t, "POST", "/x", "second").declined(t, DeclinedPlainHTTP, true)
	p.expect(3, 2, 2)
	if row := p.payments()[0]; p.closed(row.ID).State != pay.Void {
		t.Errorf("%+v", row)
	}
}

// A client that is cut off and repeats at once would be paid for twice if its repeat were
// prepaid before the first call has ended.
func TestPrepayWaitsForAnIdenticalRequest(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"prepaid", "asked"} {
		t.Run(first, func(t *testing.T) {
			p := newPrepaying(t, TransportOptions{})
			arrived, goOn := make(chan struct{}), make(chan struct{})
			p.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				if n == 3 {
					close(arrived)
					<-goOn
				}
				p.receipt(rw, n)
			}
			if first == "asked" {
				p.tr.prepay.forget(p.endpoint())
			}
			unpaid, _, _ := p.counts()
			ctx, cut := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := p.try(ctx, "POST", "/x", "second")
				done <- err
			}()
			<-arrived
			if first == "asked" {
				unpaid++
				p.tr.prepay.learn(remembered{endpoint: p.endpoint(), challenge: mustChallenge(t)})
			}
			cut() // and nobody has told the first call's send
			repeat := make(chan answer, 1)
			go func() {
				a, err := p.try(t.Context(), "POST", "/x", "second")
				if err != nil {
					t.Error(err)
				}
				repeat <- a
			}()
			eventually(t, "the repeat asks first", func() bool { u, _, _ := p.counts(); return u == unpaid+1 })
			close(goOn)
			<-done
			a := <-repeat
			if n := len(p.payments()); n != 3 || a.paid(t) != p.payments()[0].ID {
				t.Errorf("%d payments", n)
			}
			// Another body is another request.
			p.buy(t, "POST", "/x", "third").paid(t)
			p.expect(unpaid+1, 5, 4)
		})
	}
}

func mustChallenge(t *testing.T) x402.Challenge {
	t.Helper()
	c, err := x402.DecodeHeader(v2Challenge("10000", "http://x/", ""))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// While a request is at the stage where it may yet be paid for, the same one is not prepaid.
func TestPrepayWaitsForAnUnpaidRequest(t *testing.T) {
	t.Parallel()
	p, err := newPrepay(PayOptions{Prepay: []string{"*"}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	where := endpoint{key: "k", url: "u"}
	decided := p.enter(where)
	if _, alone := p.alone(t.Context(), where, "id"); alone {
		t.Error("not alone")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		decided()
		decided() // once counts
	}()
	var left func()
	eventually(t, "alone", func() (alone bool) {
		left, alone = p.alone(t.Context(), where, "id")
		return alone
	})
	<-ended
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, alone := p.alone(gone, where, "id"); alone {
		t.Error("twice alone")
	}
	left()
	if len(p.under) != 0 {
		t.Errorf("%v", p.under)
	}
}

func TestPrepayMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, err := newPrepay(PayOptions{Prepay: []string{"*"}, PrepayFor: time.Minute}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) endpoint { return endpoint{url: fmt.Sprint(i)} }
	for i := range maxPrepay + 10 {
		p.learn(remembered{endpoint: at(i)})
		_, _ = p.find(at(0)) // is in use
	}
	for i, want := range map[int]bool{0: true, 1: false, 10: false, 11: true, maxPrepay + 9: true} {
		if _, ok := p.find(at(i)); ok != want {
			t.Errorf("%d: %t", i, ok)
		}
	}
	if len(p.known) != maxPrepay || p.recent.Len() != maxPrepay {
		t.Errorf("%d, %d", len(p.known), p.recent.Len())
	}
	p.refused(at(0))
	p.forget(at(0))
	p.learn(remembered{endpoint: at(0)})
	now = now.Add(prepayPause - time.Second)
	p.learn(remembered{endpoint: at(0)})
	if _, ok := p.find(at(0)); ok {
		t.Error("learnt while paused")
	}
	now = now.Add(time.Second)
	p.learn(remembered{endpoint: at(0)})
	if _, ok := p.find(at(0)); !ok {
		t.Error("paused for ever")
	}
	now = now.Add(time.Minute)
	if _, ok := p.find(at(0)); ok {
		t.Error("remembered for ever")
	}
	p.learn(remembered{})
	if _, ok := p.find(endpoint{}); ok {
		t.Error("the zero endpoint")
	}
}

// An answer that did not reach the client teaches nothing.
func TestPrepayLearnsFromDeliveries(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	tr := w.transport(nil, TransportOptions{PayOptions: PayOptions{Prepay: []string{"*"}}})
	for _, path := range []string{"/a", "/b"} {
		call := w.call()
		if _, err := w.trip(tr, call, request(t, "GET", s.URL+path, nil)); err != nil {
			t.Fatal(err)
		}
		call.Finish(path == "/b")
	}
	if len(tr.prepay.known) != 1 {
		t.Errorf("known: %v", tr.prepay.known)
	}
}

// What a session has for free is not paid for because others, without one, had to.
func TestPrepayKnowsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSeller(t)
	serve := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" && r.Header.Get(x402.HeaderSignature) == "" {
			_, _ = io.WriteString(rw, "a session")
			return
		}
		serve.ServeHTTP(rw, r)
	})
	tr := w.transport(nil, TransportOptions{PayOptions: PayOptions{Prepay: []string{"127.0.0.1"}}})
	for _, h := range [][]string{nil, {"Cookie", "session=paid"}} {
		call := w.call()
		a, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil, h...))
		call.Finish(err == nil)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v %d", err, a.StatusCode)
		}
	}
	s.expect(1, 1, 1)
}
