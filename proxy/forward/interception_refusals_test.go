package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestNameInHello(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	for _, c := range []struct {
		name string
		ok   bool
	}{{"shop.example", true}, {"SHOP.EXAMPLE", true}, {"", true}, {"other.example", false}, {"a.shop.example", false}, {"shop.example.evil", false}} {
		conn := w.inside(w.target(), c.name)
		if c.name == "" { // none is sent without one to verify
			conn = tls.Client(conn.NetConn(), &tls.Config{InsecureSkipVerify: true})
		}
		err := conn.Handshake()
		if (err == nil) != c.ok {
			t.Errorf("%q: %v", c.name, err)
		}
		if !c.ok && !strings.Contains(fmt.Sprint(err), "unrecognized name") {
			t.Errorf("%q: %v", c.name, err)
		}
		if c.ok && !slices.Equal(conn.ConnectionState().PeerCertificates[0].DNSNames, []string{"shop.example"}) {
			t.Errorf("%q: a certificate for %v", c.name, conn.ConnectionState().PeerCertificates[0].DNSNames)
		}
	}
	proxytest.Eventually(t, "it is counted and logged", func() bool {
		return w.refused.has(reasonSNI) && strings.Contains(w.Logs.String(), reasonSNI)
	})
	old := w.inside(w.target(), "shop.example")
	if err := tls.Client(old.NetConn(), &tls.Config{RootCAs: w.ours.pool(), ServerName: "shop.example", MaxVersion: tls.VersionTLS11}).Handshake(); err == nil {
		t.Error("TLS 1.1")
	}
}

func TestConnectRefusals(t *testing.T) {
	t.Parallel()
	var own netip.AddrPort
	w := newSecure(t, func(s *setup) {
		s.guard.Own = func(a netip.AddrPort) bool { return a == own }
		s.guard.Resolve["inner.example"] = netip.MustParseAddr("10.1.2.3")
	})
	own = netip.MustParseAddrPort(w.addr())
	for _, c := range []struct {
		target string
		status int
		reason string
	}{
		{"shop.example:22", 403, string(guard.DenyPort)},
		{"127.0.0.1:25", 403, string(guard.DenyPort)},
		{w.addr(), 403, string(guard.DenyOwn)},
		{"[::ffff:127.0.0.1]:" + fmt.Sprint(own.Port()), 403, string(guard.DenyOwn)},
		{"[fe80::1]:443", 403, string(guard.DenyLinkLocal)},
		{"inner.example:443", 403, string(guard.DenyPrivate)},
		{"127.1:443", 400, reasonBadRequest},
		{"shop.example", 400, reasonBadRequest},
	} {
		if a, _, _ := w.connect(c.target, ""); a.StatusCode != c.status || a.Problem(t).Reason != c.reason || strings.Contains(a.Text, "10.1.2.3") {
			t.Errorf("%s: %d %s", c.target, a.StatusCode, a.Text)
		}
	}
	// Dialling shows where a name leads: the client is told inside.
	conn := w.inside(fmt.Sprintf("localhost:%d", own.Port()), "localhost")
	a, _ := w.raws(conn, fmt.Sprintf("GET /x HTTP/1.1\nHost: localhost:%d\n\n", own.Port()), "GET")
	if a.StatusCode != http.StatusForbidden || a.Problem(t).Reason != string(guard.DenyOwn) {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	// Not so if it does not speak HTTP.
	_, raw, br := w.connect(fmt.Sprintf("localhost:%d", own.Port()), "")
	_, _ = io.WriteString(raw, "SSH-2.0-client\r\n")
	if b, err := br.ReadByte(); err == nil {
		t.Errorf("got %q", b)
	}
	proxytest.Eventually(t, "it is counted", func() bool { return w.refused.has(string(guard.DenyOwn)) })
}

// An upstream whose certificate is not to be trusted is neither asked nor paid, and the
// client is told what is wrong with it.
func TestBadCertificates(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	stranger := newAuthority(t, "stranger")
	past := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	selfSigned := func() *tls.Config {
		alone := &authority{t: t, key: newKey(t)}
		c := &x509.Certificate{
			SerialNumber: stranger.root.SerialNumber, Subject: stranger.root.Subject, NotBefore: past, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"shop.example"},
		}
		cert := alone.sign(c, c, alone.key.Public(), alone.key)
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: alone.key}}}
	}
	for _, c := range []struct {
		name   string
		config *tls.Config
		text   string
	}{
		{"expired", w.public.server(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = past.Add(-time.Hour), past }), "The upstream's certificate expired on 2024-05-06T07:08:09Z"},
		{"too early", w.public.server(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2999, 1, 2, 0, 0, 0, 0, time.UTC)
		}), "The upstream's certificate is not valid before 2999-01-01T00:00:00Z"},
		{"wrong host", w.public.server(func(c *x509.Certificate) { c.DNSNames = []string{"secret-name.internal"} }), "The upstream's certificate is for another host"},
		{"self-signed", selfSigned(), "The upstream's certificate is self-signed"},
		{"unknown authority", stranger.server(), "The upstream's certificate is signed by an authority that is not trusted"},
		{"not for servers", w.public.server(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), "The upstream's certificate is not valid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := proxytest.NewSecureSeller(t, c.config, true)
			for _, http2 := range []bool{false, true} {
				a := w.do(w.secureAgent(http2), proxytest.Request(t, "POST", "https://shop.example:"+s.PortNumber()+"/x", strings.NewReader("body")))
				if p := a.Problem(t); a.StatusCode != http.StatusBadGateway || p.Reason != "upstream-certificate" || p.Error != c.text || p.Payment != nil ||
					a.Header.Get(proxy.HeaderError) != "upstream-certificate" {
					t.Errorf("%d %s", a.StatusCode, a.Text)
				}
			}
			s.Expect(0, 0, 0)
		})
	}
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// A request through a connection for one host reaches no other host.
func TestRequestsForOtherHosts(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	host := w.target()
	for _, c := range []struct {
		name, text string
		status     int
		reason     string
	}{
		{"another host", "GET /x HTTP/1.1\nHost: other.example:" + w.seller.PortNumber(), 421, reasonMisdirected},
		{"default port", "GET /x HTTP/1.1\nHost: shop.example", 421, reasonMisdirected},
		{"empty host", "GET /x HTTP/1.1\nHost:", 421, reasonMisdirected},
		{"absolute, another host", "GET https://other.example/x HTTP/1.1\nHost: " + host, 421, reasonMisdirected},
		{"absolute, http", "GET http://" + host + "/x HTTP/1.1\nHost: " + host, 421, reasonMisdirected},
		{"absolute, credentials", "GET https://u:p@" + host + "/x HTTP/1.1\nHost: " + host, 421, reasonMisdirected},
		{"two hosts", "GET /x HTTP/1.1\nHost: " + host + "\nHost: other.example", 400, ""},
		{"trace", "TRACE /x HTTP/1.1\nHost: " + host, 405, reasonMethod},
		{"connect", "CONNECT " + host + " HTTP/1.1\nHost: " + host, 405, reasonMethod},
		{"loop", "GET /x HTTP/1.1\nHost: " + host + "\nVia: 2.0 " + w.forward.pseudonym, 508, reasonLoop},
		{"no path", "GET foo:bar HTTP/1.1\nHost: " + host, 421, reasonMisdirected},
		{"two lengths", "POST /x HTTP/1.1\nHost: " + host + "\nContent-Length: 1\nContent-Length: 2\n\nab", 400, ""},
		{"odd coding", "POST /x HTTP/1.1\nHost: " + host + "\nTransfer-Encoding: chunked, identity\n\n0\n", 501, ""},
		{"absolute", "GET https://" + host + "/free HTTP/1.1\nHost: ignored", 200, ""},
		{"capitals", "GET /free HTTP/1.1\nHost: SHOP.example.:" + w.seller.PortNumber(), 200, ""},
		{"HTTP/1.0", "GET /free HTTP/1.0", 200, ""},
	} {
		conn := w.inside(w.target(), "shop.example")
		a, _ := w.raws(conn, c.text+"\n\n", "GET")
		if a.StatusCode != c.status || a.Header.Get(proxy.HeaderError) != c.reason {
			t.Errorf("%s: %d %v %s", c.name, a.StatusCode, a.Header, a.Text)
		}
		if c.reason != "" && a.Problem(t).Reason != c.reason {
			t.Errorf("%s: %s", c.name, a.Text)
		}
	}
	r := proxytest.Request(t, "GET", w.shop("/x"), nil)
	r.Host = "other.example"
	if a := w.do(w.secureAgent(true), r); a.StatusCode != http.StatusMisdirectedRequest || a.ProtoMajor != 2 {
		t.Errorf("%s %d %s", a.Proto, a.StatusCode, a.Text)
	}
	w.seller.Expect(0, 0, 0)
}

func TestInterceptionNeedsCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := New(Options{Payer: w.Payer, Dialer: guard.NewDialer(guard.Options{}), Interception: &Interception{}}); err == nil {
		t.Error("without")
	}
	s := newSecure(t, func(s *setup) {
		s.forward.Interception.Leaf = func(context.Context, string) (*tls.Certificate, error) { return nil, errors.New("locked away") }
	})
	if err := s.inside(s.target(), "shop.example").Handshake(); err == nil || strings.Contains(err.Error(), "locked") {
		t.Errorf("%v", err)
	}
	proxytest.Eventually(t, "it is counted and logged", func() bool {
		return s.refused.has(reasonNoLeaf) && strings.Contains(s.Logs.String(), "locked away")
	})
}
