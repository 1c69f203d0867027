package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// halfOpen puts a relay before a proxy which passes everything on, but for the end of a client: as a network
// that has lost the client's connection.
func halfOpen(t *testing.T, to string) (addr string) {
	t.Helper()
	return listen(t, func(client net.Conn) {
		up, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = up.Close() })
		go func() { _, _ = io.Copy(client, up) }()
		_, _ = io.Copy(up, client)
	})
}

// A client gives a request up while the seller is at work, and purser does not hear of it. The repeat gets the first
// call's payment, however that has ended by then: the relay has taken its answer.
func TestRepeatOverABrokenWay(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		clock := &ticking{}
		w := a.world(t, func(s *setup) { s.pay.Clock, s.forward.Clock = clock.now, clock.now })
		arrived, goOn := w.seller.Hold("goods")
		w.seller.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
		w.via = halfOpen(t, w.addr())
		ctx, leave := context.WithCancel(context.Background())
		// HTTP/2 ends a request with a frame, which gets through.
		first := proxytest.Start(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil).WithContext(ctx))
		defer goOn()
		<-arrived
		if !a.http2 {
			leave()
			if got := <-first; !errors.Is(got.Err, context.Canceled) {
				t.Fatal(got.Err)
			}
		}
		defer leave()
		clock.advance(1001 * time.Millisecond)
		again := proxytest.Start(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil))
		proxytest.Eventually(t, "the repeat is at the seller", func() bool { n, _, _ := w.seller.Counts(); return n == 2 })
		goOn()
		got := <-again
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if id := got.Paid(t); id != w.Payments()[0].ID || got.Text != "again" || len(w.Payments()) != 1 {
			t.Errorf("%q, %d payments", got.Text, len(w.Payments()))
		}
	})
}

// Calls that begin together are purchases of their own, and so is a later one that says so.
func TestCallsBesideOneThatWaits(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	begun := time.Now()
	still := func() time.Time { return begun.Add(time.Duration(ahead.Load())) }
	w, s := newWorld(t, func(s *setup) { s.pay.Clock, s.forward.Clock = still, still }), proxytest.NewSeller(t)
	arrived, goOn := s.Hold("goods")
	first := proxytest.Start(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil))
	defer goOn()
	<-arrived
	ahead.Store(int64(time.Second))
	w.get(s.URL + "/x").Paid(t)
	ahead.Add(int64(time.Second))
	if n := len(w.Payments()); n != 2 {
		t.Errorf("%d payments of two calls within a second", n)
	}
	w.get(s.URL+"/x", proxy.HeaderAgain, "new").Paid(t)
	goOn()
	if got := <-first; got.Err != nil {
		t.Fatal(got.Err)
	}
	s.Expect(3, 3, 3)
}

// A seller takes long to name its price. The repeat of a client that has given up meanwhile can be the first to pay, and
// be answered: then the first call gets that payment.
func TestRepeatOvertakes(t *testing.T) {
	t.Parallel()
	clock, slow, asked := &ticking{}, make(chan struct{}), make(chan struct{})
	w, s := newWorld(t, func(s *setup) { s.pay.Clock, s.forward.Clock = clock.now, clock.now }), proxytest.NewSeller(t)
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Try") == "1" {
			close(asked)
			<-slow
		}
		s.WriteChallenge(rw, r, s.Price, "")
	}
	first := proxytest.Start(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil, "X-Try", "1"))
	<-asked
	clock.advance(2 * time.Second)
	id := w.get(s.URL + "/x").Paid(t)
	w.Closed(id)
	close(slow)
	got := <-first
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	got.Declined(t, proxy.DeclinedBefore, false)
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
	w.Closed(id)
	w.get(s.URL + "/x").Paid(t) // comes when both are over
	if n := len(w.Payments()); n != 2 {
		t.Errorf("%d payments", n)
	}
}

// A relay takes an answer and loses it. Its client has announced to close the connection, and never does: so it has not
// got the answer.
func TestAnswerThatARelayLoses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chunked bool
		conns   func(context.Context, net.Conn) context.Context
	}{
		"a site":          {false, conns.InDoor},
		"a site, chunked": {true, conns.InDoor},
		"another server":  {false, func(ctx context.Context, _ net.Conn) context.Context { return ctx }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t, func(s *setup) { s.conns = c.conns }), proxytest.NewSeller(t)
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				s.Receipt(rw, n)
				if c.chunked {
					_ = http.NewResponseController(rw).Flush()
				}
				_, _ = io.WriteString(rw, "goods")
			}
			relay := listen(t, func(client net.Conn) {
				up, err := net.Dial("tcp", w.addr())
				if err != nil {
					return
				}
				defer up.Close()
				go func() { _, _ = io.Copy(up, client) }()
				_, _ = io.Copy(io.Discard, up)
			})
			agent := func(at string) *http.Client {
				proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: at, User: url.User(w.Secret)})
				return &http.Client{Transport: &http.Transport{Proxy: proxy, DisableKeepAlives: true}, Timeout: 20 * time.Second}
			}
			if a, err := proxytest.Do(agent(relay), proxytest.Request(t, "GET", s.URL+"/x", nil)); err == nil {
				t.Fatalf("%d %s", a.StatusCode, a.Text)
			}
			a := w.do(agent(w.addr()), proxytest.Request(t, "GET", s.URL+"/x", nil))
			id := a.Paid(t)
			if n := len(w.Payments()); n != 1 {
				t.Errorf("an answer was lost, and the repeat was paid again: %d payments", n)
			}
			w.Closed(id)
			if next := w.do(agent(w.addr()), proxytest.Request(t, "GET", s.URL+"/x", nil)).Paid(t); next == id {
				t.Error("an answer that was closed properly is given again")
			}
			if p := w.Closed(w.Payments()[0].ID); !p.Answered {
				t.Error("an answer that was closed properly does not count")
			}
		})
	}
}

// An answer lies in the socket when its client breaks off without a word of having got it.
func TestAnswerThatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	served := make(chan struct{}, 10)
	w, s := newWorld(t, func(s *setup) {
		s.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(rw, r)
				served <- struct{}{}
			})
		}
	}), proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		_, _ = io.WriteString(rw, strings.Repeat("x", 24<<10)) // more than the client's system takes
	}
	s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
	conn := narrow(t, w.addr())
	_, _ = io.WriteString(conn, strings.ReplaceAll("GET "+s.URL+"/x HTTP/1.1\nHost: x"+w.login()+"\n\n", "\n", "\r\n"))
	<-served
	if p := w.Payments()[0]; p.Answered || p.Lease.Owner == "" {
		t.Errorf("answered %t, lease %q", p.Answered, p.Lease.Owner)
	}
	_ = conn.Close()
	if a := w.get(s.URL + "/x"); a.Text != "again" || len(w.Payments()) != 1 {
		t.Errorf("%q, %d payments", a.Text, len(w.Payments()))
	}
}

// An answer that the client has got ends its call, and the next one is a purchase.
func TestNextPurchaseDoesNotWait(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		c := w.buyer()
		seen := map[string]bool{}
		for range 5 {
			seen[w.do(c, proxytest.Request(t, "GET", w.shop("/x"), nil)).Paid(t)] = true
		}
		if len(seen) != 5 {
			t.Errorf("%d payments of 5 calls", len(seen))
		}
		for id := range seen {
			if p := w.Closed(id); p.State != pay.Settled && p.State != pay.Open || !p.Answered {
				t.Errorf("%s: answered %t", p.State, p.Answered)
			}
		}
	})
}
