package forward

import (
	"net/http"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A client whose answer was lost gets its payment again, unless it says that it wants another one.
func TestPurserAgain(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if s.Receipt(rw, n); n == 1 { // the payment is settled, the answer is no good
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}
	s.Reuse = func(rw http.ResponseWriter, r *http.Request) {
		s.WriteChallenge(rw, r, s.Price, "invalid_exact_evm_nonce_already_used")
	}
	first := w.get(s.URL + "/x")
	id := first.Header.Get(proxy.HeaderPayment)
	if p := w.Closed(id); first.StatusCode != http.StatusInternalServerError || p.State != pay.Settled || !p.Unanswered {
		t.Fatalf("%d, %s", first.StatusCode, p.State)
	}
	if again := w.get(s.URL+"/x", proxy.HeaderAgain, "new").Paid(t); again == id {
		t.Error("the same payment")
	}
	if got := s.Bought[1].Header.Get(proxy.HeaderAgain); got != "" {
		t.Errorf("the seller got %s: %s", proxy.HeaderAgain, got)
	}
	other := w.get(s.URL + "/x")
	other.Declined(t, proxy.DeclinedNotDelivered, false)
	if p := other.Problem(t).Payment.ID; p != id {
		t.Errorf("without the header payment %s, want %s", p, id)
	}
	w.Closed(id)
	if last := w.get(s.URL + "/x").Paid(t); last == id { // told in full, so that this is a purchase
		t.Error("the payment that was answered")
	}
	s.Expect(4, 4, 3)
}
