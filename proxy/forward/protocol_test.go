package forward

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

func TestOtherThanTLSIsTunnelled(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	target := echoServer(t)
	for _, c := range []struct{ early, later string }{
		{"GET / early", ""}, {"", "GET / later"}, {"\x16\x03\x01\x00\x05\x02 a server's hello", ""}, {"\x16", "\x02 no TLS"}, {"S", "SH"},
	} {
		a, conn, br := w.connect(target, c.early)
		if a.StatusCode != 200 {
			t.Fatal(a.StatusCode)
		}
		_, _ = io.WriteString(conn, c.later)
		_ = conn.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(br)
		if want := c.early + c.later + "bye"; err != nil || string(got) != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
	proxytest.Eventually(t, "the tunnels are gone", func() bool { return w.forward.Tunnels() == 0 })
}

func TestServerSpeaksFirst(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	greeter := listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "220 hello\r\n")
		_, _ = io.Copy(conn, conn)
	})
	_, conn, br := w.connect(greeter, "")
	if line, err := br.ReadString('\n'); line != "220 hello\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = io.WriteString(conn, "EHLO\r\n")
	if line, err := br.ReadString('\n'); line != "EHLO\r\n" {
		t.Errorf("%q %v", line, err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// A client that is slow to begin with TLS is intercepted all the same.
func TestSlowHello(t *testing.T) {
	t.Parallel()
	var judged atomic.Int32
	w := newSecure(t, func(s *setup) {
		s.guard.Own = func(netip.AddrPort) bool { judged.Add(1); return false }
	})
	get := "GET /x HTTP/1.1\nHost: " + w.target() + "\n\n"
	// slow is a connection whose silence has made the proxy dial the upstream.
	slow := func() *tls.Conn {
		judged.Store(0)
		conn := w.inside(w.target(), "shop.example")
		proxytest.Eventually(t, "the upstream is asked whether it has something to say", func() bool { return judged.Load() == 2 })
		return conn
	}
	a, _ := w.raws(slow(), get, "GET")
	a.Paid(t)

	conn := slow()
	dribbling := tls.Client(&dribble{Conn: conn.NetConn()}, &tls.Config{RootCAs: w.ours.pool(), ServerName: "shop.example"})
	b, _ := w.raws(dribbling, get, "GET")
	b.Paid(t)

	w.seller.Close() // the upstream is down: the client is told over TLS
	if c, _ := w.raws(slow(), get, "GET"); c.StatusCode != http.StatusBadGateway || c.Problem(t).Reason != "upstream-unreachable" {
		t.Errorf("%d %s", c.StatusCode, c.Text)
	}
}

// dribble writes its first bytes one by one.
type dribble struct {
	net.Conn
	n int
}

func (d *dribble) Write(p []byte) (int, error) {
	for i := range p {
		if d.n > 20 {
			n, err := d.Conn.Write(p[i:])
			return i + n, err
		}
		if _, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		d.n++
	}
	return len(p), nil
}

// Some clients, Node's fetch among them, ask for a tunnel for http URLs as well.
func TestPlainHTTPInTunnel(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	shop := proxytest.NewSeller(t)
	target := "shop.example:" + shop.PortNumber()
	get := func(host string) string { return "GET /x HTTP/1.1\nHost: " + host + "\n\n" }

	a, conn, _ := w.connect(target, "")
	if a.StatusCode != http.StatusOK {
		t.Fatal(a.StatusCode)
	}
	first, _ := w.raws(conn, get(target), "GET")
	first.Paid(t)
	second, _ := w.raws(conn, get(target), "GET") // on the same connection
	if second.Paid(t) == first.Paid(t) {
		t.Error("two requests, one payment")
	}
	shop.Expect(2, 2, 2)
	if p := w.Closed(first.Paid(t)); p.RequestURL != "http://"+target+"/x" {
		t.Errorf("booked as %q", p.RequestURL)
	}
	misdirected, _ := w.raws(conn, get("other.example:"+shop.PortNumber()), "GET")
	if misdirected.StatusCode != http.StatusMisdirectedRequest || misdirected.Problem(t).Reason != reasonMisdirected {
		t.Errorf("%d %s", misdirected.StatusCode, misdirected.Text)
	}

	// Slowly, so that the seller is dialled in between.
	_, slow, _ := w.connect(target, "GE")
	proxytest.Eventually(t, "the client is waited for", func() bool { return w.forward.Tunnels() == 2 })
	late, _ := w.raws(slow, "T /x HTTP/1.1\nHost: "+target+"\n\n", "GET")
	late.Paid(t)

	shop.Close()
	_, gone, _ := w.connect(target, "")
	if c, _ := w.raws(gone, get(target), "GET"); c.StatusCode != http.StatusBadGateway || c.Problem(t).Reason != "upstream-unreachable" {
		t.Errorf("%d %s", c.StatusCode, c.Text)
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for want, texts := range map[protocol][]string{
		protocolUnclear: {"", "\x16", "\x16\x03\x01\x02\x00", "G", "GET /"},
		protocolTLS:     {"\x16\x03\x01\x02\x00\x01", "\x16\x03\x03\x02\x00\x01rest"},
		protocolHTTP:    {"GET /x HTTP/1.1\r\n", "POST / HTTP/1.0\nmore"},
		protocolOther: {
			"\x15", "\x16\x02", "\x16\x03\x01\x02\x00\x02", "\x80\x2e\x01", "get / HTTP/1.1\n", "EHLO me\r\n", "QUIT\r\n", "PRI * HTTP/2.0\r\n",
			"GET / early\n", "GE /x", "GET /" + strings.Repeat("x", maxRequestLine), "ABCDEFGHIJKLMNOPQRSTU", "GET  /x HTTP/1.1\n",
		},
	} {
		for _, text := range texts {
			if got := detect([]byte(text)); got != want {
				t.Errorf("%.30q: %d, want %d", text, got, want)
			}
		}
	}
}
