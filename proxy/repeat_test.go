package proxy

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
	"github.com/purserpay/purser/x402"
)

// A lost answer is not a reason to pay again: whoever repeats gets the same payload sent.
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
			s := newSeller(t)
			s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				if n == 1 {
					hangUp(rw)
					return
				}
				s.receipt(rw, n)
				_, _ = io.WriteString(rw, "at last")
			}
			ask := func() answer {
				return w.do(w.agent(), request(t, c.method, s.URL+"/x", strings.NewReader(c.body), c.header...))
			}
			a := ask()
			p := a.problem(t)
			if a.StatusCode != http.StatusBadGateway || p.Reason != DeclinedOpen || p.Payment == nil || p.Payment.State != pay.Open {
				t.Fatalf("%d %+v", a.StatusCode, p)
			}
			if a.Header.Get(HeaderPayment) != p.Payment.ID || a.Header.Get(HeaderError) != DeclinedOpen {
				t.Errorf("headers %v", a.Header)
			}
			s.expect(1, 1, 1)

			b := ask()
			if id := b.paid(t); id != p.Payment.ID || b.body != "at last" {
				t.Errorf("payment %s after %s: %q", id, p.Payment.ID, b.body)
			}
			s.expect(2, 2, 1)
			w.closed(p.Payment.ID)
			if n := len(w.payments()); n != 1 {
				t.Errorf("%d payments", n)
			}

			// The answered request again is a new purchase, unless the key says otherwise.
			want := 2
			if c.header != nil {
				want = 1
			}
			s.paid = nil
			s.reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
			ask().paid(t)
			if _, _, distinct := s.counts(); distinct != want {
				t.Errorf("%d payments at the seller, want %d", distinct, want)
			}
		})
	}
}

func TestDifferentRequestsAreNoRepeats(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { hangUp(rw) }
	c := w.agent()
	task := w.client(url.UserPassword(w.secret, "other"))
	for _, f := range []func() answer{
		func() answer { return w.do(c, request(t, "POST", s.URL+"/x", strings.NewReader("a"))) },
		func() answer { return w.do(c, request(t, "POST", s.URL+"/x", strings.NewReader("b"))) },
		func() answer { return w.do(c, request(t, "PUT", s.URL+"/x", strings.NewReader("a"))) },
		func() answer { return w.do(c, request(t, "POST", s.URL+"/x?q", strings.NewReader("a"))) },
		func() answer { return w.do(task, request(t, "POST", s.URL+"/x", strings.NewReader("a"))) },
	} {
		if a := f(); a.StatusCode != http.StatusBadGateway {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	s.expect(5, 5, 5)
}

func TestIdempotencyKeyReused(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	w.get(s.URL+"/a", "Idempotency-Key", "same").paid(t)
	w.get(s.URL+"/b", "Idempotency-Key", "same").declined(t, DeclinedReused, true)
	s.expect(2, 1, 1)
	if got := s.bought[0].Header.Get("Idempotency-Key"); got != "same" {
		t.Errorf("the seller got Idempotency-Key %q", got)
	}
}

// The seller takes the money and answers 402 all the same.
func TestPaidNotDelivered(t *testing.T) {
	t.Parallel()
	for _, v1 := range []bool{false, true} {
		w := newWorld(t, func(s *setup) { s.forward.ChallengeHeaders = []string{"X-Pay-Me"} })
		s := newSeller(t, func(s *seller) { s.v1 = v1 })
		s.paid = func(rw http.ResponseWriter, r *http.Request, _ int) {
			rw.Header().Set("X-Pay-Me", v2Challenge("10000", "http://x/", ""))
			rw.Header().Set("Etag", `"x"`)
			s.writeChallenge(rw, r, s.price, "invalid_exact_evm_nonce_already_used")
		}
		a := w.get(s.URL + "/x")
		a.declined(t, DeclinedNotDelivered, false)
		p := a.problem(t)
		if p.Reason != DeclinedNotDelivered || p.Payment == nil || p.Payment.State != pay.Settled || a.Header.Get("X-Pay-Me") != "" || a.Header.Get("Etag") != "" || a.Header.Get("X-Seller") != "kept" {
			t.Errorf("%+v %v", p, a.Header)
		}
		if row := w.closed(p.Payment.ID); row.State != pay.Settled || !row.Answered {
			t.Errorf("in the books: %+v", row)
		}
		// The client has been told, so asking again is a purchase.
		if !strings.Contains(p.Error, "new purchase") {
			t.Errorf("%q", p.Error)
		}
		w.get(s.URL+"/x").declined(t, DeclinedNotDelivered, false)
		s.expect(2, 2, 2)
	}
}

// The seller answers 402 again without saying why: the money may move or not.
func TestChallengedAgain(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		s.writeChallenge(rw, r, "20000", "insufficient_funds") // and dearer now
	}
	a := w.get(s.URL + "/x")
	a.declined(t, DeclinedOpen, false)
	if a.Header.Get("Retry-After") == "" || a.problem(t).Payment.ValidBefore == "" {
		t.Errorf("%v %s", a.Header, a.body)
	}
	id := a.problem(t).Payment.ID
	if _, err := time.Parse(time.RFC3339, a.problem(t).Payment.ValidBefore); err != nil {
		t.Error(err)
	}
	w.closed(id)
	// The repeat drives the same payload on although the fresh challenge is dearer.
	s.price, s.paid = "20000", func(rw http.ResponseWriter, _ *http.Request, n int) { s.receipt(rw, n) }
	b := w.get(s.URL + "/x")
	if b.paid(t) != id || b.Header.Get(HeaderAmount) != "10000" {
		t.Errorf("%v", b.Header)
	}
	s.expect(2, 2, 1)
}

func TestFailedReceipt(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) {
		rw.Header().Set(x402.HeaderResponse, `{"success":false,"errorReason":"insufficient_funds","transaction":"","network":"eip155:8453"}`)
		rw.WriteHeader(402)
		_, _ = io.WriteString(rw, "{}")
	}
	a := w.get(s.URL + "/x")
	a.declined(t, DeclinedOpen, false)
	if _, has, _ := x402.ReceiptFromHeader(a.Header); !has {
		t.Error("the receipt is gone")
	}
	eventually(t, "the refusal is noted", func() bool {
		p := w.closed(a.problem(t).Payment.ID)
		return len(p.Notes) > 0 && strings.Contains(p.Notes[0].Text, "insufficient_funds")
	})
}

func TestErrorAfterPayment(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { http.Error(rw, "broken", 500) }
	a := w.get(s.URL + "/x")
	if a.StatusCode != 500 || a.body != "broken\n" || a.Header.Get(HeaderPayment) == "" || a.Header.Get(HeaderTransaction) != "" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if p := w.closed(a.Header.Get(HeaderPayment)); p.State != pay.Open || p.Answered {
		t.Errorf("in the books: %+v", p)
	}
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) { s.receipt(rw, n) }
	w.get(s.URL + "/x").paid(t)
	s.expect(2, 2, 1)
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
	s := newSeller(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			s.receipt(rw, 1)
			_, _ = io.WriteString(rw, "again")
			return
		}
		close(arrived)
		<-goOn
		late.Store(r.Context().Err() == nil) // the proxy is still waiting
		s.receipt(rw, 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := do(w.agent(), request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
		done <- err
	}()
	<-arrived
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the client got an answer although it had left")
	}
	id := w.payments()[0].ID
	<-left
	close(goOn)
	p := w.closed(id)
	if !late.Load() || p.State != pay.Settled || p.Answered || !p.Unanswered {
		t.Errorf("still waiting %t, in the books %+v", late.Load(), p)
	}
	if a := w.get(s.URL + "/x"); a.paid(t) != id || a.body != "again" {
		t.Errorf("%v %s", a.Header, a.body)
	}
	s.expect(2, 2, 1)
}

// Clients that repeat at once, while the first send is still under way, wait for it.
func TestRepeatWhileInFlight(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			close(arrived)
			<-goOn
		}
		s.receipt(rw, 1)
		_, _ = io.WriteString(rw, "here")
	}
	ask := func() (answer, error) {
		return do(w.agent(), request(t, "GET", s.URL+"/x", nil, "Idempotency-Key", "one"))
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = ask() })
	<-arrived
	results := make([]answer, 3)
	for i := range results {
		wg.Go(func() { results[i], _ = ask() })
	}
	eventually(t, "the repeats have asked", func() bool { u, _, _ := s.counts(); return u == 4 })
	close(goOn)
	wg.Wait()
	for _, a := range results {
		if a.Response == nil || a.paid(t) != results[0].Header.Get(HeaderPayment) || a.body != "here" {
			t.Errorf("%+v", a)
		}
	}
	s.expect(4, 4, 1)
}

// A client that is told of a failure may repeat faster than purser has tidied up.
func TestRepeatAtOnce(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		switch n % 3 {
		case 0:
			_, _ = io.WriteString(rw, "done")
		case 1:
			http.Error(rw, "broken", 500)
		default:
			hangUp(rw)
		}
	}
	c := w.agent()
	for range 20 {
		var ids []string
		for range 3 {
			a := w.do(c, request(t, "GET", s.URL+"/x", nil))
			ids = append(ids, a.Header.Get(HeaderPayment))
		}
		if ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
			t.Fatalf("one purchase, payments %v", ids)
		}
	}
	if _, paid, distinct := s.counts(); paid != 60 || distinct != 20 {
		t.Errorf("%d sends of %d payments", paid, distinct)
	}
}

// A repeat that comes too late for its payload is not paid again, and gets no challenge.
func TestExpiredRepeat(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w := newWorld(t, func(s *setup) { s.pay.Clock, s.forward.Clock = clock, clock })
	s := newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, _ int) { hangUp(rw) }
	id := w.get(s.URL + "/x").problem(t).Payment.ID
	w.closed(id)
	ahead.Store(int64(70 * time.Second)) // the challenge allowed 60 s
	a := w.get(s.URL + "/x")
	a.declined(t, DeclinedOpen, false)
	if p := a.problem(t); p.Payment.ID != id || a.Header.Get("Retry-After") != "" {
		t.Errorf("%v %s", a.Header, a.body)
	}
	s.expect(2, 1, 1)
}

// A seller that switches to a protocol nobody asked for has taken the payload all the same.
func TestUnaskedUpgrade(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSeller(t)
	s.paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n > 1 {
			s.receipt(rw, n)
			return
		}
		rw.Header().Set("Connection", "Upgrade")
		rw.Header().Set("Upgrade", "chess")
		rw.WriteHeader(http.StatusSwitchingProtocols)
	}
	a := w.get(s.URL + "/x")
	if p := a.problem(t); a.StatusCode != http.StatusBadGateway || p.Payment == nil || p.Reason != DeclinedOpen {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if b := w.get(s.URL + "/x"); b.paid(t) != a.Header.Get(HeaderPayment) {
		t.Error("a second payment")
	}
}
