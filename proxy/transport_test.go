package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// transport is a paying transport over a plain one, without a proxy in between.

func (w *world) transport(next *http.Transport, o TransportOptions) *Transport {
	w.t.Helper()
	if next == nil {
		next = &http.Transport{DisableCompression: true}
	}
	w.t.Cleanup(next.CloseIdleConnections)
	o.Payer, o.Next, o.Door = w.payer, next, pay.DoorTransport
	tr, err := NewTransport(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return tr
}

// trip sends one request for a call and reads the answer.

func (w *world) trip(tr *Transport, call *Call, r *http.Request) (answer, error) {
	w.t.Helper()
	ctx := r.Context()
	if ctx.Done() == nil {
		ctx = w.t.Context()
	}
	resp, err := tr.RoundTrip(r.WithContext(WithCall(ctx, call)))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp, string(b)}, err
}

func (w *world) call() *Call { return NewCall(w.key, "", "") }

// A load balancer tries several times for one incoming request: one payment, and one send

// for each of its attempts.

func TestAttemptsOfOneCall(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		w, s := newWorld(t), newSeller(t)
		s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			if n < 4 {
				hangUp(rw)
				return
			}
			s.receipt(rw, n)
			_, _ = io.Copy(rw, r.Body)
		}
		tr, call := w.transport(nil, TransportOptions{}), w.call()
		var id string
		for i := range 3 {
			_, err := w.trip(tr, call, request(t, method, s.URL+"/x", strings.NewReader("body")))
			var lost *SendError
			if !errors.As(err, &lost) || lost.Payment.State != pay.Open {
				t.Fatalf("%s, attempt %d: %v", method, i, err)
			}
			id = lost.Payment.ID
			s.expect(1, i+1, 1)
		}
		a, err := w.trip(tr, call, request(t, method, s.URL+"/x", strings.NewReader("body")))
		if err != nil || a.paid(t) != id || a.body != "body" {
			t.Fatalf("%s: %v %v %q", method, err, a.Header, a.body)
		}
		s.expect(1, 4, 1)
		call.Finish(true)
		call.Finish(false) // only the first counts
		if p := w.closed(id); p.State != pay.Settled || !p.Answered || p.Door != pay.DoorTransport {
			t.Errorf("%s: %+v", method, p)
		}
		// A finished call pays no more, and its payload goes nowhere else.
		if a, err := w.trip(tr, call, request(t, method, s.URL+"/x", nil)); err != nil || a.StatusCode != 402 {
			t.Errorf("%v %v", a, err)
		}
		s.expect(2, 4, 1)
	}
}

// The payload of a call is not sent with another request.

func TestCallPaysForOneRequest(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	tr, call := w.transport(nil, TransportOptions{}), w.call()
	a, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	a.paid(t)
	for _, r := range []*http.Request{request(t, "GET", s.URL+"/y", nil), request(t, "POST", s.URL+"/x", nil)} {
		if b, err := w.trip(tr, call, r); err != nil || b.StatusCode != 402 {
			t.Errorf("%v %v", b, err)
		}
	}
	call.Finish(true)
	s.expect(3, 1, 1)
}

func TestWithoutCall(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	resp, err := w.transport(nil, TransportOptions{}).RoundTrip(request(t, "GET", s.URL+"/x", nil, "Purser-Payment", "forged"))
	if err != nil || resp.StatusCode != 402 || s.unpaid[0].Header.Get("Purser-Payment") != "" {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// A request that is reset on a kept connection is one that http.Transport would send again.

// A server that closes its connections without a word may do so under a paid request. That

// must cost a repeat at most, never a second payment.

// The address may change between the challenge and the paid request: then nothing leaves.

// When the seller cannot be connected to for the paid request, nothing was paid.

// After the headers the body is the caller's, who may leave.

// Behind a load balancer a repeat may go elsewhere: it is known by what the client asked.

func TestRepeatElsewhere(t *testing.T) {
	t.Parallel()
	w, a, b := newWorld(t), newSeller(t), newSeller(t)
	a.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { hangUp(rw) }
	tr := w.transport(nil, TransportOptions{})
	var ids []string
	for _, s := range []*seller{a, b} {
		call := w.call()
		call.URL = "http://front.example/x"
		_, err := w.trip(tr, call, request(t, "GET", s.URL+"/x", nil))
		ids = append(ids, call.Payment().ID)
		call.Finish(err == nil)
		if (err == nil) != (s == b) {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("two payments: %v", ids)
	}
}

// Who repeats is served even when the seller's challenge has become unreadable.

func TestRepeatWithUnreadableChallenge(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			hangUp(rw)
			return
		}
		s.receipt(rw, n)
	}
	if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusBadGateway {
		t.Fatal(a.StatusCode)
	}
	s.challenge = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(x402.HeaderRequired, "???")
		rw.WriteHeader(402)
	}
	w.get(s.URL + "/x").paid(t)
	w.get(s.URL+"/x").declined(t, DeclinedUnreadable, true) // answered now: a new purchase
	s.expect(3, 2, 1)
}

func TestNoWallet(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	if err := w.books.DeleteWallet(context.Background(), w.key, w.wallet.ID); err != nil {
		t.Fatal(err)
	}
	w.get(s.URL+"/x").declined(t, DeclinedNoWallet, true)
}

// Without the journal nobody knows whether a payload for this request is out, so its
// challenge is not handed on.
func TestClosedPayer(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	if err := w.payer.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	a := w.get(s.URL + "/x")
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get(x402.HeaderRequired) != "" || !strings.Contains(a.body, DeclinedUnavailable) {
		t.Fatalf("got %d %v %s", a.StatusCode, a.Header, a.body)
	}
	s.expect(1, 0, 0)
}

// With a facilitator the payload is shown to it first, and does not leave when refused.

func TestFacilitatorRefuses(t *testing.T) {
	t.Parallel()
	var reason atomic.Value
	verifier := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if why := reason.Load().(string); why != "" {
			_, _ = fmt.Fprintf(rw, `{"isValid":false,"invalidReason":%q}`, why)
			return
		}
		_, _ = io.WriteString(rw, `{"isValid":true}`)
	}))
	defer verifier.Close()
	w := newWorld(t, func(s *setup) {
		f, err := facilitator.New(facilitator.Options{URL: verifier.URL, Transport: &http.Transport{DisableKeepAlives: true}})
		if err != nil {
			t.Fatal(err)
		}
		s.pay.Facilitator = f
	})
	s := newSeller(t)
	for _, c := range []struct{ why, declined string }{
		{"insufficient_funds", DeclinedFunds}, {"invalid_exact_evm_insufficient_balance", DeclinedFunds}, {"kyt_risk_detected", DeclinedRefused},
	} {
		reason.Store(c.why)
		w.get(s.URL+"/x").declined(t, c.declined, true)
	}
	s.expect(3, 0, 0)
	reason.Store("")
	w.get(s.URL + "/x").paid(t)
	s.expect(4, 1, 1)
}

// A client whose key cannot be kept to counts on it all the same: paid without one, its
// repeats would be purchases.
func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSeller(t)
	long := strings.Repeat("k", 255)
	paid := 0
	for _, c := range []struct {
		values []string
		usable bool
	}{
		{nil, true},
		{[]string{"abc"}, true},
		{[]string{`"q-1"`}, true},
		{[]string{long}, true},
		{[]string{long + "k"}, false},
		{[]string{""}, false},
		{[]string{"a b"}, false},
		{[]string{"a\tb"}, false},
		{[]string{"é"}, false},
		{[]string{"a\xffb"}, false},
		{[]string{"a", "b"}, false},
		{[]string{"a", "a"}, false},
		{[]string{"a", ""}, false},
		{[]string{"", ""}, false},
	} {
		var headers []string
		for _, v := range c.values {
			headers = append(headers, "Idempotency-Key", v)
		}
		got := w.get(fmt.Sprintf("%s/%d", s.URL, paid), headers...)
		if !c.usable {
			got.declined(t, DeclinedKeyInvalid, true)
			continue
		}
		paid++
		got.paid(t)
	}
	s.expect(14, paid, paid)
}
