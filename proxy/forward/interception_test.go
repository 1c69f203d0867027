package forward

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Clients and sellers of both versions of HTTP, in all combinations.
func TestInterceptedRequestsArePaid(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		for _, upstream2 := range []bool{false, true} {
			w := newSecure(t)
			if !upstream2 {
				w.seller = proxytest.NewSecureSeller(t, w.public.server(), false)
			}
			want, wantUp := 1, 1
			if http2 {
				want = 2
			}
			if upstream2 {
				wantUp = 2
			}
			c := w.secureAgent(http2)
			for i, method := range []string{"GET", "POST", "PUT"} {
				var body io.Reader
				if method != "GET" {
					body = io.MultiReader(strings.NewReader("chunks")) // of unknown length
				}
				a := w.do(c, proxytest.Request(t, method, w.shop("/x?q=1;y=%zz"), body, "Proxy-Authorization", "Basic eA==", "Proxy-Connection", "x", "X-Mine", "kept",
					"Purser-Payment", "forged", "X-Api-Key", w.Secret))
				p := w.Closed(a.Paid(t))
				if a.ProtoMajor != want || p.RequestURL != w.shop("/x?q=1;y=%zz") || p.State != pay.Settled || !p.Answered {
					t.Errorf("%s %s: %+v", a.Proto, method, p)
				}
				got := w.seller.Bought[i]
				if got.ProtoMajor != wantUp || got.Host != w.target() || got.RequestURI != "/x?q=1;y=%zz" || got.Header.Get("X-Mine") != "kept" {
					t.Errorf("the seller got %s %s %s %v", got.Proto, got.Host, got.RequestURI, got.Header)
				}
				for name := range got.Header {
					if strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Purser-") || strings.HasPrefix(name, "X-Forwarded") || name == "X-Api-Key" {
						t.Errorf("the seller got %s", name)
					}
				}
				if via := fmt.Sprintf("%s %s", strings.TrimPrefix(a.Proto, "HTTP/"), w.forward.pseudonym); got.Header.Get("Via") != via {
					t.Errorf("Via %q, want %q", got.Header.Get("Via"), via)
				}
			}
			w.seller.Expect(3, 3, 3)
			if n := w.forward.Tunnels(); n != 1 {
				t.Errorf("%d tunnels for one kept connection", n)
			}
		}
	})
}

// The default port is left out of what is booked and compared.
func TestAuthority(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host      string
		port      uint16
		authority string
		means     []string
		others    []string
	}{
		{
			"shop.example", 443, "shop.example",
			[]string{"shop.example", "SHOP.example.", "shop.example:443"},
			[]string{"", "shop.example:444", "shop.example:", "other.example", "shop.example.evil", "shop.example:443:443", "shop.example@evil", "shop.example:0443"},
		},
		{"shop.example", 8443, "shop.example:8443", []string{"Shop.Example:8443"}, []string{"shop.example", "shop.example:443"}},
		{"::1", 443, "[::1]", []string{"[::1]", "[::1]:443", "[0:0::1]"}, []string{"[::2]", "[::1"}},
		{"::1", 444, "[::1]:444", []string{"[::1]:444"}, []string{"[::1]"}},
		{"127.0.0.1", 443, "127.0.0.1", []string{"127.0.0.1"}, []string{"127.1", "127.0.0.1:80"}},
	} {
		s := &session{host: c.host, port: c.port, tls: new(tls.Conn)}
		if got := s.authority(); got != c.authority {
			t.Errorf("%q, want %q", got, c.authority)
		}
		for _, a := range c.means {
			if !s.isFor(a) {
				t.Errorf("%q is not %s", a, c.authority)
			}
		}
		for _, a := range c.others {
			if s.isFor(a) {
				t.Errorf("%q is %s", a, c.authority)
			}
		}
	}
}

// Some clients send whole https URLs to the proxy instead of asking for a tunnel.
func TestAbsoluteHTTPS(t *testing.T) {
	t.Parallel()
	w := newSecure(t, func(s *setup) { s.forward.Interception.Except = hosts(t, "other.example") })
	auth := "\nHost: x\nConnection: close\nProxy-Authorization: " + basic(w.Secret, "") + "\n\n"
	a, _, _ := w.raw("GET "+w.shop("/x")+" HTTP/1.1"+auth, "GET")
	a.Paid(t)
	w.seller.Expect(1, 1, 1)
	b, _, _ := w.raw("GET https://other.example:"+w.seller.PortNumber()+"/x HTTP/1.1"+auth, "GET")
	if b.StatusCode != http.StatusBadRequest || b.Problem(t).Reason != reasonBadRequest {
		t.Errorf("%d %s", b.StatusCode, b.Text)
	}
}

func TestExceptedHostsAreTunnelled(t *testing.T) {
	t.Parallel()
	w := newSecure(t, func(s *setup) { s.forward.Interception.Except = hosts(t, "*.shop.example", "127.0.0.1") })
	blind := w.trusting(w.public.pool(), true, w.Secret) // knows nothing of our authority
	for _, name := range []string{"a.shop.example", "127.0.0.1"} {
		a := w.do(blind, proxytest.Request(t, "GET", "https://"+name+":"+w.seller.PortNumber()+"/x", nil))
		a.Declined(t, "", true) // the seller's own 402, of which we know nothing
	}
	if _, err := proxytest.Do(blind, proxytest.Request(t, "GET", w.shop("/x"), nil)); err == nil {
		t.Error("a certificate of the seller's where we stand in between")
	}
	proxytest.Eventually(t, "the failed handshake is counted", func() bool { return w.refused.has(reasonHandshake) })
	w.do(w.secureAgent(true), proxytest.Request(t, "GET", w.shop("/x"), nil)).Paid(t)
}

func TestConnectToAddress(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		a := w.do(w.secureAgent(http2), proxytest.Request(t, "GET", w.seller.URL+"/x", nil))
		p := w.Closed(a.Paid(t))
		if p.RequestURL != w.seller.URL+"/x" {
			t.Errorf("%+v", p)
		}
	})
}

// A download does not pass through memory as a whole: a client that does not read holds
// the seller up.
func TestDownloadInside(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		w := newSecure(t)
		const size = 64 << 20
		block := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
		var sent atomic.Int64
		w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			w.seller.Receipt(rw, n)
			for range size / len(block) {
				if _, err := rw.Write(block); err != nil {
					return
				}
				sent.Add(int64(len(block)))
			}
		}
		c := w.secureAgent(http2)
		c.Timeout = time.Minute
		resp, err := c.Do(proxytest.Request(t, "GET", w.shop("/x"), nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		last, since := int64(-1), time.Now()
		proxytest.Eventually(t, "the seller is held up", func() bool {
			if now := sent.Load(); now != last {
				last, since = now, time.Now()
			}
			return time.Since(since) > 300*time.Millisecond
		})
		if last > size*3/4 {
			t.Errorf("the seller could send %d of %d bytes", last, size)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
