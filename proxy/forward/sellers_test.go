package forward

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// ticking is a clock that tests can move.
type ticking struct{ ahead atomic.Int64 }

func (c *ticking) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *ticking) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// A seller that takes payments and does not deliver gets no more of them for a while, from
// the key that met it; its 402s pass as they are. Repeats of what was paid go through.
func TestSellerThatDoesNotDeliver(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]http.HandlerFunc{
		"error":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) },
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"402":    nil,
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var healthy atomic.Bool
			s := proxytest.NewSeller(t)
			if fails == nil {
				fails = func(rw http.ResponseWriter, r *http.Request) { s.WriteChallenge(rw, r, s.Price, "") }
			}
			s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
				if !healthy.Load() {
					fails(rw, r)
					return
				}
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "goods")
			}
			clock := &ticking{}
			w := newWorld(t, func(o *setup) {
				o.forward.Clock = clock.now
			})
			get := func(secret, path string) proxytest.Answer {
				t.Helper()
				a, _ := proxytest.Do(w.client(url.User(secret)), proxytest.Request(t, "GET", s.URL+path, nil))
				return a
			}
			for i := range 5 {
				if a := get(w.Secret, fmt.Sprint("/", i)); a.Response != nil && a.Header.Get(proxy.HeaderDeclined) == proxy.DeclinedSellerFailing {
					t.Fatalf("declined after %d", i)
				}
			}
			proxytest.Eventually(t, "five payments", func() bool { return len(w.Payments()) == 5 })
			get(w.Secret, "/new").Declined(t, proxy.DeclinedSellerFailing, true)
			if n := len(w.Payments()); n != 5 {
				t.Fatalf("%d payments", n)
			}
			// Others are not concerned, and neither are other sellers.
			healthy.Store(true)
			_, neighbour := w.NewKey()
			get(neighbour, "/x").Paid(t)
			other := proxytest.NewSeller(t)
			a, err := proxytest.Do(w.agent(), proxytest.Request(t, "GET", other.URL+"/x", nil))
			if err != nil {
				t.Fatal(err)
			}
			a.Paid(t)
			get(w.Secret, "/new").Declined(t, proxy.DeclinedSellerFailing, true)
			// The client repeats a paid request, and its answer closes the breaker.
			get(w.Secret, "/0").Paid(t)
			get(w.Secret, "/new").Paid(t)
			healthy.Store(false)
			for i := range 5 {
				get(w.Secret, fmt.Sprint("/second/", i))
			}
			get(w.Secret, "/third").Declined(t, proxy.DeclinedSellerFailing, true)
			clock.advance(30 * time.Second)
			get(w.Secret, "/fourth") // one finds out
			get(w.Secret, "/fifth").Declined(t, proxy.DeclinedSellerFailing, true)
			clock.advance(50 * time.Second) // of 60
			get(w.Secret, "/fifth").Declined(t, proxy.DeclinedSellerFailing, true)
			clock.advance(10 * time.Second)
			healthy.Store(true)
			get(w.Secret, "/sixth").Paid(t)
			get(w.Secret, "/seventh").Paid(t)
		})
	}
}

// A client's own doing is not its seller's failure: leaving, asking for what is not there,
// repeating what was paid.
func TestSellerIsNotToBlame(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	var bought atomic.Int32
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/missing"):
				http.NotFound(rw, r)
			case strings.HasPrefix(r.URL.Path, "/slow"):
				begun <- struct{}{}
				select {
				case <-r.Context().Done():
				case <-time.After(200 * time.Millisecond):
				}
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "late")
			case strings.HasPrefix(r.URL.Path, "/stream"):
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "begun")
				_ = http.NewResponseController(rw).Flush()
				<-r.Context().Done()
			case r.URL.Path == "/again" && bought.Add(1) > 1:
				s.WriteChallenge(rw, r, s.Price, "invalid_exact_evm_nonce_already_used")
			default:
				s.Receipt(rw, n)
				_, _ = io.WriteString(rw, "goods")
			}
		}
	})
	left := func(w *world, path string, after <-chan struct{}) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			resp, err := w.agent().Do(proxytest.Request(t, "GET", s.URL+path, nil).WithContext(ctx))
			if err == nil { // a stream has begun
				_, _ = io.ReadFull(resp.Body, make([]byte, 5))
				cancel()
				_ = resp.Body.Close()
			}
		})
		if after != nil {
			<-after
			cancel()
		}
		all.Wait()
	}
	for name, once := range map[string]func(w *world, i int){
		"missing": func(w *world, i int) {
			if a := w.get(fmt.Sprint(s.URL, "/missing/", i)); a.StatusCode != 404 {
				t.Error(a.StatusCode)
			}
		},
		"slow":   func(w *world, i int) { left(w, fmt.Sprint("/slow/", i), begun) },
		"stream": func(w *world, i int) { left(w, fmt.Sprint("/stream/", i), nil) },
		"repeat": func(w *world, i int) {
			a := w.get(s.URL+"/again", "Idempotency-Key", "k")
			if i > 0 {
				a.Declined(t, proxy.DeclinedBefore, false)
			}
			w.Closed(a.Header.Get(proxy.HeaderPayment))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 7 {
				once(w, i)
			}
			proxytest.Eventually(t, "all are over", func() bool {
				for _, p := range w.Payments() {
					if p.Lease.Owner != "" {
						return false
					}
				}
				return true
			})
			w.get(s.URL + "/new").Paid(t)
		})
	}
}

// Deciding and journaling have a bounded number of places, in turns between keys. A request that
// finds none is answered with 503, and nothing was begun for it. A request that passes through
// needs none.
func TestProxyAdmission(t *testing.T) {
	t.Parallel()
	held := &slowStore{goOn: make(chan struct{}), begun: make(chan struct{}, 100)}
	var refused atomic.Int32
	s := proxytest.NewSeller(t)
	w := newWorld(t, func(o *setup) {
		o.store = func(inner pay.Store) pay.Store {
			held.Store = inner
			return held
		}
		o.forward.Admission = admission.Options{Concurrent: 4, Queued: 2, Wait: 200 * time.Millisecond, Refused: func() { refused.Add(1) }}
	})
	_, other := w.NewKey()
	held.keyID.Store(w.Key.ID)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { w.get(fmt.Sprint(s.URL, "/flood/", i)).Paid(t) })
		<-held.begun
	}
	a := w.get(s.URL + "/flood/late")
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get(proxy.HeaderError) != proxy.DeclinedOverloaded || a.Header.Get("Retry-After") != "5" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if p := a.Problem(t); p.Reason != proxy.DeclinedOverloaded || p.Payment != nil {
		t.Errorf("%+v", p)
	}
	if a := w.get(s.URL + "/free"); a.Text != "free" {
		t.Errorf("what needs no payment: %d %s", a.StatusCode, a.Text)
	}
	for i := range 5 {
		w.do(w.client(url.User(other)), proxytest.Request(t, "GET", fmt.Sprint(s.URL, "/other/", i), nil)).Paid(t)
	}
	close(held.goOn)
	all.Wait()
	if n := len(w.Payments()); n != 3 || refused.Load() != 1 {
		t.Errorf("%d payments, %d refused", n, refused.Load())
	}
}

// slowStore journals the payments of one key only when it is told to.
type slowStore struct {
	pay.Store
	keyID atomic.Value
	goOn  chan struct{}
	begun chan struct{}
}

func (s *slowStore) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	if b.KeyID == s.keyID.Load() {
		s.begun <- struct{}{}
		<-s.goOn
	}
	return s.Store.Begin(ctx, b)
}

// A client address has a share of the tunnels, whatever keys it has.
func TestTunnelsOfOnePeer(t *testing.T) {
	t.Parallel()
	s := newTunnels(Options{MaxTunnels: 10, MaxKeyTunnels: 3, MaxPeerTunnels: 4, PayOptions: proxy.PayOptions{Observer: proxy.Unobserved()}})
	take := func(key, peer string) bool {
		_, ok := s.acquire(key, peer)
		return ok
	}
	for i, key := range []string{"a", "a", "a", "b"} {
		if !take(key, fmt.Sprintf("192.0.2.1:%d", i+1)) {
			t.Fatal(i)
		}
	}
	if take("c", "192.0.2.1:9") || take("a", "192.0.2.2:1") {
		t.Error("more than the share of a peer, or of a key")
	}
	one, ok := s.acquire("c", "[2001:db8::1]:1")
	if !ok {
		t.Fatal("another peer")
	}
	one.release()
	if len(s.byPeer) != 1 || len(s.byKey) != 2 {
		t.Errorf("left: %v %v", s.byPeer, s.byKey)
	}
}
