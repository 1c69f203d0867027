package forward

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// halfClosed sends a request, ends the client's side of the connection, and reads the answer.
func halfClosed(t *testing.T, conn net.Conn, text string) proxytest.Answer {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	a, err := proxytest.Read(http.ReadResponse(bufio.NewReader(conn), nil))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// noticed tells, by the paths of requests, when the proxy has noticed that their clients have ended their side.
type noticed struct {
	mu     sync.Mutex
	byPath map[string]chan struct{}
}

func (n *noticed) of(path string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byPath[path] == nil {
		n.byPath[path] = make(chan struct{})
	}
	return n.byPath[path]
}

func (n *noticed) tell(path string) {
	over := n.of(path)
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-over:
	default:
		close(over)
	}
}

// look notes the end of each request of a server.
func (n *noticed) look(server *http.Server) {
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { n.tell(r.URL.Path) })
		handler.ServeHTTP(rw, r)
	})
}

// A client that ends its sending side behind the request still reads. Free answers reach it. purser cannot tell
// it from a client that has left, so nothing is paid, and the reason says that.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		if a.http2 {
			return // each of its streams ends with the request
		}
		seen := &noticed{byPath: map[string]chan struct{}{}}
		free := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			<-seen.of(r.URL.Path)
			select {
			case <-r.Context().Done(): // the proxy has given the request up
			case <-time.After(200 * time.Millisecond):
			}
			_, _ = fmt.Fprintf(rw, "free%s", body)
		}))
		if free.Start(); !a.absolute {
			free.Close()
			free = httptest.NewTLSServer(free.Config.Handler)
		}
		t.Cleanup(free.Close)
		w := a.world(t, func(o *setup) {
			if !a.absolute {
				o.forward.Roots.AddCert(free.Certificate())
			}
		})
		w.seller.Challenge = func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/half") {
				<-seen.of(r.URL.Path)
			}
			w.seller.WriteChallenge(rw, r, "10000", "")
		}
		server := w.forward.sessions.http1
		if a.absolute {
			server = w.server.Config
		}
		seen.look(server)
		// send sends a request for a path of a server, absolute or inside TLS.
		send := func(server, path, method, header, body string) proxytest.Answer {
			t.Helper()
			if body != "" {
				header += fmt.Sprintf("\nContent-Length: %d", len(body))
			}
			host := strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
			if a.absolute {
				conn, err := net.Dial("tcp", w.addr())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				return halfClosed(t, conn, fmt.Sprintf("%s %s%s HTTP/1.1\nHost: %s%s%s\n\n%s", method, server, path, host, w.login(), header, body))
			}
			name, _, _ := net.SplitHostPort(host)
			return halfClosed(t, w.inside(host, name), fmt.Sprintf("%s %s HTTP/1.1\nHost: %s%s\n\n%s", method, path, host, header, body))
		}
		shop := strings.TrimSuffix(w.shop(""), "/")
		for i, header := range []string{"", "\nConnection: close"} {
			if got := send(free.URL, fmt.Sprintf("/get%d", i), "GET", header, ""); got.StatusCode != http.StatusOK || got.Text != "free" {
				t.Errorf("free: %d %v %s", got.StatusCode, got.Header, got.Text)
			}
			if got := send(free.URL, fmt.Sprintf("/post%d", i), "POST", header, "body"); got.StatusCode != http.StatusOK || got.Text != "freebody" {
				t.Errorf("free with a body: %d %v %s", got.StatusCode, got.Header, got.Text)
			}
			got := send(shop, fmt.Sprintf("/half%d", i), "GET", header, "")
			got.Declined(t, proxy.DeclinedCallerGone, false)
			if !strings.Contains(got.Header.Get(proxy.HeaderDetail), "half-closed") {
				t.Errorf("the detail is %q", got.Header.Get(proxy.HeaderDetail))
			}
			got = send(shop, fmt.Sprintf("/halfdry%d", i), "GET", header+"\nPurser-Dry-Run: 1", "")
			if got.Header.Get(proxy.HeaderDeclined) != proxy.DeclinedDryRun {
				t.Errorf("dry run: %d %v %s", got.StatusCode, got.Header, got.Text)
			}
		}
		w.seller.Expect(4, 0, 0)
		again, err := proxytest.Do(w.buyer(), proxytest.Request(t, "GET", w.shop("/x"), nil)) // it waits now
		if err != nil {
			t.Fatal(err)
		}
		again.Paid(t)
		w.seller.Expect(5, 1, 1)
	})
}

// A client that half-closes while its payment is out gets the answer. Its payment counts as unanswered all the same,
// because a client that has left looks like that.
func TestHalfClosedAfterTheSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &noticed{byPath: map[string]chan struct{}{}}
	seen.look(w.server.Config)
	s := proxytest.NewSeller(t)
	arrived, goOn := s.Hold("paid")
	conn, err := net.Dial("tcp", w.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x%s\n\n", s.URL, w.login())
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-seen.of("/x")
	goOn()
	a, err := proxytest.Read(http.ReadResponse(bufio.NewReader(conn), nil))
	if err != nil {
		t.Fatal(err)
	}
	first := a.Paid(t)
	if a.Text != "paid" {
		t.Errorf("the answer is %q", a.Text)
	}
	if second := w.get(s.URL + "/x").Paid(t); second != first {
		t.Errorf("the repeat is payment %s, not %s", second, first)
	}
	s.Expect(2, 2, 1)
}
