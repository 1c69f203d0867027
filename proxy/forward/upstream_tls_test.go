package forward

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// rsaServer is the TLS configuration of a server at shop.example that has an RSA key, as old ones do.
func rsaServer(t *testing.T, a *authority) *tls.Config {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	leaf := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(9), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, DNSNames: []string{"shop.example"},
	}, a.signer, key.Public(), a.key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, a.signer.Raw}, PrivateKey: key}}} //nolint:gosec // old on purpose
}

// A TLS that fails is called that, with the kind of failure, inside a CONNECT and for absolute https URLs.
func TestUpstreamTLS(t *testing.T) {
	t.Parallel()
	// closing hangs up in the handshake.
	closing := func(t *testing.T) string {
		return listen(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_ = c.Close()
		})
	}
	plain := func(t *testing.T) string {
		s := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	for name, c := range map[string]struct {
		change func(*tls.Config) // of a server of ours; nil: other
		other  func(t *testing.T) string
		reason string
		says   string
	}{
		"RSA key exchange only": {func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}
		}, nil, "upstream-tls", "no cipher in common"},
		"TLS 1.1": {func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, nil, "upstream-tls", "older TLS"},
		"no such name": {func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return &tls.Config{}, nil }
		}, nil, "upstream-tls", "TLS"},
		"client wanted": {func(c *tls.Config) { c.MaxVersion, c.ClientAuth = tls.VersionTLS12, tls.RequireAnyClientCert }, nil, "upstream-tls", "certificate of its client"},
		"not TLS":       {nil, plain, "upstream-tls", "does not speak TLS"},
		"hangs up":      {nil, closing, "upstream-tls", "TLS handshake with the upstream failed"},
		"not trusted":   {func(*tls.Config) {}, nil, "upstream-certificate", "authority that is not trusted"},
		"nothing there": {nil, nowhere, "upstream-unreachable", "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSecure(t)
			address := ""
			if c.other != nil {
				address = c.other(t)
			} else {
				authority := w.public
				if name == "not trusted" {
					authority = newAuthority(t, "stranger")
				}
				s := httptest.NewUnstartedServer(http.NotFoundHandler())
				s.TLS = rsaServer(t, authority)
				c.change(s.TLS)
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				s.StartTLS()
				t.Cleanup(s.Close)
				address = s.Listener.Addr().String()
			}
			_, port, _ := net.SplitHostPort(address)
			target := "https://shop.example:" + port + "/"
			for way, ask := range map[string]func() proxytest.Answer{
				"inside": func() proxytest.Answer {
					return w.do(w.secureAgent(false), proxytest.Request(t, "GET", target, nil))
				},
				"absolute": func() proxytest.Answer {
					a, _, _ := w.raw("GET "+target+" HTTP/1.1\nHost: shop.example"+w.login()+"\n\n", "GET")
					return a
				},
			} {
				a := ask()
				if a.StatusCode != http.StatusBadGateway || a.Header.Get(proxy.HeaderError) != c.reason || !strings.Contains(a.Problem(t).Error, c.says) {
					t.Errorf("%s: %d %q %s", way, a.StatusCode, a.Header.Get(proxy.HeaderError), a.Text)
				}
			}
		})
	}
}
