package proxy

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

// Requests that are not paid for, while an earlier payment is for them or may be. A client that pays by itself must find no
// challenge.

// forgetful is a store that keeps no signatures, as after a crash before the first outcome.
type forgetful struct{ pay.Store }

func (f forgetful) Record(ctx context.Context, o pay.Outcome) (*pay.Payment, pay.Effects, error) {
	o.Signature = nil
	return f.Store.Record(ctx, o)
}

// away is a signer outside this process, which may be out of reach.
type away struct {
	pay.Wallets
	err  error
	gone atomic.Bool
}

func (a *away) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if a.gone.Load() {
		return x402.Signature{}, a.err
	}
	return a.Wallets.Sign(ctx, w, m)
}

// A payload has left, its signature is not in the books, and the signer is gone when the client repeats.
func TestRepeatThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	unreachable := &pay.SignerError{Provider: "test", Fault: pay.SignerUnreachable, Detail: "cannot be reached", Unsigned: true}
	for n := range 4 {
		settled, keys, fresh := n%2 > 0, &away{err: unreachable}, DeclinedNotSigned
		if n > 1 {
			keys.err, fresh = pay.ErrNoAddress, DeclinedNoProvider
		}
		real := memory.New(memory.Options{})
		keys.Wallets = signer.NewLocal(real)
		w := newWorld(t, func(s *setup) {
			s.pay.Wallets = keys
			s.store = func(pay.Store) pay.Store { return forgetful{real} }
		})
		s := proxytest.NewSeller(t)
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if settled {
				s.Receipt(rw, n)
				rw.WriteHeader(http.StatusInternalServerError)
				return
			}
			proxytest.HangUp(rw)
		}
		w.get(s.URL + "/x")
		id := w.Payments()[0].ID
		if p := w.Closed(id); p.Signature != nil || (p.State == pay.Settled) != settled {
			t.Fatalf("%s, signature %v", p.State, p.Signature)
		}
		keys.gone.Store(true)
		want := DeclinedOpen
		if settled {
			want = DeclinedNotDelivered
		}
		a := w.get(s.URL + "/x")
		a.Declined(t, want, false)
		if p := a.Problem(t); p.Payment == nil || p.Payment.ID != id {
			t.Errorf("%+v", p)
		}
		w.get(s.URL+"/y").Declined(t, fresh, true) // nothing is out for that
		keys.gone.Store(false)
		s.Paid = nil
		s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
		if again := w.get(s.URL + "/x").Paid(t); again != id {
			t.Errorf("payment %s instead of %s", again, id)
		}
	}
}

// A client repeats its request under the key of before, and the request is another one by its bytes.
func TestReusedKeyBehindAPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.LoseAnswers(1)
	for n, body := range []string{"at 12:00:00", "at 12:00:01"} {
		a := w.send(w.door, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader(body), "Idempotency-Key", "order-1"))
		if n > 0 {
			a.Declined(t, DeclinedReused, false)
		}
	}
	s.Expect(2, 1, 1)
}

// The key is revoked between a payment and the repeat of its request.
func TestRevokedKeyBehindAPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.LoseAnswers(1)
	w.get(s.URL + "/x")
	call := w.call()
	call.ReadKey = func(context.Context) (pay.Key, error) { return pay.Key{}, pay.ErrKeyNotFound }
	a := w.must(w.door, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
	call.Finish(true)
	a.Declined(t, DeclinedKeyRevoked, false)
	s.Expect(2, 1, 1)
}

// A repeat comes where, or when, it is not paid for. Its payment is found, and is not sent either.
func TestUnpaidRepeatBehindAPayment(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(call *Call, r *http.Request, plain *atomic.Bool){
		DeclinedPlainHTTP: func(_ *Call, _ *http.Request, plain *atomic.Bool) { plain.Store(true) },
		DeclinedUnasked:   func(_ *Call, r *http.Request, _ *atomic.Bool) { r.Header.Set("Sec-Purpose", "prefetch") },
		"early-data":      func(call *Call, _ *http.Request, _ *atomic.Bool) { call.Unpaid = "early-data" },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			var plain atomic.Bool
			tr := w.transport(nil, TransportOptions{MayPayPlain: func(netip.Addr) bool { return !plain.Load() }})
			s.LoseAnswers(1)
			call := w.call()
			lost := w.lost(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil))
			call.Finish(false)
			w.Closed(lost.Payment.ID)
			for path, left := range map[string]bool{"/x": true, "/y": false} {
				call, r := w.call(), proxytest.Request(t, "GET", s.URL+path, nil)
				change(call, r, &plain)
				a := w.must(tr, call, r)
				call.Finish(true)
				a.Declined(t, reason, !left)
				if left && a.Header.Get(HeaderPayment) != lost.Payment.ID {
					t.Errorf("%s: %v %s", path, a.Header, a.Text)
				}
			}
			s.Expect(3, 1, 1)
			plain.Store(false)
			call = w.call()
			if id := w.must(tr, call, proxytest.Request(t, "GET", s.URL+"/x", nil)).Paid(t); id != lost.Payment.ID {
				t.Errorf("payment %s instead of %s", id, lost.Payment.ID)
			}
			call.Finish(true)
		})
	}
}

// The answer to a payment has led to a place that is not paid for, as another process knows.
func TestUnpaidPlaceBehindAPayment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		challenge func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request)
		never     bool // over plain http
		prefetch  bool
		reason    string
	}{
		"plain http": {nil, true, false, pay.RuleRedirected},
		"unasked":    {nil, false, true, pay.RuleRedirected},
		"L402": {func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("WWW-Authenticate", `L402 macaroon="x", invoice="y"`)
			rw.WriteHeader(http.StatusPaymentRequired)
		}, false, false, DeclinedNoChallenge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, first := newWorld(t), proxytest.NewSeller(t)
			next := proxytest.NewSeller(t)
			if c.challenge != nil {
				next = proxytest.Challenges(t, c.challenge)
			}
			first.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				first.Receipt(rw, n)
				rw.Header().Set("Location", next.URL+"/next")
				rw.WriteHeader(http.StatusFound)
			}
			if a := w.get(first.URL + "/x"); a.StatusCode != http.StatusFound {
				t.Fatal(a.StatusCode, a.Text)
			}
			for _, other := range []bool{false, true} {
				tr := w.door
				if o := (TransportOptions{}); other || c.never {
					if c.never {
						o.MayPayPlain = func(netip.Addr) bool { return false }
					}
					tr = w.transport(nil, o)
				}
				r := proxytest.Request(t, "GET", next.URL+"/next", nil)
				if c.prefetch {
					r.Header.Set("Sec-Purpose", "prefetch")
				}
				a := w.send(tr, w.Key, r)
				reason := a.Header.Get(HeaderDeclined)
				if _, found, _ := x402.FromResponse(a.Header, []byte(a.Text)); found || a.Header.Get("WWW-Authenticate") != "" {
					t.Errorf("other process %v: %v %s", other, a.Header, a.Text)
				}
				if (other || c.never || c.challenge != nil) && reason != c.reason {
					t.Errorf("other process %v: %s", other, reason)
				}
			}
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}
		})
	}
}

// A prefetch between a request and its repeat by the client's library makes the repeat no purchase.
func TestUnpaidCallForgetsNoPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
	id := w.get(s.URL + "/x").Paid(t)
	w.Closed(id)
	w.get(s.URL+"/x", "Sec-Purpose", "prefetch").Declined(t, DeclinedUnasked, true)
	if again := w.get(s.URL+"/x", "X-Stainless-Retry-Count", "1").Paid(t); again != id {
		t.Errorf("payment %s instead of %s", again, id)
	}
	s.Expect(3, 2, 1)
}
