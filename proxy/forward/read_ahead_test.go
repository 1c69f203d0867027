package forward

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A client that has sent something behind its request, such as a line break (RFC 9112,
// section 2.2) or the next request, and then leaves, is seen leaving: its repeat gets the
// payment of its first call, and none of its own.
func TestRepeatOfClientThatSentMore(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"nothing": "", "line break": "\n", "pipelined": "GET /free HTTP/1.1\nHost: x\n\n"} {
		for _, where := range []string{"absolute", "inside TLS", "inside"} {
			t.Run(where+" "+name, func(t *testing.T) {
				t.Parallel()
				arrived, goOn := make(chan struct{}, 4), make(chan struct{})
				release := sync.OnceFunc(func() { close(goOn) })
				defer release()
				slow := func(rw http.ResponseWriter, _ *http.Request, n int) {
					if n == 1 {
						arrived <- struct{}{}
						<-goOn
					}
					_, _ = io.WriteString(rw, "goods")
				}
				w, text, open, left := sendingDoor(t, where, slow)
				crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
				first := open()
				_, _ = io.WriteString(first, crlf(text))
				<-arrived                                // the payload has left, the seller is at work
				_, _ = io.WriteString(first, crlf(more)) // in a packet of its own
				time.Sleep(50 * time.Millisecond)
				_ = first.Close()
				select {
				case <-left:
				case <-time.After(20 * time.Second):
					t.Fatal("the client is not seen leaving")
				}
				again := open()
				_, _ = io.WriteString(again, crlf(text))
				time.Sleep(50 * time.Millisecond) // long enough to pay once more
				if n := len(w.Payments()); n != 1 {
					t.Errorf("one request of a client that was gone and came back: %d payments", n)
				}
				release()
				b := make([]byte, 12)
				if _, err := io.ReadFull(again, b); err != nil || string(b) != "HTTP/1.1 200" {
					t.Errorf("the repeat got %q, %v", b, err)
				}
				if n := len(w.Payments()); n != 1 {
					t.Errorf("%d payments", n)
				}
				_ = again.Close()
			})
		}
	}
}

// sendingDoor is a way through the proxy to a seller, and a request for it. left is closed once the
// proxy has noticed that the client of the first request is gone, or has answered it.
func sendingDoor(t *testing.T, where string, paid func(http.ResponseWriter, *http.Request, int)) (w *world, text string, open func() net.Conn, left <-chan struct{}) {
	if where == "inside TLS" {
		s := newSecure(t)
		left = s.leaving()
		s.seller.Paid = paid
		return s.world, "GET /x HTTP/1.1\nHost: " + s.target() + "\n\n", func() net.Conn {
			a, conn, br := s.connect(s.target(), "")
			if a.StatusCode != 200 {
				t.Fatal(a.StatusCode)
			}
			return tls.Client(&peekedConn{Conn: conn, early: buffered(br)}, &tls.Config{RootCAs: s.ours.pool(), ServerName: "shop.example"})
		}, left
	}
	plain := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.Paid = paid })
	at := strings.TrimPrefix(plain.URL, "http://")
	if where == "inside" {
		s := newSecure(t)
		left = s.leaving()
		return s.world, "GET /x HTTP/1.1\nHost: " + at + "\n\n", func() net.Conn {
			a, conn, br := s.connect(at, "")
			if a.StatusCode != 200 {
				t.Fatal(a.StatusCode)
			}
			return &peekedConn{Conn: conn, early: buffered(br)}
		}, left
	}
	w = newWorld(t)
	set := conns.NewSet(conns.Limits{})
	var once sync.Once
	gone := make(chan struct{})
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { once.Do(func() { close(gone) }) })
		w.server.Config.Handler.ServeHTTP(rw, r)
	}))
	front.Listener = set.Listen(front.Listener)
	front.Config.ReadHeaderTimeout, front.Config.ConnState = time.Minute, set.State
	front.Start()
	t.Cleanup(front.Close)
	return w, fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nProxy-Authorization: %s\n\n", plain.URL, basic(w.Secret, "")), func() net.Conn {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}, gone
}
