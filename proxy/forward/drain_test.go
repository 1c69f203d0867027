package forward

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Drain waits for a request under way inside, even if its client has left. It waits no longer than its caller allows,
// and does not cut the request.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"client waits": false, "client leaves": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			protocols(t, func(t *testing.T, http2 bool) {
				w := newSecure(t)
				noticed := w.leaving()
				arrived, goOn := w.seller.Hold("")
				w.connect(echoServer(t), "not HTTP\n") // which is not waited for
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				c, idle := w.secureAgent(http2), w.secureAgent(http2)
				w.do(idle, proxytest.Request(t, "GET", w.shop("/free"), nil))
				done := proxytest.Start(c, proxytest.Request(t, "GET", w.shop("/x"), nil).WithContext(ctx))
				<-arrived
				if leaves {
					leave()
					<-done
					<-noticed
					c.CloseIdleConnections()
				}
				if err := w.forward.Drain(bounded(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with a payment under way: %v", err)
				}
				if _, err := proxytest.Do(idle, proxytest.Request(t, "GET", w.shop("/free"), nil)); err == nil {
					t.Error("an idle connection goes on")
				}
				drained := make(chan error)
				go func() { drained <- w.forward.Drain(bounded(t, 20*time.Second)) }()
				goOn()
				if err := <-drained; err != nil {
					t.Error(err)
				}
				if !leaves {
					if a := <-done; a.Err != nil {
						t.Errorf("cut: %v", a.Err)
					}
				}
				if p := w.Closed(w.Payments()[0].ID); p.State != pay.Settled {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}
