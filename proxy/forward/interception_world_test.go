package forward

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// authority is a certificate authority: a root and a signing certificate below it.
type authority struct {
	t            *testing.T
	root, signer *x509.Certificate
	rootKey, key crypto.Signer
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " root"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.rootKey = newKey(t)
	a.root = a.sign(root, root, a.rootKey.Public(), a.rootKey)
	a.renew(2, now.Add(100*time.Hour))
	return a
}

// renew replaces the signing certificate and its key.
func (a *authority) renew(serial int64, until time.Time) {
	key := newKey(a.t)
	a.signer = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: a.root.Subject.CommonName + " signer"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.root, key.Public(), a.rootKey)
	a.key = key
}

func (a *authority) sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) current() ([]*x509.Certificate, crypto.Signer, error) {
	return []*x509.Certificate{a.signer}, a.key, nil
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.root)
	return p
}

// server is the TLS configuration of a server at shop.example and 127.0.0.1.
func (a *authority) server(change ...func(*x509.Certificate)) *tls.Config {
	a.t.Helper()
	key := newKey(a.t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(9), Subject: pkix.Name{CommonName: "shop"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"shop.example", "*.shop.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, f := range change {
		f(c)
	}
	leaf := a.sign(c, a.signer, key.Public(), a.key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, a.signer.Raw}, PrivateKey: key}}}
}

// secure is a world whose proxy opens the HTTPS of all hosts, and a seller behind TLS at
// shop.example.
type secure struct {
	*world
	way
	seller  *proxytest.Seller
	ours    *authority // the proxy's
	public  *authority // the seller's
	refused *reasons
}

// way says whether a client sends requests in absolute form, or inside TLS with one version of HTTP.
type way struct{ absolute, http2 bool }

// world makes a secure world that the client of buyer uses in this way. With absolute, its seller
// speaks plain HTTP.
func (a way) world(t *testing.T, change ...func(*setup)) *secure {
	t.Helper()
	w := newSecure(t, change...)
	if w.way = a; a.absolute {
		w.seller = proxytest.NewSeller(t)
	}
	return w
}

// ways runs a test for each way.
func ways(t *testing.T, f func(t *testing.T, a way)) {
	t.Helper()
	t.Run("absolute", func(t *testing.T) {
		t.Parallel()
		f(t, way{absolute: true})
	})
	protocols(t, func(t *testing.T, http2 bool) { f(t, way{http2: http2}) })
}

// buyer is an agent that goes the world's way.
func (s *secure) buyer() *http.Client {
	if s.absolute {
		return s.agent()
	}
	return s.secureAgent(s.http2)
}

// reasons is an observer that collects those of refusals.
type reasons struct {
	proxy.Observer
	mu   sync.Mutex
	list []string
}

func (r *reasons) Refused(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

func (r *reasons) has(s string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.list, s)
}

func hosts(t *testing.T, entries ...string) guard.Hosts {
	t.Helper()
	l, err := guard.ParseHosts(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newSecure(t *testing.T, change ...func(*setup)) *secure {
	t.Helper()
	s := &secure{ours: newAuthority(t, "ours"), public: newAuthority(t, "public"), refused: &reasons{Observer: proxy.Unobserved()}}
	s.seller = proxytest.NewSecureSeller(t, s.public.server(), true)
	s.world = newWorld(t, append([]func(*setup){func(o *setup) {
		o.forward.Interception = &Interception{Hosts: hosts(t, "*"), Leaf: NewMinter(s.ours.current).Leaf}
		o.forward.Roots = s.public.pool()
		o.forward.Observer = s.refused
		o.guard.Resolve = map[string]netip.Addr{}
		for _, name := range []string{"shop.example", "a.shop.example", "other.example"} {
			o.guard.Resolve[name] = netip.MustParseAddr("127.0.0.1")
		}
	}}, change...)...)
	return s
}

// shop is a URL of the seller's.
func (s *secure) shop(path string) string {
	if s.absolute {
		return s.seller.URL + path
	}
	return "https://shop.example:" + s.seller.PortNumber() + path
}

// secureAgent is an agent that trusts the proxy's authority.
func (s *secure) secureAgent(http2 bool) *http.Client {
	s.T.Helper()
	return s.trusting(s.ours.pool(), http2, s.Secret)
}

func (s *secure) trusting(pool *x509.CertPool, http2 bool, secret string) *http.Client {
	s.T.Helper()
	c := s.client(url.User(secret))
	tr := c.Transport.(*http.Transport)
	tr.TLSClientConfig = &tls.Config{RootCAs: pool}
	tr.ForceAttemptHTTP2 = http2
	if !http2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return c
}

// inside opens a tunnel to an address and speaks TLS in it.
func (s *secure) inside(target, name string, protocols ...string) *tls.Conn {
	s.T.Helper()
	a, conn, br := s.connect(target, "")
	if a.StatusCode != http.StatusOK {
		s.T.Fatalf("CONNECT %s: %d %s", target, a.StatusCode, a.Text)
	}
	early, _ := br.Peek(br.Buffered())
	c := tls.Client(&peekedConn{Conn: conn, early: early}, &tls.Config{RootCAs: s.ours.pool(), ServerName: name, NextProtos: protocols})
	s.T.Cleanup(func() { _ = c.Close() })
	return c
}

// raws sends an HTTP/1 request over a connection and reads the answer.
func (s *secure) raws(conn net.Conn, text, method string) (proxytest.Answer, *bufio.Reader) {
	s.T.Helper()
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		s.T.Fatal(err)
	}
	br := bufio.NewReader(conn)
	return s.next(br, method), br
}

func (s *secure) target() string { return "shop.example:" + s.seller.PortNumber() }

// leaving is closed once the proxy has noticed that the client of the first request is gone, or has
// answered it.
func (s *secure) leaving() <-chan struct{} {
	noticed := make(chan struct{})
	once := sync.OnceFunc(func() { close(noticed) })
	servers := []*http.Server{s.forward.sessions.http1, s.forward.sessions.http2.Load()}
	if s.absolute {
		servers = []*http.Server{s.server.Config}
	}
	for _, server := range servers {
		handler := server.Handler
		server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			context.AfterFunc(r.Context(), once)
			handler.ServeHTTP(rw, r)
		})
	}
	return noticed
}

// protocols runs a test with clients of both versions of HTTP.
func protocols(t *testing.T, f func(t *testing.T, http2 bool)) {
	t.Helper()
	for version, http2 := range map[int]bool{1: false, 2: true} {
		t.Run(fmt.Sprintf("HTTP%d", version), func(t *testing.T) {
			t.Parallel()
			f(t, http2)
		})
	}
}
