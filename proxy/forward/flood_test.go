package forward

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// refusing is a facilitator that turns every payload down, while it is on.
type refusing struct {
	pay.Facilitator
	on atomic.Bool
}

func (f *refusing) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) {
	if f.on.Load() {
		return pay.VerifyAnswer{Reason: "invalid_payload"}, nil
	}
	return pay.VerifyAnswer{Valid: true}, nil
}

// A key whose payments fail gets no new ones for a while: the seller's 402 passes unpaid, and a
// request that was paid before is served all the same.
func TestFailedPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	var f refusing
	var ahead atomic.Int64
	noon := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, func(s *setup) {
		s.pay.Facilitator, s.pay.Failures = &f, pay.FailureBounds{PerMinute: 20}
		s.pay.Clock = func() time.Time { return noon.Add(time.Duration(ahead.Load())) }
		s.forward.Clock = s.pay.Clock
	})
	s, others := proxytest.NewSeller(t), proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Price = "7" }) // other terms, which were not verified yet
	var open atomic.Bool
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if !open.Load() {
			panic(http.ErrAbortHandler)
		}
		s.Receipt(rw, n)
	}
	lost := w.get(s.URL + "/paid").Problem(t)
	f.on.Store(true)
	for n := range 20 {
		w.get(fmt.Sprintf("%s/%d", others.URL, n)).Declined(t, proxy.DeclinedRefused, true)
	}
	for n := range 5 {
		a := w.get(fmt.Sprintf("%s/%d", others.URL, 100+n))
		a.Declined(t, proxy.DeclinedOverloaded, true)
		if a.Header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
		}
	}
	if n := len(w.Payments()); n != 21 {
		t.Errorf("%d payments", n)
	}
	open.Store(true)
	if id := w.get(s.URL + "/paid").Paid(t); id != lost.Payment.ID {
		t.Errorf("paid with %s, not with %s", id, lost.Payment.ID)
	}
	f.on.Store(false)
	ahead.Add(int64(time.Minute))
	w.get(others.URL + "/later").Paid(t)
}

// A challenge that is too large to keep is not paid; and 0 is no amount.
func TestFatChallengeAndAmountOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var fat atomic.Bool
	s := proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		if fat.Load() {
			rw.Header().Set(x402.HeaderRequired, proxytest.V2Challenge("5", "http://seller.example/"+strings.Repeat("x", 9<<10), ""))
			rw.WriteHeader(http.StatusPaymentRequired)
			return
		}
		s.WriteChallenge(rw, r, "0", "")
	})
	w.get(s.URL+"/free-of-charge").Declined(t, "amount", true)
	fat.Store(true)
	w.get(s.URL+"/fat").Declined(t, "challenge-too-large", true)
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
	s.Expect(2, 0, 0)
}

// The books keep a long URL without its query. purser recognizes repeats by all of it.
func TestLongURL(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	query := strings.Repeat("q", 20<<10)
	first := w.get(s.URL + "/x?" + query + "1").Paid(t)
	if p := w.Closed(first); p.RequestURL != s.URL+"/x" {
		t.Errorf("recorded %d bytes: %.80s", len(p.RequestURL), p.RequestURL)
	}
	if second := w.get(s.URL + "/x?" + query + "2").Paid(t); second == first {
		t.Error("another request got the same payment")
	}
	if p := w.Closed(w.get(s.URL + "/x?" + strconv.Itoa(1)).Paid(t)); p.RequestURL != s.URL+"/x?1" {
		t.Errorf("recorded %s", p.RequestURL)
	}
}
