package forward

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a forward proxy with a store in memory and a real signer, reached over loopback.
type world struct {
	*proxytest.World
	forward *Proxy
	server  *httptest.Server
	via     string // the address of a relay that its clients use; "": none
}

// setup changes what a world is made of.
type setup struct {
	pay     pay.Options
	store   func(pay.Store) pay.Store // what the payer gets instead of the real store
	forward Options
	guard   guard.Options
	next    http.Handler // what is not proxy traffic
	wrap    func(http.Handler) http.Handler
	// conns is the server's ConnContext: by default that of purser's sites.
	conns func(context.Context, net.Conn) context.Context
}

func newWorld(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	s := &setup{
		pay:   proxytest.PayOptions(),
		store: func(s pay.Store) pay.Store { return s },
		guard: guard.Options{Rules: guard.Rules{AllowLoopback: true}},
		next:  http.NotFoundHandler(),
		conns: conns.InDoor,
		wrap:  func(h http.Handler) http.Handler { return h },
	}
	for _, f := range change {
		f(s)
	}
	w := &world{World: proxytest.NewWorld(t, s.pay, s.store)}
	var err error
	s.forward.Payer, s.forward.Dialer, s.forward.Logger = w.Payer, guard.NewDialer(s.guard), w.Logger
	if s.forward.StandIn == "own" {
		s.forward.StandIn = w.Secret
	}
	if w.forward, err = New(s.forward); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.forward.Close(ctx); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	next := s.next
	w.server = httptest.NewUnstartedServer(s.wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Server", "front")
		w.forward.ServeHTTP(rw, r, next)
	})))
	w.server.Config.ConnContext = s.conns
	w.server.Start()
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) addr() string { return cmp.Or(w.via, w.server.Listener.Addr().String()) }

// client is an agent that knows nothing of payments. user is its proxy login, "" for none.
func (w *world) client(user *url.Userinfo) *http.Client {
	w.T.Helper()
	proxy := &url.URL{Scheme: "http", Host: w.addr(), User: user}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), DisableCompression: true}
	w.T.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (w *world) agent() *http.Client { return w.client(url.User(w.Secret)) }

// login is the header with the key of the world, for a raw request.
func (w *world) login() string { return "\nProxy-Authorization: " + basic(w.Secret, "") }

func (w *world) do(c *http.Client, r *http.Request) proxytest.Answer {
	w.T.Helper()
	a, err := proxytest.Do(c, r)
	if err != nil {
		w.T.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return a
}

func (w *world) get(rawURL string, header ...string) proxytest.Answer {
	w.T.Helper()
	return w.do(w.agent(), proxytest.Request(w.T, "GET", rawURL, nil, header...))
}

// raw sends bytes to the proxy and reads one response.
func (w *world) raw(text, method string) (proxytest.Answer, net.Conn, *bufio.Reader) {
	w.T.Helper()
	conn, err := net.Dial("tcp", w.addr())
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		w.T.Fatal(err)
	}
	br := bufio.NewReader(conn)
	return w.next(br, method), conn, br
}

// next reads an answer to a request of a method.
func (w *world) next(br *bufio.Reader, method string) proxytest.Answer {
	w.T.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		w.T.Fatal(err)
	}
	if s := resp.StatusCode; s < 200 || s == http.StatusOK && method == http.MethodConnect {
		return proxytest.Answer{Response: resp}
	}
	a, err := proxytest.Read(resp, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return a
}

// listen starts a server that takes connections with serve, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// nowhere is an address of this machine at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	return ln.Addr().String()
}

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
