package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A purchase that was delivered is paid once under its idempotency key. A seller that keeps no answers
// refuses the repeat, however often; the client is told that it was paid, when, and what to do.
func TestDeliveredBefore(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Reuse = func(rw http.ResponseWriter, r *http.Request) {
		s.WriteChallenge(rw, r, s.Price, "invalid_exact_evm_nonce_already_used")
	}
	ask := func(more ...string) proxytest.Answer {
		return w.get(s.URL+"/x", append(more, "Idempotency-Key", "order-1")...)
	}
	id := ask().Paid(t)
	when := pay.Moment(w.Closed(id).Closed)
	for range 2 {
		a := ask()
		a.Declined(t, proxy.DeclinedBefore, false)
		words := "This was paid before, on " + when + ", and its answer was delivered; nothing was paid now, and the seller does not give that answer again." +
			" To buy it once more, send another Idempotency-Key; without one, send Purser-Again: new. The seller said: \"invalid_exact_evm_nonce_already_used\""
		if p := a.Problem(t); p.Error != words || p.Payment.ID != id || !strings.HasPrefix(a.Header.Get(proxy.HeaderDetail), words+". Developer: ") {
			t.Errorf("%+v %v", p, a.Header)
		}
		w.Closed(id)
	}
	dry := ask(proxy.HeaderDryRun, "1")
	dry.Declined(t, proxy.DeclinedDryRun, false)
	if p := dry.Problem(t); !strings.Contains(p.Error, "this repeats payment "+id+" of 0.01 USDC") {
		t.Errorf("%+v", p)
	}
	// A seller that keeps its answers gives it again.
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "kept") }
	if a := ask(); a.Paid(t) != id || a.Text != "kept" {
		t.Errorf("%s", a.Text)
	}
	s.Expect(5, 4, 1)
}

// Libraries send the key of a logical request under other names as well. Idempotency-Key comes first.
func TestOtherNamesOfIdempotencyKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Idempotency-Key", "Repeatability-Request-ID"} {
		w, s := newWorld(t), proxytest.NewSeller(t)
		s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "kept") }
		first := w.get(s.URL+"/x", name, "order-1").Paid(t)
		if a := w.get(s.URL+"/x", name, "order-1"); a.Paid(t) != first || a.Text != "kept" {
			t.Errorf("%s: the repeat is another purchase", name)
		}
		for _, more := range [][]string{{name, "order-2"}, {name, "order-1", "Idempotency-Key", "order-3"}} {
			if w.get(s.URL+"/x", more...).Paid(t) == first {
				t.Errorf("%v: the same purchase", more)
			}
		}
		w.get(s.URL+"/x", name, "order 4").Declined(t, proxy.DeclinedKeyInvalid, true)
	}
}

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

// Over HTTP/1, the status line of a 402 that is not paid has the reason.
func TestStatusLine(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t, func(s *setup) { s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(1))} })
		want := "402 Payment Required; purser did not pay: 0.01 USDC is above the limit of 0.000001 USDC for one payment"
		if http2 {
			want = "402 Payment Required"
		}
		client := w.secureAgent(http2)
		for range 2 {
			a := w.do(client, proxytest.Request(t, "GET", w.shop("/x"), nil))
			if a.Declined(t, "per-payment", true); a.Status != want {
				t.Errorf("%q", a.Status)
			}
			if free := w.do(client, proxytest.Request(t, "GET", w.shop("/free"), nil)); free.Status != "200 OK" {
				t.Errorf("%q", free.Status)
			}
		}
	})
}

// A seller tells a buyer another price than an asker. Without a word of the client's own, the asked price is the most.
func TestDearerThanTheDryRun(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		ask := func(more ...string) proxytest.Answer {
			return w.do(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil, more...))
		}
		ask(proxy.HeaderDryRun, "1").Declined(t, proxy.DeclinedDryRun, true)
		named := w.seller.Price
		w.seller.Price = named + "0"
		dearer := ask()
		dearer.Declined(t, "max-amount", true)
		if detail := dearer.Header.Get(proxy.HeaderDetail); !strings.Contains(detail, "quote") {
			t.Errorf("detail %q", detail)
		}
		w.Closed(ask(proxy.HeaderMaxAmount, "5").Paid(t))
		ask(proxy.HeaderDryRun, "1").Declined(t, proxy.DeclinedDryRun, true)
		ask().Paid(t)
		if len(w.Payments()) != 2 {
			t.Errorf("%d payments", len(w.Payments()))
		}
	})
}
