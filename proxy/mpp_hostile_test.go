package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A repeat that has no room for the credential of the first request finds nothing to pay.
func TestRepeatWithItsOwnAuthorization(t *testing.T) {
	t.Parallel()
	s := newCharges(t, func(s *charges) {
		s.paid = func(w http.ResponseWriter, transaction func() string, _ int) {
			transaction()
			proxytest.HangUp(w)
		}
	})
	w := s.world()
	if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusBadGateway {
		t.Fatal(a.StatusCode, a.Text)
	}
	a := w.get(s.URL+"/x", "Authorization", "Bearer secret")
	if payable(a) || a.StatusCode != 402 {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Text)
	}
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
	if strings.Contains(w.Logs.String(), "secret") {
		t.Error("a log has the client's secret")
	}
	s.expect(1, 1, 1)
}

// A further attempt with an Authorization of its own keeps it, and is not sent with the payment.
func TestFurtherAttemptWithItsOwnAuthorization(t *testing.T) {
	t.Parallel()
	s := newCharges(t, func(s *charges) {
		s.paid = func(w http.ResponseWriter, transaction func() string, _ int) { transaction(); s.ask(w) }
	})
	w := s.world()
	call := w.call()
	if a := w.must(w.door, call, proxytest.Request(t, "GET", s.URL+"/x", nil)); payable(a) || a.Header.Get(HeaderDeclined) != DeclinedNotDelivered {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	w.lost(w.door, call, proxytest.Request(t, "GET", s.URL+"/x", nil, "Authorization", "Bearer secret"))
	call.Finish(false)
	s.expect(3, 1, 1)
}

// A seller names one of two fields. The client's own header stays as it is, whatever the seller names.
func TestSellerNamesTheHeader(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"payment-authorization": "", "AUTHORIZATION": DeclinedInUse, "": DeclinedInUse,
		"Cookie": DeclinedUnsupported, "Proxy-Authorization": DeclinedUnsupported, "Payment-Authorization,Cookie": DeclinedUnsupported,
	} {
		s := newCharges(t, func(s *charges) { s.header = name })
		w := s.world()
		a := w.get(s.URL+"/x", "Authorization", "Bearer secret", "Cookie", "a=b")
		if a.Header.Get(HeaderDeclined) != want || (a.StatusCode == http.StatusOK) != (want == "") {
			t.Errorf("%q: %d %v", name, a.StatusCode, a.Header)
		}
		for _, got := range append(s.unpaid, s.sent...) {
			if got.Get("Authorization") != "Bearer secret" || got.Get("Cookie") != "a=b" || got.Get("Proxy-Authorization") != "" {
				t.Errorf("%q: sent with %v", name, got)
			}
		}
		if logs := w.Logs.String(); strings.Contains(logs, "secret") || strings.Contains(logs, "Payment ey") {
			t.Errorf("%q: a log has a credential", name)
		}
	}
}

// Challenges of MCP in a body of HTTP are none: HTTP has a header for them, and requests may have no room to answer.
func TestBodyWithChallengesOfMCP(t *testing.T) {
	t.Parallel()
	s := newCharges(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, data, _ := strings.Cut(mcpCharge(1), `"data":`)
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"org.paymentauth/payment-required":`+data[:len(data)-1]+`}`)
	}))
	t.Cleanup(front.Close)
	w := s.world()
	for _, own := range [][]string{nil, {"Authorization", "Bearer secret"}} {
		if a := w.get(front.URL+"/x", own...); a.Header.Get(HeaderDeclined) != DeclinedNoChallenge || len(w.Payments()) != 0 {
			t.Errorf("%v: %v, %d payments", own, a.Header, len(w.Payments()))
		}
	}
}

// The application's own problems are no word on the payment.
func TestOwnProblemsBehindAPayment(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 409} {
		for _, body := range []string{`{"type":"about:blank","title":"no"}`, `{"type":"https://paymentauth.org/problems/","detail":"x"}`, `{`, ``} {
			s := newCharges(t, func(s *charges) {
				s.paid = func(w http.ResponseWriter, transaction func() string, _ int) {
					transaction()
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				}
			})
			w := s.world()
			if a := w.get(s.URL + "/x"); a.StatusCode != status || a.Text != body || a.Header.Get(HeaderDeclined) != "" || w.newest().State != pay.Open {
				t.Errorf("%d %s: %d %v %s", status, body, a.StatusCode, a.Header, a.Text)
			}
		}
	}
}

// Behind a payment no error shows a challenge, whatever its status. The seller's other challenges stay.
func TestErrorsBehindAPaymentShowNoChallenge(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 402, 403, 412, 503} {
		s := newCharges(t, func(s *charges) {
			s.paid = func(w http.ResponseWriter, _ func() string, _ int) {
				w.Header().Set(x402.HeaderRequired, proxytest.V2Challenge("10000", "http://shop.test/", "no"))
				w.Header().Add("WWW-Authenticate", `Basic realm="Payment"`)
				w.Header().Add("WWW-Authenticate", chargeOf("again", "shop.test", ""))
				w.WriteHeader(status)
			}
		})
		w := s.world()
		a := w.get(s.URL + "/x")
		if payable(a) || a.StatusCode != status || status != 402 && a.Header.Get("WWW-Authenticate") != `Basic realm="Payment"` {
			t.Errorf("%d: %d %v %s", status, a.StatusCode, a.Header, a.Text)
		}
	}
}

// A 402 without a challenge is the application's own word, and one with a receipt has taken the payment. The request is
// not done again for them.
func TestInsistingEnds(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(s *charges, w http.ResponseWriter){
		"no challenge": func(_ *charges, w http.ResponseWriter) { w.WriteHeader(http.StatusPaymentRequired) },
		"a receipt":    func(s *charges, w http.ResponseWriter) { w.Header().Set("Payment-Receipt", "?"); s.ask(w) },
	} {
		s := newCharges(t, func(s *charges) {
			s.paid = func(w http.ResponseWriter, transaction func() string, _ int) { transaction(); answer(s, w) }
		})
		w := s.world()
		if a := w.get(s.URL + "/x"); payable(a) || a.StatusCode != http.StatusPaymentRequired {
			t.Errorf("%s: %d %v %s", name, a.StatusCode, a.Header, a.Text)
		}
		s.expect(1, 1, 1)
	}
}

// A 402 that asks as the first one did is told of as such, also where the seller takes two protocols.
func TestSameChallengeOfTwoProtocols(t *testing.T) {
	t.Parallel()
	s := proxytest.NewSeller(t)
	ask := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("WWW-Authenticate", chargeOf(fmt.Sprint(time.Now().UnixNano()), "shop.test", ""))
		s.WriteChallenge(rw, r, "10000", "")
	}
	s.Challenge = ask
	s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) { ask(rw, r) }
	w := newWorld(t, func(o *setup) { o.pay.Chain = &ledger{} })
	if a := w.get(s.URL + "/x"); payable(a) || !strings.Contains(a.Text, wordsSame) {
		t.Errorf("%v %s", a.Header, a.Text)
	}
}

// A seller that loses its answer while purser insists gets the same credential from the client's repeat.
func TestInsistingIsLost(t *testing.T) {
	t.Parallel()
	s := newCharges(t, func(s *charges) {
		s.paid = func(w http.ResponseWriter, transaction func() string, n int) {
			switch n {
			case 1:
				s.ask(w)
			case 2:
				transaction()
				proxytest.HangUp(w)
			default:
				s.deliver(w, transaction())
			}
		}
	})
	w := s.world()
	if a := w.get(s.URL + "/x"); payable(a) || a.StatusCode != http.StatusBadGateway {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Text)
	}
	w.get(s.URL + "/x").Paid(t)
	if s.expect(3, 1, 1); len(w.Payments()) != 1 {
		t.Errorf("%d payments", len(w.Payments()))
	}
}

// Calls that get one challenge at the same time are each paid by one of their own.
func TestTwinChallengesAreEachPaidOnce(t *testing.T) {
	t.Parallel()
	s := newCharges(t, func(s *charges) {
		s.alter = func(h http.Header) {
			h.Set("WWW-Authenticate", chargeOf(time.Now().Truncate(50*time.Millisecond).String(), "shop.test", ""))
		}
	})
	w := s.world()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if a := w.get(fmt.Sprintf("%s/x?%d", s.URL, i)); a.StatusCode != http.StatusOK {
				t.Errorf("%d %v", a.StatusCode, a.Header)
			}
		})
	}
	all.Wait()
	s.expect(8, 8, 8)
}

// A person approves terms. The challenge that came with them has been replaced when the payment is made.
func TestApprovedChargeIsPaidOnce(t *testing.T) {
	t.Parallel()
	s := newCharges(t)
	var store pay.Store
	w := &heldWorld{world: s.world(func(s *setup) {
		s.store = func(own pay.Store) pay.Store { store = own; return own }
		s.pay.DefaultPolicy = policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(5_000))}
		s.pay.ApprovalWait, s.pay.NoPlans = time.Minute, true
	})}
	w.store = store
	c := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil))
	w.waiting(1)
	w.answer(w.pending()[0].ID, pay.Approved)
	w.ended(c).Paid(t)
	s.expect(1, 1, 1)
}
