package forward

import (
	"context"
	"io"
	"net/http"
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
