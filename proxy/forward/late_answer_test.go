package forward

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// renewing extends the lease of each new payment for a long time, as renewals do while a send lasts.
type renewing struct{ pay.Store }

func (r renewing) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	begun, err := r.Store.Begin(ctx, b)
	if err == nil && begun.How == pay.Created {
		err = r.Renew(ctx, begun.Payment.ID, begun.Payment.Lease.Fence, b.Now.Add(10*time.Minute))
	}
	return begun, err
}

// A seller takes longer for its answer than the authorization is valid, and its client gives up meanwhile. The client's
// repeat is no purchase: not while the first send lasts, nor when it has ended.
func TestRepeatOfASendThatOutlivesItsAuthorization(t *testing.T) {
	t.Parallel()
	for _, count := range []string{"", "1"} {
		t.Run("retries "+count, func(t *testing.T) {
			t.Parallel()
			clock := &ticking{}
			w := newWorld(t, func(o *setup) {
				o.forward.Clock, o.pay.Clock, o.pay.RepeatWait = clock.now, clock.now, 200*time.Millisecond
				o.store = func(s pay.Store) pay.Store { return renewing{s} }
			})
			s := proxytest.NewSeller(t)
			arrived, goOn := s.Hold("late")
			defer goOn()
			s.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
			ctx, giveUp := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				_, _ = proxytest.Do(w.agent(), proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
			}()
			<-arrived
			clock.advance(5 * time.Minute)
			giveUp()
			<-left
			var more []string
			if count != "" {
				more = []string{"X-Stainless-Retry-Count", count}
			}
			id := w.Payments()[0].ID
			if got := w.get(s.URL+"/x", more...); got.StatusCode != http.StatusPaymentRequired || got.Header.Get(proxy.HeaderPayment) != id {
				t.Errorf("while the first one is under way: %d %q", got.StatusCode, got.Text)
			}
			goOn()
			w.Closed(id)
			if got := w.get(s.URL+"/x", more...); got.Text != "again" || got.Paid(t) != id {
				t.Errorf("once it has ended: %d %q", got.StatusCode, got.Text)
			}
			if n := len(w.Payments()); n != 1 {
				t.Errorf("%d payments", n)
			}
		})
	}
}

// stuck is a door whose writer returns late: its client has the answer, and asks again, before the door knows.
type stuck struct {
	http.ResponseWriter
	left int // bytes of the answer
	wait func()
}

func (s *stuck) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stuck) Write(p []byte) (int, error) {
	s.left -= len(p)
	return s.ResponseWriter.Write(p)
}

func (s *stuck) FlushError() error {
	err := http.NewResponseController(s.ResponseWriter).Flush()
	if s.left == 0 {
		s.wait()
	}
	return err
}

// A client that has its answer from a slow seller buys the same again. That is a purchase, even if the door is late
// to learn that its answer was written.
func TestNextPurchaseBeforeTheDoorHasWritten(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"nothing": 0, "short": 5, "long": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, s := &ticking{}, proxytest.NewSeller(t)
			looked := make(chan struct{}) // the second call has begun
			w := newWorld(t, func(o *setup) {
				o.forward.Clock, o.pay.Clock, o.pay.RepeatWait = clock.now, clock.now, 10*time.Second
				o.wrap = func(h http.Handler) http.Handler {
					return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						if r.Header.Get("X-First") != "" {
							rw = &stuck{rw, length, func() { <-looked }}
						}
						h.ServeHTTP(rw, r)
					})
				}
			})
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-First") == "" {
					close(looked)
				}
				s.WriteChallenge(rw, r, s.Price, "")
			}
			s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
				clock.advance(5 * time.Second)
				s.Receipt(rw, n)
				rw.Header().Set("Content-Length", strconv.Itoa(length))
				_, _ = rw.Write(make([]byte, length))
			}
			first := w.get(s.URL+"/x", "X-First", "1").Paid(t)
			if w.get(s.URL+"/x").Paid(t) == first {
				t.Error("the next purchase is taken for a repeat")
			}
		})
	}
}
