package forward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	wire "github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A lost answer is not a reason to pay again: for a repeat the same payload is sent. Whatever comes
// back instead of one, the client gets an HTTP answer, and the payment is open.
func TestRepeatAfterLostAnswer(t *testing.T) {
	t.Parallel()
	hangUp := func(_ *proxytest.Seller, rw http.ResponseWriter) { proxytest.HangUp(rw) }
	says := func(text string) func(*proxytest.Seller, http.ResponseWriter) {
		return func(_ *proxytest.Seller, rw http.ResponseWriter) {
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
	for name, c := range map[string]struct {
		method, body, key string
		lost              func(s *proxytest.Seller, rw http.ResponseWriter)
		status            int // of an answer of purser's own; 500 is the seller's
	}{
		"get":           {"GET", "", "", hangUp, 502},
		"post":          {"POST", "order 1", "", hangUp, 502},
		"get with key":  {"GET", "", "k-1", hangUp, 502},
		"post with key": {"POST", "order 1", "k-1", hangUp, 502},
		"error":         {"GET", "", "", func(_ *proxytest.Seller, rw http.ResponseWriter) { http.Error(rw, "broken", 500) }, 500},
		"headers that are too large": {"GET", "", "", func(s *proxytest.Seller, rw http.ResponseWriter) {
			rw.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			s.Receipt(rw, 1)
		}, 502},
		"a protocol that was not asked for": {"GET", "", "", func(_ *proxytest.Seller, rw http.ResponseWriter) {
			rw.Header().Set("Connection", "Upgrade")
			rw.Header().Set("Upgrade", "chess")
			rw.WriteHeader(http.StatusSwitchingProtocols)
		}, 502},
		"garbage":      {"GET", "", "", says("garbage\r\n\r\n"), 502},
		"odd status":   {"GET", "", "", says("HTTP/1.1 99 X\r\n\r\n"), 502},
		"odd length":   {"GET", "", "", says("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), 502},
		"zero in head": {"GET", "", "", says("HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"), 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					c.lost(s, rw)
					return
				}
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "at last")
			}
			ask := func() proxytest.Answer {
				r := proxytest.Request(t, c.method, s.URL+"/x", strings.NewReader(c.body))
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				return w.do(w.agent(), r)
			}
			a := ask()
			id := a.Header.Get(proxy.HeaderPayment)
			if a.StatusCode != c.status || a.Header.Get(proxy.HeaderTransaction) != "" {
				t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Text)
			}
			if c.status == 500 {
				if a.Text != "broken\n" {
					t.Errorf("%q", a.Text)
				}
			} else if p := a.Problem(t); p.Reason != proxy.DeclinedOpen || a.Header.Get(proxy.HeaderError) != proxy.DeclinedOpen ||
				p.Payment == nil || p.Payment.ID != id || p.Payment.State != pay.Open {
				t.Fatalf("%+v %v", p, a.Header)
			}
			if p := w.Closed(id); p.State != pay.Open || p.Answered {
				t.Errorf("in the books: %+v", p)
			}
			s.Expect(1, 1, 1)

			if b := ask(); b.Paid(t) != id || b.Text != "at last" {
				t.Errorf("payment %s after %s: %q", b.Header.Get(proxy.HeaderPayment), id, b.Text)
			}
			s.Expect(2, 2, 1)
			w.Closed(id)
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}

			// The answered request again is a new purchase, unless the key says otherwise.
			want := 2
			if c.key != "" {
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
	s.LoseAnswers(9)
	for _, c := range []struct{ method, path, body, task string }{
		{"POST", "/x", "a", ""}, {"POST", "/x", "b", ""}, {"PUT", "/x", "a", ""}, {"POST", "/x?q", "a", ""}, {"POST", "/x", "a", "other"},
	} {
		client := w.client(url.UserPassword(w.Secret, c.task))
		if a := w.do(client, proxytest.Request(t, c.method, s.URL+c.path, strings.NewReader(c.body))); a.StatusCode != http.StatusBadGateway {
			t.Fatalf("%d %s", a.StatusCode, a.Text)
		}
	}
	s.Expect(5, 5, 5)
}

func TestIdempotencyKeyReused(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	w.get(s.URL+"/a", "Idempotency-Key", "same").Paid(t)
	w.get(s.URL+"/b", "Idempotency-Key", "same").Declined(t, proxy.DeclinedReused, false)
	s.Expect(2, 1, 1)
	if got := s.Bought[0].Header.Get("Idempotency-Key"); got != "same" {
		t.Errorf("the seller got Idempotency-Key %q", got)
	}
}

// The seller takes the money and answers 402 all the same.
func TestPaidNotDelivered(t *testing.T) {
	t.Parallel()
	for _, v1 := range []bool{false, true} {
		w := newWorld(t, func(s *setup) { s.forward.Protocols = wire.Spoken("X-Pay-Me") })
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

// A client that leaves while its request is being paid does not stop the send; the answer
// it did not get is there for its repeat.
func TestClientLeavesWhilePaying(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		noticed := w.leaving()
		arrived, goOn := w.seller.Hold("delivered")
		ctx, leave := context.WithCancel(context.Background())
		c := w.buyer()
		gone := proxytest.Start(c, proxytest.Request(t, "GET", w.shop("/x"), nil).WithContext(ctx))
		<-arrived
		leave()
		if got := <-gone; !errors.Is(got.Err, context.Canceled) {
			t.Fatal(got.Err)
		}
		<-noticed
		proxytest.Eventually(t, "an HTTP/2 connection is closed under the handler", func() bool {
			c.CloseIdleConnections()
			return !a.http2 || w.forward.Tunnels() == 0
		})
		goOn()
		p := w.Closed(w.Payments()[0].ID)
		if p.State != pay.Settled || p.Answered || !p.Unanswered {
			t.Errorf("%+v", p)
		}
		proxytest.Eventually(t, "the connection is gone", func() bool { return w.forward.Tunnels() == 0 })
		// With HTTP/2 the handler is the last to go, and its end must be heard.
		proxytest.Eventually(t, "the CONNECT is over", func() bool { return w.forward.Sessions() == 0 })
		if a := w.do(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil)); a.Paid(t) != p.ID || a.Text != "delivered" {
			t.Errorf("%v %s", a.Header, a.Text)
		}
		w.seller.Expect(2, 2, 1)
	})
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
	clock := &ticking{}
	w, s := newWorld(t, func(s *setup) { s.pay.Clock, s.forward.Clock = clock.now, clock.now }), proxytest.NewSeller(t)
	s.LoseAnswers(9)
	id := w.get(s.URL + "/x").Problem(t).Payment.ID
	w.Closed(id)
	clock.advance(70 * time.Second) // the challenge allowed 60 s
	a := w.get(s.URL + "/x")
	a.Declined(t, proxy.DeclinedOpen, false)
	if p := a.Problem(t); p.Payment.ID != id || a.Header.Get("Retry-After") != "" {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	s.Expect(2, 1, 1)
}
