package facilitator_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/endpoint/endpointtest"
	"github.com/purserpay/purser/pay"
)

func tlsServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	var calls atomic.Int32
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	down := "http://" + listener.Addr().String()
	_ = listener.Close()
	for _, c := range []struct {
		name, url, fails string
		notSent          bool
	}{
		{"down", down, "connection refused", true},
		{"unknown host", "http://nowhere.invalid", "host not found", true},
		{"https to plain http", strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http:", "https:", 1), "no TLS", true},
		{"certificate nobody trusts", tlsServer(t), "certificate not trusted", true},
		{"slow", serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the caller is gone
			<-r.Context().Done()
		}), "timed out", false},
		{"slow body", serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"success":true`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), "timed out", false},
		{"reset", serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			calls.Add(1)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}), "connection", false},
		{"cut", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"success":true}`)
		}), "connection closed before the answer was complete", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := facilitator.Options{URL: c.url, Timeout: 20 * time.Second}
			if c.fails == "timed out" {
				options.Timeout = 200 * time.Millisecond
			}
			client := newClient(t, options)
			_, err := client.Settle(t.Context(), x)
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want one with %q", err, c.fails)
			}
			if got := errors.Is(err, pay.ErrNotSent); got != c.notSent {
				t.Errorf("not sent %v, want %v", got, c.notSent)
			}
			if strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "nowhere") {
				t.Errorf("error names the host: %v", err)
			}
		})
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("a settlement that was reset was sent %d times", n)
	}
}

// The facilitator closes a connection just when a call uses it. A /verify is asked again on a new
// connection. A /settle is not, because the facilitator may have received it.
func TestConnectionGivenUp(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	url, came := endpointtest.HangsUp(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("X-Idempotency-Key")) > 0 {
			t.Error("the mark was sent")
		}
		_, _ = io.WriteString(w, `{"isValid":true,"success":true}`)
	}))
	c := newClient(t, facilitator.Options{URL: url})
	for range 2 {
		if _, err := c.Verify(t.Context(), x); err != nil {
			t.Error(err)
		}
	}
	if n := came.Load(); n != 3 {
		t.Errorf("two verifications made %d requests, not 3", n)
	}
	_, err := c.Settle(t.Context(), x)
	checkError(t, err, "connection")
	if errors.Is(err, pay.ErrNotSent) {
		t.Error("a settlement that may have arrived counts as not sent")
	}
	if n := came.Load(); n != 4 {
		t.Errorf("%d requests, not 4: the settlement was repeated", n)
	}
}

// The facilitator receives a whole /settle and then resets the stream. The money may have moved, so
// the transport must not send it again: the payer would take the second answer for the only one.
func TestSettlementThatIsReset(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	var came atomic.Int32
	url, way := endpointtest.Resets(t, func(n int) { came.Store(int32(n)) })
	c := newClient(t, facilitator.Options{URL: url, Transport: way})
	_, err := c.Settle(t.Context(), x)
	checkError(t, err, "connection failed")
	if errors.Is(err, pay.ErrNotSent) {
		t.Error("it counts as not sent")
	}
	if n := came.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	arrived := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := newClient(t, facilitator.Options{URL: url}).Settle(ctx, x)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	var visited atomic.Int32
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		visited.Add(1)
		_, _ = io.WriteString(w, `{"success":true,"kinds":[]}`)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other+r.URL.Path, status)
		})
		c := newClient(t, facilitator.Options{URL: url, Key: key})
		_, err := c.Settle(t.Context(), x)
		checkError(t, err, "redirects are not followed")
		checkError(t, c.Probe(t.Context()), "redirects are not followed")
	}
	if n := visited.Load(); n != 0 {
		t.Errorf("the other host was called %d times", n)
	}
}
