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
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transport returns a paying transport over a plain one, without a proxy in between.
func (w *world) transport(next *http.Transport, o TransportOptions) *Transport {
	w.T.Helper()
	if next == nil {
		next = &http.Transport{DisableCompression: true}
	}
	w.T.Cleanup(next.CloseIdleConnections)
	o.Payer, o.Next, o.Door = w.Payer, next, policy.DoorTransport
	tr, err := NewTransport(o)
	if err != nil {
		w.T.Fatal(err)
	}
	return tr
}

// trip sends one request of a call and reads the answer.
func (w *world) trip(tr *Transport, call *Call, r *http.Request) (proxytest.Answer, error) {
	w.T.Helper()
	ctx := r.Context()
	if ctx.Done() == nil {
		ctx = w.T.Context()
	}
	resp, err := tr.RoundTrip(r.WithContext(WithCall(ctx, call)))
	if err != nil {
		return proxytest.Answer{}, err
	}
	return proxytest.Read(resp, nil)
}

// must is trip for a request that is answered.
func (w *world) must(tr *Transport, call *Call, r *http.Request) proxytest.Answer {
	w.T.Helper()
	a, err := w.trip(tr, call, r)
	if err != nil {
		w.T.Fatal(err)
	}
	return a
}

// lost is trip for a request whose payload leaves and is not answered.
func (w *world) lost(tr *Transport, call *Call, r *http.Request) *SendError {
	w.T.Helper()
	a, err := w.trip(tr, call, r)
	lost, is := errors.AsType[*SendError](err)
	if !is {
		w.T.Fatalf("got %+v, %v, want a lost send", a, err)
	}
	return lost
}

func (w *world) call() *Call { return NewCall(w.Key, "", "") }

// world pays for the requests of transports in tests.
type world struct {
	*proxytest.World
	door *Transport // of get
}

type setup struct {
	pay   pay.Options
	store func(pay.Store) pay.Store
}

func newWorld(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	s := &setup{pay: proxytest.PayOptions(), store: func(s pay.Store) pay.Store { return s }}
	for _, f := range change {
		f(s)
	}
	w := &world{World: proxytest.NewWorld(t, s.pay, s.store)}
	next := &http.Transport{DisableCompression: true}
	t.Cleanup(next.CloseIdleConnections)
	var err error
	if w.door, err = NewTransport(TransportOptions{Payer: w.Payer, Next: next, Logger: w.Logger}); err != nil {
		t.Fatal(err)
	}
	return w
}

// send sends one request of a client of a key, as a door does.
func (w *world) send(tr *Transport, key pay.Key, r *http.Request) proxytest.Answer {
	w.T.Helper()
	call := NewCall(key, "", IdempotencyKey(r.Header))
	call.Ask(r.Header)
	a, err := w.trip(tr, call, r)
	call.Finish(err == nil)
	if err == nil {
		return a
	}
	if a, err = proxytest.Read(ErrorResponse(r, err), nil); err != nil {
		w.T.Error(err)
	}
	return a
}

func (w *world) get(rawURL string, header ...string) proxytest.Answer {
	w.T.Helper()
	return w.send(w.door, w.Key, proxytest.Request(w.T, "GET", rawURL, nil, header...))
}

func TestWithoutCall(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	resp, err := w.transport(nil, TransportOptions{}).RoundTrip(proxytest.Request(t, "GET", s.URL+"/x", nil, "Purser-Payment", "forged"))
	if err != nil || resp.StatusCode != 402 || s.Unpaid[0].Header.Get("Purser-Payment") != "" {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// Behind a load balancer a repeat may reach another upstream. It is recognized by the client's
// request.
func TestRepeatElsewhere(t *testing.T) {
	t.Parallel()
	w, a, b := newWorld(t), proxytest.NewSeller(t), proxytest.NewSeller(t)
	a.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	tr := w.transport(nil, TransportOptions{})
	var ids []string
	for _, s := range []*proxytest.Seller{a, b} {
		call := w.call()
		call.URL = func() string { return "http://front.example/x" }
		_, err := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
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

// A repeat is served even when the seller's challenge has become unreadable.
func TestRepeatWithUnreadableChallenge(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.LoseAnswers(1)
	if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusBadGateway {
		t.Fatal(a.StatusCode)
	}
	s.Challenge = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(x402.HeaderRequired, "???")
		rw.WriteHeader(402)
	}
	w.get(s.URL + "/x").Paid(t)
	w.get(s.URL+"/x").Declined(t, DeclinedUnreadable, true) // answered now: a new purchase
	s.Expect(3, 2, 1)
}

// A door may leave the reading of the key to the first payment. The key that it reads then counts.
func TestKeyIsReadForPaymentsOnly(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	revoked := w.Key
	revoked.RevokedAt = w.Key.Created
	tr := w.transport(nil, TransportOptions{})
	reads := 0
	ask := func(path string, found pay.Key, err error) proxytest.Answer {
		call := NewCall(pay.Key{ID: w.Key.ID}, "", "")
		call.ReadKey = func(context.Context) (pay.Key, error) { reads++; return found, err }
		a, tripErr := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+path, nil))
		if tripErr != nil {
			t.Fatal(tripErr)
		}
		call.Finish(true)
		return a
	}
	if a := ask("/free", pay.Key{}, errors.New("not read")); a.StatusCode != http.StatusOK || reads != 0 {
		t.Errorf("free: status %d, the key was read %d times", a.StatusCode, reads)
	}
	ask("/x", w.Key, nil).Paid(t)
	ask("/x", revoked, nil).Declined(t, DeclinedKeyRevoked, false)
	ask("/x", pay.Key{}, pay.ErrUnavailable).Short(t, DeclinedUnavailable)
	if reads != 3 {
		t.Errorf("the key was read %d times for three payments", reads)
	}
	s.Expect(3, 1, 1)
}

// Without the journal it is not known whether a payload for this request is out, so its
// challenge is not handed on.
func TestClosedPayer(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	if err := w.Payer.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.get(s.URL+"/x").Short(t, DeclinedUnavailable)
	s.Expect(1, 0, 0)
}

// With a facilitator, /verify sees the payload first. When it refuses, the payload does not leave.
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
	s := proxytest.NewSeller(t)
	for _, c := range []struct{ why, declined string }{
		{"insufficient_funds", DeclinedFunds}, {"invalid_exact_evm_insufficient_balance", DeclinedFunds}, {"kyt_risk_detected", DeclinedRefused},
	} {
		reason.Store(c.why)
		w.get(s.URL+"/x").Declined(t, c.declined, true)
	}
	s.Expect(3, 0, 0)
	reason.Store("")
	w.get(s.URL + "/x").Paid(t)
	s.Expect(4, 1, 1)
}

// A client whose key cannot be kept to counts on it all the same: paid without one, its
// repeats would be purchases.
func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t)
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
			got.Declined(t, DeclinedKeyInvalid, true)
			continue
		}
		paid++
		got.Paid(t)
	}
	s.Expect(14, paid, paid)
}

// Rows 4 and 19: a limit is the key's, whichever way it pays.
func TestAttackAnotherDoorAnotherLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) {
		s.pay.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(30_000))}
	})
	s := proxytest.NewSeller(t)
	first, second := w.transport(nil, TransportOptions{}), w.transport(nil, TransportOptions{})
	trip := func(tr *Transport) proxytest.Answer {
		call := w.call()
		a, err := w.trip(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
		call.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	w.get(s.URL + "/x").Paid(t)
	trip(first).Paid(t)
	trip(second).Paid(t)
	w.get(s.URL+"/x").Declined(t, "daily-budget", true)
	trip(first).Declined(t, "daily-budget", true)
	trip(second).Declined(t, "daily-budget", true)
	s.Expect(6, 3, 3)
}
