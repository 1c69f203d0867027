package forward

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// While purser's clock is wrong, a client is neither paid for nor handed a challenge that it could pay by itself, and the
// repeat of an earlier request gets its payment.
func TestNoNewPaymentsByAWrongClock(t *testing.T) {
	t.Parallel()
	keeper := pay.NewTimekeeper(nil)
	dates := keeper.Dates(pay.SourceFacilitator)
	tell := func(wrong time.Duration) {
		for range 2 {
			dates()(time.Now().Add(wrong))
		}
	}
	tell(0)
	w := newWorld(t, func(s *setup) { s.pay.Time = keeper })
	s := proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			proxytest.HangUp(rw)
			return
		}
		s.Receipt(rw, n)
	}
	first := w.get(s.URL + "/x").Problem(t)
	tell(-time.Hour)

	a := w.get(s.URL + "/other")
	p := a.Problem(t)
	if a.StatusCode != http.StatusServiceUnavailable || p.Reason != proxy.DeclinedClock || a.Header.Get(proxy.HeaderError) != proxy.DeclinedClock || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %+v %v", a.StatusCode, p, a.Header)
	}
	if !strings.Contains(p.Error, "ahead of the facilitator's") {
		t.Errorf("error %q", p.Error)
	}
	s.Expect(2, 1, 1)
	if id := w.get(s.URL + "/x").Paid(t); first.Payment == nil || id != first.Payment.ID {
		t.Errorf("the repeat got %s after %+v", id, first.Payment)
	}
	s.Expect(3, 2, 1)

	tell(0)
	w.get(s.URL + "/other").Paid(t)
	s.Expect(4, 3, 2)
}
