package forward

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy/proxytest"
)

// A client that has sent something behind its request, such as a line break (RFC 9112,
// section 2.2) or the next request, and then leaves, is seen leaving: its repeat gets the
// payment of its first call, and none of its own. (Outside tunnels: TestShippedDoorsSeeClientsLeave.)
func TestRepeatOfClientThatSentMore(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"nothing": "", "line break": "\n", "pipelined": "GET /free HTTP/1.1\nHost: x\n\n"} {
		for where, tls := range map[string]bool{"TLS": true, "plain": false} {
			t.Run(where+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newSecure(t)
				if !tls {
					w.seller = proxytest.NewSeller(t)
				}
				left := w.leaving()
				arrived, goOn := w.seller.Hold("goods")
				defer goOn()
				open := func() net.Conn {
					if tls {
						return w.inside(w.target(), "shop.example")
					}
					_, conn, _ := w.connect(w.target(), "")
					return conn
				}
				send := func(conn net.Conn, text string) { _, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")) }
				request := "GET /x HTTP/1.1\nHost: " + w.target() + "\n\n"
				first := open()
				send(first, request)
				<-arrived         // the payload has left, the seller is at work
				send(first, more) // in a packet of its own
				time.Sleep(50 * time.Millisecond)
				_ = first.Close()
				select {
				case <-left:
				case <-time.After(20 * time.Second):
					t.Fatal("the client is not seen leaving")
				}
				again := open()
				send(again, request)
				time.Sleep(50 * time.Millisecond) // long enough to pay once more
				goOn()
				b := make([]byte, 12)
				if _, err := io.ReadFull(again, b); err != nil || string(b) != "HTTP/1.1 200" {
					t.Errorf("the repeat got %q, %v", b, err)
				}
				if n := len(w.Payments()); n != 1 {
					t.Errorf("one request of a client that was gone and came back: %d payments", n)
				}
			})
		}
	}
}
