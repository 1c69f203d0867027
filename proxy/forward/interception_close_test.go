package forward

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Another configuration takes over, again and again, while clients keep their connections
// busy: each of their requests is answered.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		var current atomic.Pointer[Proxy]
		var options Options
		w := newSecure(t, func(s *setup) {
			s.wrap = func(http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					current.Load().ServeHTTP(rw, r, http.NotFoundHandler())
				})
			}
			s.pay.DefaultPolicy.DailyBudget = proxytest.USDC(1000)
			options = s.forward
		})
		options.Payer, options.Dialer, options.MaxTunnels = w.Payer, w.forward.dialer, 5000
		current.Store(w.forward)

		stop := make(chan struct{})
		var clients sync.WaitGroup
		var answers atomic.Int64
		for i := range 6 {
			c := w.secureAgent(http2)
			clients.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					path := "/free"
					if n%10 == 0 {
						path = fmt.Sprintf("/%d/%d", i, n)
					}
					a, err := proxytest.Do(c, proxytest.Request(t, "GET", w.shop(path), nil))
					if err != nil || a.StatusCode != http.StatusOK {
						t.Errorf("%s: %+v %v", path, a, err)
						return
					}
					answers.Add(1)
				}
			})
		}
		var retired []*Proxy
		for range 8 {
			before := answers.Load()
			proxytest.Eventually(t, "clients are served", func() bool { return answers.Load() > before+30 || t.Failed() })
			next, err := New(options)
			if err != nil {
				t.Fatal(err)
			}
			old := current.Swap(next)
			old.Retire(time.Time{})
			retired = append(retired, old)
			proxytest.Eventually(t, "all connections have moved on", func() bool { return old.Tunnels() == 0 || t.Failed() })
		}
		close(stop)
		clients.Wait()
		for _, f := range append(retired, current.Load()) {
			if err := f.Close(bounded(t, 10*time.Second)); err != nil {
				t.Error(err)
			}
		}
		// A client that meets the end of its idle connection repeats what is not paid yet.
		if u, p, d := w.seller.Counts(); u < p || p != d {
			t.Errorf("%d challenges, %d paid requests, %d payments", u, p, d)
		}
	})
}

func TestCloseInside(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		arrived, goOn := w.seller.Hold(strings.Repeat("all of it", 10_000))
		idle, busy := w.secureAgent(http2), w.secureAgent(http2)
		w.do(idle, proxytest.Request(t, "GET", w.shop("/free"), nil))
		_, silent, silentReader := w.connect(w.target(), "")
		got := proxytest.Start(busy, proxytest.Request(t, "GET", w.shop("/x"), nil))
		<-arrived
		closed := make(chan error)
		go func() { closed <- w.forward.Close(bounded(t, 30*time.Second)) }()
		proxytest.Eventually(t, "idle and silent connections end", func() bool { return w.forward.Tunnels() == 1 })
		if _, err := silentReader.ReadByte(); err != io.EOF {
			t.Errorf("silent: %v", err)
		}
		_ = silent.Close()
		if _, err := proxytest.Do(idle, proxytest.Request(t, "GET", w.shop("/free"), nil)); err == nil || !strings.Contains(err.Error(), "Service Unavailable") {
			t.Errorf("a new tunnel: %v", err)
		}
		goOn()
		if a := <-got; a.Err != nil || len(a.Text) != 90_000 || a.Header.Get(proxy.HeaderPayment) == "" {
			t.Errorf("%d bytes, %v", len(a.Text), a.Err)
		}
		start := time.Now()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("closing took %s more", d)
		}
	})
}

// Close cuts a request that does not end in time; a payment that has begun is recorded nevertheless.
func TestCloseCutsInside(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		noticed := w.leaving()
		arrived, goOn := w.seller.Hold("")
		got := proxytest.Start(w.secureAgent(http2), proxytest.Request(t, "GET", w.shop("/x"), nil))
		<-arrived
		if err := w.forward.Close(bounded(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "1 tunnels cut") {
			t.Errorf("%v", err)
		}
		if a := <-got; a.Err == nil {
			t.Error("an answer")
		}
		<-noticed
		goOn()
		if p := w.Closed(w.Payments()[0].ID); p.State != "settled" || p.Answered {
			t.Errorf("%+v", p)
		}
	})
}

// A WebSocket lives on when its Proxy is retired, and is cut when it is closed.
func TestWebSocketInside(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	w.seller.Paid = func(rw http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("Upgrade") != "websocket" || r.ProtoMajor != 1 {
			t.Errorf("the seller got %s %v", r.Proto, r.Header)
		}
		w.seller.Receipt(rw, n)
		rw.Header().Set("Connection", "Upgrade")
		rw.Header().Set("Upgrade", "websocket")
		rw.WriteHeader(http.StatusSwitchingProtocols)
		conn, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			line, err := buf.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "echo "+line)
		}
	}
	conn := w.inside(w.target(), "shop.example", "http/1.1")
	a, br := w.raws(conn, "GET /ws HTTP/1.1\nHost: "+w.target()+"\nConnection: Upgrade\nUpgrade: websocket\n\n", "GET")
	if a.StatusCode != http.StatusSwitchingProtocols || a.Header.Get(proxy.HeaderPayment) == "" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	if p := w.Closed(a.Header.Get(proxy.HeaderPayment)); !p.Answered {
		t.Errorf("%+v", p)
	}
	echo := func() {
		_, _ = io.WriteString(conn, "hello\n")
		if line, err := br.ReadString('\n'); line != "echo hello\n" {
			t.Errorf("%q %v", line, err)
		}
	}
	echo()
	w.forward.Retire(time.Time{})
	w.forward.sessions.draining.Wait()
	echo()
	if err := w.forward.Drain(bounded(t, 10*time.Second)); err != nil {
		t.Errorf("a process that ends waits for it: %v", err)
	}
	echo()
	if err := w.forward.Close(bounded(t, 50*time.Millisecond)); err == nil {
		t.Error("not cut")
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
}

// At the end of the grace period blind tunnels end. A request inside, which takes longer, does not.
func TestRetireEndsTunnels(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		arrived, goOn := w.seller.Hold("goods")
		_, tunnel, blind := w.connect(echoServer(t), "not HTTP\n")
		if line, err := blind.ReadString('\n'); line != "not HTTP\r\n" {
			t.Fatal(line, err)
		}
		got := proxytest.Start(w.secureAgent(http2), proxytest.Request(t, "GET", w.shop("/x"), nil))
		<-arrived
		w.forward.Retire(time.Now().Add(time.Hour))
		_, _ = io.WriteString(tunnel, "still open\n")
		if line, err := blind.ReadString('\n'); line != "still open\n" {
			t.Error(line, err)
		}
		w.forward.Retire(time.Now())
		if _, err := blind.ReadByte(); err == nil {
			t.Error("the blind tunnel goes on")
		}
		if a, _, _ := w.connect(w.target(), ""); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a new tunnel: %d", a.StatusCode)
		}
		goOn()
		if a := <-got; a.Text != "goods" {
			t.Errorf("%+v", a)
		}
		proxytest.Eventually(t, "all tunnels have ended", func() bool { return w.forward.Tunnels() == 0 })
	})
}

// Connections that come to a retired Proxy are served, one request each.
func TestRetired(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		w.forward.Retire(time.Time{})
		c := w.secureAgent(http2)
		for range 3 {
			w.do(c, proxytest.Request(t, "GET", w.shop("/x"), nil)).Paid(t)
		}
		proxytest.Eventually(t, "the connections end", func() bool { return w.forward.Tunnels() == 0 })
		w.inside(w.target(), "shop.example", "http/1.1").HandshakeContext(t.Context())
		proxytest.Eventually(t, "an unused connection ends", func() bool { return w.forward.Tunnels() == 0 })
	})
}

// held is an answer that counts what is written to its connection, as Caddy does. The connection can hold a write back
// until it is closed.
type held struct {
	http.ResponseWriter
	hold    atomic.Bool
	writing chan struct{} // closed when a write is held
	closed  chan struct{}
	close   func()
	written int
}

func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *held) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	return heldConn{conn, h}, rw, err
}

type heldConn struct {
	net.Conn
	*held
}

func (c heldConn) Write(p []byte) (int, error) {
	if c.hold.CompareAndSwap(true, false) {
		close(c.writing)
		<-c.closed
	}
	n, err := c.Conn.Write(p)
	c.written += n
	return n, err
}

func (c heldConn) Close() error {
	c.close()
	return c.Conn.Close()
}

// A server that counts the bytes of a CONNECT logs them when its handler returns. HTTP/2 inside writes none behind that,
// also if the client goes while it writes: the race detector sees it.
func TestNoWriteBehindTheConnect(t *testing.T) {
	t.Parallel()
	h := &held{writing: make(chan struct{}), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	logged := make(chan int)
	w := newSecure(t, func(s *setup) {
		s.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				h.ResponseWriter = rw
				next.ServeHTTP(h, r)
				logged <- h.written
			})
		}
	})
	c := w.secureAgent(true)
	w.do(c, proxytest.Request(t, "GET", w.shop("/free"), nil))
	h.hold.Store(true)
	w.forward.Retire(time.Time{})
	<-h.writing
	c.CloseIdleConnections()
	if n := <-logged; n == 0 {
		t.Error("nothing was written")
	}
}

func TestLimitsInside(t *testing.T) {
	t.Parallel()
	w := newSecure(t, func(s *setup) { s.forward.MaxKeyTunnels = 1 })
	c := w.secureAgent(true)
	w.do(c, proxytest.Request(t, "GET", w.shop("/free"), nil))
	if a, _, _ := w.connect(w.target(), ""); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d", a.StatusCode)
	}
	c.CloseIdleConnections()
	proxytest.Eventually(t, "the place is free again", func() bool { return w.forward.Tunnels() == 0 })
	w.do(c, proxytest.Request(t, "GET", w.shop("/free"), nil))
}
