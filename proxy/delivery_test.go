package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A seller takes the money, and its answer brings nothing. The books say so, and with which status.
func TestPaidForNothing(t *testing.T) {
	t.Parallel()
	status := func(code int) func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		return func(s *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, "sorry")
		}
	}
	cut := func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "half")
		_ = http.NewResponseController(rw).Flush()
		proxytest.HangUp(rw)
	}
	nothing := func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) }
	streamed := func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(rw).Flush()
	}
	full := func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "paid") }
	again := func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		s.WriteChallenge(rw, r, s.Price, "once more")
	}
	for name, c := range map[string]struct {
		method string
		answer func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request)
		marked bool
		status int
	}{
		"an error":                {"GET", status(500), true, 500},
		"an error of the request": {"POST", status(422), true, 422},
		"another 402":             {"GET", again, true, 402},
		"a body that breaks off":  {"GET", cut, true, 200},
		"an empty body":           {"GET", nothing, true, 200},
		"an empty stream":         {"GET", streamed, true, 200},
		"an empty body to a POST": {"POST", nothing, false, 200},
		"no content":              {"GET", func(_ *proxytest.Seller, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }, false, 204},
		"an answer":               {"GET", full, false, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				s.Receipt(rw, 1)
				if n == 1 {
					c.answer(s, rw, r)
					return
				}
				full(s, rw, r)
			}
			get := func() proxytest.Answer {
				return w.send(w.door, w.Key, proxytest.Request(t, c.method, s.URL+"/x", strings.NewReader("")))
			}
			get()
			p := w.newest()
			if p.PaidForNothing() != c.marked || p.AnswerStatus != c.status {
				t.Fatalf("%v, status %d, notes %v", p.Labels(), p.AnswerStatus, p.Notes)
			}
			if !c.marked {
				return
			}
			if got := p.Labels(); got[len(got)-1] != "undelivered" {
				t.Errorf("labels %v", got)
			}
			if p.Answered { // the client was told in full, so its next request is a purchase
				return
			}
			get() // a repeat, with the same payment
			if p = w.Closed(p.ID); p.Undelivered || p.AnswerStatus != 200 || len(s.Bought) != 2 {
				t.Errorf("after the repeat: %v, status %d, %d paid requests", p.Labels(), p.AnswerStatus, len(s.Bought))
			}
		})
	}
}

// The seller hangs up on the payment, whose money may have moved. Its repeat is answered.
func TestPaidAndCut(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			proxytest.HangUp(rw)
			return
		}
		s.Receipt(rw, n)
		_, _ = io.WriteString(rw, "paid")
	}
	w.get(s.URL + "/x")
	if p := w.newest(); !p.NotDelivered() || p.PaidForNothing() || p.AnswerStatus != 0 {
		t.Errorf("%v, status %d", p.Labels(), p.AnswerStatus)
	}
	w.get(s.URL + "/x")
	if p := w.newest(); p.Undelivered {
		t.Errorf("after the repeat: %v", p.Labels())
	}
}

// A seller that has delivered may refuse the same payment later.
func TestDeliveredBefore(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	key := []string{"Idempotency-Key", "order-1"}
	id := w.get(s.URL+"/x", key...).Paid(t)
	w.Closed(id)
	if a := w.get(s.URL+"/x", key...); a.StatusCode != http.StatusPaymentRequired {
		t.Fatalf("%d", a.StatusCode)
	}
	if p := w.Closed(id); p.Undelivered {
		t.Errorf("%v", p.Labels())
	}
}

// A host that takes the money and gives errors, whatever their status, or nothing, is paused for the key until a person
// resumes it. Other hosts and keys go on. It is paused again at the first payment that brings nothing.
func TestHostThatTakesMoneyIsPaused(t *testing.T) {
	t.Parallel()
	const most = 5
	for name, code := range map[string]int{"errors of the request": 404, "empty answers": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, honest := newWorld(t), proxytest.NewSeller(t), proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				rw.WriteHeader(code)
			}
			host := strings.TrimPrefix(s.URL, "http://")
			pause := func() (pay.Pause, bool) {
				k, err := w.Store.Key(t.Context(), w.Key.ID)
				if err != nil {
					t.Fatal(err)
				}
				p, is := k.PausedHosts[host]
				return p, is
			}
			asked := 0
			ask := func() proxytest.Answer {
				asked++
				return w.get(s.URL + "/x?" + strings.Repeat("i", asked))
			}
			for i := range most {
				if a := ask(); a.Header.Get(HeaderDeclined) == pay.RuleHostPaused {
					t.Fatalf("declined after %d", i)
				}
				w.newest()
				if _, paused := pause(); paused && i < most-1 {
					t.Fatalf("paused after %d", i+1)
				}
			}
			proxytest.Eventually(t, "the pause", func() bool { _, paused := pause(); return paused })
			if p, _ := pause(); p.By.Kind != pay.ActorPurser || p.Reason != "5 payments in a row brought nothing" {
				t.Errorf("%+v", p)
			}
			ask().Declined(t, pay.RuleHostPaused, true)
			w.get(honest.URL + "/x").Paid(t)
			if n := len(w.Payments()); n != most+1 {
				t.Fatalf("%d payments", n)
			}

			if _, err := w.Store.StopKey(t.Context(), w.Key.ID, pay.KeyStop{Do: pay.StopResume, Host: host}); err != nil {
				t.Fatal(err)
			}
			if a := ask(); a.StatusCode == http.StatusPaymentRequired {
				t.Fatalf("%d %s", a.StatusCode, a.Header.Get(HeaderDeclined))
			}
			proxytest.Eventually(t, "the pause again", func() bool { _, paused := pause(); return paused })
			ask().Declined(t, pay.RuleHostPaused, true)
		})
	}
}

// newest waits until the newest payment's call is over, and returns it.
func (w *world) newest() *pay.Payment {
	w.T.Helper()
	return w.Closed(w.Payments()[0].ID)
}
