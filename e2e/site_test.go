package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// The sellers' names. Only purser's dialer resolves them, by its configuration.
const (
	nameV2    = "v2.sellers.test"
	nameV1    = "v1.sellers.test"
	nameOther = "other.sellers.test"
)

// site is a server of the test's own, over http and, with HTTP/2, over https.
type site struct {
	http, https string // by name
	plain, tls  string // by address
}

// url is the site's by scheme.
func (s site) url(scheme string) string {
	if scheme == "https" {
		return s.https
	}
	return s.http
}

// startSite serves a handler under a name.
func startSite(t *testing.T, name string, handler http.Handler) site {
	t.Helper()
	plain := httptest.NewServer(handler)
	over := httptest.NewUnstartedServer(handler)
	over.EnableHTTP2 = true
	over.TLS = &tls.Config{Certificates: []tls.Certificate{env.certificates.Leaf}}
	over.StartTLS()
	for _, server := range []*httptest.Server{plain, over} {
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
	}
	return site{named(t, plain.URL, name), named(t, over.URL, name), plain.URL, over.URL}
}

// named is a URL with another host name.
func named(t *testing.T, raw, name string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort(name, u.Port())
	return u.String()
}
