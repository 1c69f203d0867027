package forward

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// What is under way inside is waited for, whether or not its client is, but not longer than asked for, and it is not cut.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"client waits": false, "client leaves": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			protocols(t, func(t *testing.T, http2 bool) {
				w := newSecure(t)
				noticed := w.leaving()
				arrived, proceed := make(chan struct{}), make(chan struct{})
				w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
					close(arrived)
					<-proceed
					w.seller.Receipt(rw, n)
				}
				blind := echoServer(t).Addr().String()
				_, tunnel, _ := w.connect(blind, "not HTTP\n") // which is not waited for
				defer tunnel.Close()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				c, idle := w.secureAgent(http2), w.secureAgent(http2)
				w.do(idle, proxytest.Request(t, "GET", w.shop("/free"), nil))
				done := make(chan error)
				go func() {
					_, err := proxytest.Do(c, proxytest.Request(t, "GET", w.shop("/x"), nil).WithContext(ctx))
					done <- err
				}()
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
				close(proceed)
				if err := <-drained; err != nil {
					t.Error(err)
				}
				if !leaves {
					if err := <-done; err != nil {
						t.Errorf("cut: %v", err)
					}
				}
				if p := w.Closed(w.Payments()[0].ID); p.State != pay.Settled {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}
