package forward

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// echoServer sends everything back, and says goodbye once the client has no more to say.
func echoServer(t *testing.T) (addr string) {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		if _, err := io.Copy(conn, conn); err == nil {
			_, _ = io.WriteString(conn, "bye")
		}
	})
}

func (w *world) connect(target, early string) (proxytest.Answer, net.Conn, *bufio.Reader) {
	w.T.Helper()
	return w.raw("CONNECT "+target+" HTTP/1.1\nHost: ignored"+w.login()+"\n\n"+early, http.MethodConnect)
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := echoServer(t)
	a, conn, br := w.connect(target, "early ")
	if a.StatusCode != 200 || a.Status != "200 Connection Established" || len(a.Header) != 0 {
		t.Fatalf("%s %v", a.Status, a.Header)
	}
	if n := w.forward.Tunnels(); n != 1 {
		t.Errorf("%d tunnels", n)
	}
	data := make([]byte, 300_000)
	_, _ = rand.Read(data)
	go func() {
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite() // half-closed: what is under way still arrives
	}()
	got, err := io.ReadAll(br)
	if want := "early " + string(data) + "bye"; err != nil || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	proxytest.Eventually(t, "the tunnel is gone", func() bool { return w.forward.Tunnels() == 0 })
}

func TestTunnelCarriesTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(rw, "%s %v", r.Proto, r.Header["Proxy-Authorization"])
	}))
	defer s.Close()
	c := w.agent()
	c.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	if a := w.do(c, proxytest.Request(t, "GET", s.URL+"/x", nil)); a.Text != "HTTP/1.1 []" {
		t.Errorf("%q", a.Text)
	}
}

func TestTunnelIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tunnel, _ := newTunnels(Options{IdleTunnel: time.Minute, PayOptions: proxy.PayOptions{Observer: proxy.Unobserved()}}).acquire("key", "192.0.2.1:1")
		client, near := net.Pipe()
		far, upstream := net.Pipe()
		go func() { _, _ = io.Copy(upstream, upstream) }()
		go func() {
			tunnel.run(near, far)
			tunnel.release()
		}()
		b := make([]byte, 1)
		for range 8 { // never idle for long, though longer than the limit in all
			time.Sleep(40 * time.Second)
			_, _ = io.WriteString(client, "x")
			if _, err := client.Read(b); b[0] != 'x' || err != nil {
				t.Fatalf("%s %v", b, err)
			}
		}
		start := time.Now()
		if _, err := client.Read(b); err == nil {
			t.Error("bytes out of nowhere")
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("cut after %s", d)
		}
	})
}

func TestCloseEndsTunnels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := echoServer(t)
	_, _, br := w.connect(target, "")
	if err := w.forward.Close(bounded(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "1 tunnels cut") {
		t.Errorf("%v", err)
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the tunnel is open")
	}
	if n := w.forward.Tunnels(); n != 0 {
		t.Errorf("%d tunnels", n)
	}
	if a, _, _ := w.connect(target, ""); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a tunnel after closing: %d", a.StatusCode)
	}
}

// Tunnels is the number of open tunnels, intercepted connections among them.
func (f *Proxy) Tunnels() int {
	f.tunnels.mu.Lock()
	defer f.tunnels.mu.Unlock()
	return len(f.tunnels.all)
}

// Sessions counts the intercepted connections that are waited for.
func (f *Proxy) Sessions() int {
	f.sessions.mu.Lock()
	defer f.sessions.mu.Unlock()
	return len(f.sessions.open)
}
