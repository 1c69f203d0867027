package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Sequences of requests and failures that once cost money at the proxy or the transport.

// A load balancer retries after a send that hung until the payment could no longer be
// repeated. It is still one incoming request: a new payment would be a second one for it.
func TestLateRetryOfOneCallPaysOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ahead time.Duration
	w := newWorld(t, func(s *setup) {
		s.pay.Clock = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
	})
	s := proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
		mu.Lock()
		ahead += 60*time.Second + pay.RepeatGrace + 20*time.Second
		mu.Unlock()
		proxytest.HangUp(rw)
	}
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	var ids []string
	for range 2 {
		lost := w.lost(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
		ids = append(ids, lost.Payment.ID)
	}
	call.Finish(false)
	if n := len(w.Payments()); n != 1 || ids[0] != ids[1] {
		t.Errorf("%d payments for one incoming request: %v", n, ids)
	}
	s.Expect(1, 1, 1)
}

// The first upstream takes the payload and says nothing. The next one asked for the same
// incoming request gets the same payload; a new one would pay both.
func TestSecondUpstreamIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	w, first, second := newWorld(t), proxytest.NewSeller(t), proxytest.NewSeller(t)
	first.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	lost := w.lost(tr, call, proxytest.Request(t, "GET", first.URL+"/x", nil))
	a := w.must(tr, call, proxytest.Request(t, "GET", second.URL+"/x", nil))
	call.Finish(true)
	if id := a.Paid(t); id != lost.Payment.ID || len(w.Payments()) != 1 {
		t.Errorf("%d payments for one incoming request: %s, then %s", len(w.Payments()), lost.Payment.ID, id)
	}
	first.Expect(1, 1, 1)
	second.Expect(0, 1, 1)
}

// A load balancer may not like an answer to the payload, and then not reach the next
// upstream. The first one has the payload all the same: a void payment would be out of the
// books although it is settled later, and the client's repeat would pay again.
func TestNoConnectionAfterAnAnswerIsNotVoid(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { rw.WriteHeader(http.StatusOK) }
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	a := w.must(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
	id := a.Paid(t)
	lost := w.lost(tr, call, proxytest.Request(t, "GET", gone.URL+"/x", nil))
	if lost.Payment.ID != id {
		t.Errorf("got %v, want a lost send of %s", lost, id)
	}
	call.Finish(false)
	if p := w.Closed(id); p.State != pay.Open || p.Answered {
		t.Errorf("%s (%s), answered %t; the seller has the payload", p.State, p.Reason, p.Answered)
	}
	s.Expect(1, 1, 1)
}

// outage is a store that can be told to take no payments.
type outage struct {
	pay.Store
	on atomic.Bool
}

func (o *outage) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	if o.on.Load() {
		return pay.Begun{}, pay.ErrUnavailable
	}
	return o.Store.Begin(ctx, b)
}

// A payload is out, its answer was lost, and the journal cannot be asked when the client
// repeats. Handed the seller's challenge, a client that knows x402 would pay it as well.
func TestNoChallengeDuringAnOutage(t *testing.T) {
	t.Parallel()
	var store *outage
	w := newWorld(t, func(s *setup) {
		s.store = func(real pay.Store) pay.Store {
			store = &outage{Store: real}
			return store
		}
	})
	s := proxytest.NewSeller(t)
	s.LoseAnswers(1)
	if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusBadGateway {
		t.Fatalf("got %d %s", a.StatusCode, a.Text)
	}
	id := w.Payments()[0].ID
	w.Closed(id)

	store.on.Store(true)
	w.get(s.URL+"/x").Short(t, DeclinedUnavailable)
	store.on.Store(false)
	if again := w.get(s.URL + "/x").Paid(t); again != id {
		t.Errorf("payment %s instead of %s after the outage", again, id)
	}
	s.Expect(3, 2, 1)
}

// buggy is a facilitator that panics.
type buggy struct{ pay.Facilitator }

func (buggy) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) { panic("bug") }

// A panic under the lease must not leave a lease that is renewed for ever: no process could
// send or close that payment again, and its money stays reserved.
func TestPanicBesideTheLeaseReleasesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Facilitator = buggy{} })
	s := proxytest.NewSeller(t)
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	func() {
		defer func() {
			if v := recover(); v != "bug" {
				t.Errorf("panic %v", v)
			}
		}()
		defer call.Finish(false)
		_, err := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
		t.Errorf("no panic but %v", err)
	}()
	list := w.Payments()
	if len(list) != 1 {
		t.Fatalf("%d payments", len(list))
	}
	if p := w.Closed(list[0].ID); p.State != pay.Open {
		t.Errorf("%s (%s)", p.State, p.Reason) // whether the facilitator has kept the payload is not known
	}
	s.Expect(1, 0, 0)
}
