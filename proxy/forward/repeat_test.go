package forward

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A lost answer is not a reason to pay again: for a repeat the same payload is sent.
func TestRepeatAfterLostAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, body string
		header             []string
	}{
		{"get", "GET", "", nil},
		{"post", "POST", "order 1", nil},
		{"get with key", "GET", "", []string{"Idempotency-Key", "k-1"}},
		{"post with key", "POST", "order 1", []string{"Idempotency-Key", "k-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				if n == 1 {
					proxytest.HangUp(rw)
					return
				}
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "at last")
			}
			ask := func() proxytest.Answer {
				return w.do(w.agent(), proxytest.Request(t, c.method, s.URL+"/x", strings.NewReader(c.body), c.header...))
			}
			a := ask()
			p := a.Problem(t)
			if a.StatusCode != http.StatusBadGateway || p.Reason != proxy.DeclinedOpen || p.Payment == nil || p.Payment.State != pay.Open {
				t.Fatalf("%d %+v", a.StatusCode, p)
			}
			if a.Header.Get(proxy.HeaderPayment) != p.Payment.ID || a.Header.Get(proxy.HeaderError) != proxy.DeclinedOpen {
				t.Errorf("headers %v", a.Header)
			}
			s.Expect(1, 1, 1)

			b := ask()
			if id := b.Paid(t); id != p.Payment.ID || b.Text != "at last" {
				t.Errorf("payment %s after %s: %q", id, p.Payment.ID, b.Text)
			}
			s.Expect(2, 2, 1)
			w.Closed(p.Payment.ID)
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}

			// The answered request again is a new purchase, unless the key says otherwise.
			want := 2
			if c.header != nil {
				want = 1
			}
			s.Paid = nil
			s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
			ask().Paid(t)
			if _, _, distinct := s.Counts(); distinct != want {
				t.Errorf("%d payments at the seller, want %d", distinct, want)
			}
		})
	}
}

func TestDifferentRequestsAreNoRepeats(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	c := w.agent()
	task := w.client(url.UserPassword(w.Secret, "other"))
	for _, f := range []func() proxytest.Answer{
		func() proxytest.Answer {
			return w.do(c, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("a")))
		},
		func() proxytest.Answer {
			return w.do(c, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("b")))
		},
		func() proxytest.Answer {
			return w.do(c, proxytest.Request(t, "PUT", s.URL+"/x", strings.NewReader("a")))
		},
		func() proxytest.Answer {
			return w.do(c, proxytest.Request(t, "POST", s.URL+"/x?q", strings.NewReader("a")))
		},
		func() proxytest.Answer {
			return w.do(task, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("a")))
		},
	} {
		if a := f(); a.StatusCode != http.StatusBadGateway {
			t.Fatalf("%d %s", a.StatusCode, a.Text)
		}
	}
	s.Expect(5, 5, 5)
}

func TestIdempotencyKeyReused(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	w.get(s.URL+"/a", "Idempotency-Key", "same").Paid(t)
	w.get(s.URL+"/b", "Idempotency-Key", "same").Declined(t, proxy.DeclinedReused, true)
	s.Expect(2, 1, 1)
	if got := s.Bought[0].Header.Get("Idempotency-Key"); got != "same" {
		t.Errorf("the seller got Idempotency-Key %q", got)
	}
}

// The seller takes the money and answers 402 all the same.
func TestPaidNotDelivered(t *testing.T) {
	t.Parallel()
	for _, v1 := range []bool{false, true} {
		w := newWorld(t, func(s *setup) { s.forward.ChallengeHeaders = []string{"X-Pay-Me"} })
		s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = v1 })
		s.Paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
			rw.Header().Set("X-Pay-Me", proxytest.V2Challenge("10000", "http://x/", ""))
			rw.Header().Set("Etag", `"x"`)
			s.WriteChallenge(rw, r, s.Price, "invalid_exact_evm_nonce_already_used")
		}
		a := w.get(s.URL + "/x")
		a.Declined(t, proxy.DeclinedNotDelivered, false)
		p := a.Problem(t)
		if p.Reason != proxy.DeclinedNotDelivered || p.Payment == nil || p.Payment.State != pay.Settled || a.Header.Get("X-Pay-Me") != "" || a.Header.Get("Etag") != "" || a.Header.Get("X-Seller") != "kept" {
			t.Errorf("%+v %v", p, a.Header)
		}
		if row := w.Closed(p.Payment.ID); row.State != pay.Settled || !row.Answered {
			t.Errorf("in the books: %+v", row)
		}
		// The client has been told, so asking again is a purchase.
		if !strings.Contains(p.Error, "new purchase") {
			t.Errorf("%q", p.Error)
		}
		w.get(s.URL+"/x").Declined(t, proxy.DeclinedNotDelivered, false)
		s.Expect(2, 2, 2)
	}
}

// The seller answers 402 again without saying why: the money may move or not.
func TestChallengedAgain(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		s.WriteChallenge(rw, r, "20000", "insufficient_funds") // and dearer now
	}
	a := w.get(s.URL + "/x")
	a.Declined(t, proxy.DeclinedOpen, false)
	if a.Header.Get("Retry-After") == "" || a.Problem(t).Payment.ValidBefore == "" {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	id := a.Problem(t).Payment.ID
	if _, err := time.Parse(time.RFC3339, a.Problem(t).Payment.ValidBefore); err != nil {
		t.Error(err)
	}
	w.Closed(id)
	// The repeat drives the same payload on although the fresh challenge is dearer.
	s.Price, s.Paid = "20000", func(rw http.ResponseWriter, _ *http.Request, n int) { s.Receipt(rw, n) }
	b := w.get(s.URL + "/x")
	if b.Paid(t) != id || b.Header.Get(proxy.HeaderAmount) != "10000" {
		t.Errorf("%v", b.Header)
	}
	s.Expect(2, 2, 1)
}

func TestFailedReceipt(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
		rw.Header().Set(x402.HeaderResponse, `{"success":false,"errorReason":"insufficient_funds","transaction":"","network":"eip155:8453"}`)
		rw.WriteHeader(402)
		_, _ = io.WriteString(rw, "{}")
	}
	a := w.get(s.URL + "/x")
	a.Declined(t, proxy.DeclinedOpen, false)
	if _, has, _ := x402.ReceiptFromHeader(a.Header); !has {
		t.Error("the receipt is gone")
	}
	proxytest.Eventually(t, "the refusal is noted", func() bool {
		p := w.Closed(a.Problem(t).Payment.ID)
		return len(p.Notes) > 0 && strings.Contains(p.Notes[0].Text, "insufficient_funds")
	})
}

func TestErrorAfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { http.Error(rw, "broken", 500) }
	a := w.get(s.URL + "/x")
	if a.StatusCode != 500 || a.Text != "broken\n" || a.Header.Get(proxy.HeaderPayment) == "" || a.Header.Get(proxy.HeaderTransaction) != "" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Text)
	}
	if p := w.Closed(a.Header.Get(proxy.HeaderPayment)); p.State != pay.Open || p.Answered {
		t.Errorf("in the books: %+v", p)
	}
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) { s.Receipt(rw, n) }
	w.get(s.URL + "/x").Paid(t)
	s.Expect(2, 2, 1)
}

// A client that leaves while its request is being paid does not stop the send; the answer
// it did not get is there for its repeat.
func TestClientLeavesWhilePaying(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	w := newWorld(t, func(s *setup) {
		var once sync.Once
		s.wrap = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				context.AfterFunc(r.Context(), func() { once.Do(func() { close(left) }) })
				h.ServeHTTP(rw, r)
			})
		}
	})
	s := proxytest.NewSeller(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			s.Receipt(rw, 1)
			_, _ = io.WriteString(rw, "again")
			return
		}
		close(arrived)
		<-goOn
		late.Store(r.Context().Err() == nil) // the proxy is still waiting
		s.Receipt(rw, 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := proxytest.Do(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
		done <- err
	}()
	<-arrived
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the client got an answer although it had left")
	}
	id := w.Payments()[0].ID
	<-left
	close(goOn)
	p := w.Closed(id)
	if !late.Load() || p.State != pay.Settled || p.Answered || !p.Unanswered {
		t.Errorf("still waiting %t, in the books %+v", late.Load(), p)
	}
	if a := w.get(s.URL + "/x"); a.Paid(t) != id || a.Text != "again" {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	s.Expect(2, 2, 1)
}

// Clients that repeat at once, while the first send is still under way, wait for it.
func TestRepeatWhileInFlight(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			close(arrived)
			<-goOn
		}
		s.Receipt(rw, 1)
		_, _ = io.WriteString(rw, "here")
	}
	ask := func() (proxytest.Answer, error) {
		return proxytest.Do(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil, "Idempotency-Key", "one"))
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = ask() })
	<-arrived
	results := make([]proxytest.Answer, 3)
	for i := range results {
		wg.Go(func() { results[i], _ = ask() })
	}
	proxytest.Eventually(t, "the repeats have asked", func() bool { u, _, _ := s.Counts(); return u == 4 })
	close(goOn)
	wg.Wait()
	for _, a := range results {
		if a.Response == nil || a.Paid(t) != results[0].Header.Get(proxy.HeaderPayment) || a.Text != "here" {
			t.Errorf("%+v", a)
		}
	}
	s.Expect(4, 4, 1)
}

// A client that is told of a failure may repeat faster than purser has tidied up.
func TestRepeatAtOnce(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		switch n % 3 {
		case 0:
			_, _ = io.WriteString(rw, "done")
		case 1:
			http.Error(rw, "broken", 500)
		default:
			proxytest.HangUp(rw)
		}
	}
	c := w.agent()
	for range 20 {
		var ids []string
		for range 3 {
			a := w.do(c, proxytest.Request(t, "GET", s.URL+"/x", nil))
			ids = append(ids, a.Header.Get(proxy.HeaderPayment))
		}
		if ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
			t.Fatalf("one purchase, payments %v", ids)
		}
	}
	if _, paid, distinct := s.Counts(); paid != 60 || distinct != 20 {
		t.Errorf("%d sends of %d payments", paid, distinct)
	}
}

// A repeat that comes too late for its payload is not paid again, and gets no challenge.
func TestExpiredRepeat(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w := newWorld(t, func(s *setup) { s.pay.Clock, s.forward.Clock = clock, clock })
	s := proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(rw) }
	id := w.get(s.URL + "/x").Problem(t).Payment.ID
	w.Closed(id)
	ahead.Store(int64(70 * time.Second)) // the challenge allowed 60 s
	a := w.get(s.URL + "/x")
	a.Declined(t, proxy.DeclinedOpen, false)
	if p := a.Problem(t); p.Payment.ID != id || a.Header.Get("Retry-After") != "" {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	s.Expect(2, 1, 1)
}

// A seller that switches to a protocol that was not asked for has taken the payload all the same.
func TestUnaskedUpgrade(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n > 1 {
			s.Receipt(rw, n)
			return
		}
		rw.Header().Set("Connection", "Upgrade")
		rw.Header().Set("Upgrade", "chess")
		rw.WriteHeader(http.StatusSwitchingProtocols)
	}
	a := w.get(s.URL + "/x")
	if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Payment == nil || p.Reason != proxy.DeclinedOpen {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if b := w.get(s.URL + "/x"); b.Paid(t) != a.Header.Get(proxy.HeaderPayment) {
		t.Error("a second payment")
	}
}
