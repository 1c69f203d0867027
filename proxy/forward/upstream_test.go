package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy/proxytest"
)

// upstreamPools makes the transport of a Proxy that may dial loopback.
func upstreamPools(t *testing.T, roots *x509.CertPool) *pools {
	t.Helper()
	g := guard.NewDialer(guard.Options{Rules: guard.Rules{AllowLoopback: true}})
	p := newPools(func() *http.Transport { return newUpstream(g, roots) })
	t.Cleanup(p.CloseIdleConnections)
	return p
}

// A client that asks and takes back leaves no handshake behind, however long the upstream takes for it.
func TestTakenBackRequestsLeaveNoHandshake(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := upstreamPools(t, nil)
	ctx, takeBack := context.WithCancel(t.Context())
	const asked = 20
	failed := make(chan error, asked)
	for range asked {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", "https://"+silent.Addr().String()+"/", nil)
			resp, err := p.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			failed <- err
		}()
	}
	var open []net.Conn
	for range asked {
		c, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(handshakeTimeout / 2))
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil { // a handshake has begun
			t.Fatal(err)
		}
		open = append(open, c)
	}
	takeBack()
	for range asked {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	for _, c := range open {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the connection is still open: %v", err)
		}
	}
}

// The connection that a request got stays when the request is over, and takes the next one.
func TestConnectionsOutliveTheirFirstRequest(t *testing.T) {
	t.Parallel()
	for name, protocol := range map[string]string{"h2": "HTTP/2.0", "h1": "HTTP/1.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto+" "+r.RemoteAddr)
			}))
			up.EnableHTTP2 = name == "h2"
			up.StartTLS()
			defer up.Close()
			roots := x509.NewCertPool()
			roots.AddCert(up.Certificate())
			p := upstreamPools(t, roots)
			ask := func(upgrade bool) string {
				ctx, over := context.WithCancel(t.Context())
				defer over()
				req, _ := http.NewRequestWithContext(ctx, "GET", up.URL, nil)
				if upgrade {
					req.Header.Set("Connection", "Upgrade")
					req.Header.Set("Upgrade", "websocket")
				}
				resp, err := p.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return string(body)
			}
			first := ask(false)
			if first[:len(protocol)] != protocol {
				t.Errorf("spoke %s", first)
			}
			if again := ask(false); again != first {
				t.Errorf("%s, then %s", first, again)
			}
			if ws := ask(true); ws[:len("HTTP/1.1")] != "HTTP/1.1" {
				t.Errorf("WebSocket over %s", ws)
			}
		})
	}
}

// Certificates are verified for the name that was asked for.
func TestUpstreamCertificates(t *testing.T) {
	t.Parallel()
	up := httptest.NewTLSServer(http.NotFoundHandler())
	defer up.Close()
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	for name, c := range map[string]struct {
		roots *x509.CertPool
		host  string
		right bool
	}{
		"right":             {roots, "127.0.0.1", true},
		"another name":      {roots, "localhost", false},
		"another authority": {x509.NewCertPool(), "127.0.0.1", false},
	} {
		_, port, err := net.SplitHostPort(up.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+net.JoinHostPort(c.host, port), nil)
		resp, err := upstreamPools(t, c.roots).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		var untrusted *tls.CertificateVerificationError
		if right := err == nil; right != c.right || !right && !errors.As(err, &untrusted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// slowListener gives one connection at once; those after it never get to their handshake.
type slowListener struct {
	net.Listener
	given bool
	until <-chan struct{}
}

type deaf struct {
	net.Conn
	until <-chan struct{}
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil && l.given {
		c = &deaf{c, l.until}
	}
	l.given = true
	return c, err
}

func (d *deaf) Read([]byte) (int, error) {
	<-d.until
	return 0, io.EOF
}

// A connection for a request that another one served in the end is left to later requests, but
// not any number of them.
func TestSparesAreKeptAndBounded(t *testing.T) {
	t.Parallel()
	const asked = maxUnusedDials + 20
	entered, held, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			close(entered)
			<-held
		}
	}))
	up.Listener = &slowListener{Listener: up.Listener, until: over}
	up.StartTLS()
	defer up.Close()
	defer close(over)
	defer release()
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	p := upstreamPools(t, roots).of("key")

	var all sync.WaitGroup
	ask := func(path string) {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", up.URL+path, nil)
		resp, err := p.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	opening := func(what string, enough func(n int32) bool) {
		t.Helper()
		for deadline := time.Now().Add(handshakeTimeout / 2); !enough(p.opening.Load()); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d connections are being opened", what, p.opening.Load())
			}
		}
	}
	all.Go(func() { ask("/first") })
	<-entered
	for range asked {
		all.Go(func() { ask("/") })
	}
	opening("all others", func(n int32) bool { return n == asked })
	release()
	all.Wait()
	opening("served", func(n int32) bool { return n <= maxUnusedDials })
	// Requests that are served at the same moment may each give up theirs.
	if n := p.opening.Load(); n == 0 {
		t.Error("no spare is left")
	}
}

// A challenge's connection takes the paid request too.
func TestPaidRequestTakesTheConnectionOfItsChallenge(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = version == "v1" })
			var mu sync.Mutex
			from := make(map[string]bool)
			s.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				from[r.RemoteAddr] = true
				mu.Unlock()
				s.ServeHTTP(rw, r)
			})
			for range 5 {
				w.get(s.URL + "/x").Paid(t)
			}
			s.Expect(5, 5, 5)
			mu.Lock()
			defer mu.Unlock()
			if len(from) != 1 {
				t.Errorf("%d connections for five purchases, one after another", len(from))
			}
		})
	}
}
