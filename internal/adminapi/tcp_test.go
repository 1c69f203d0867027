package adminapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// Only the operator reaches a socket. Over TCP all programs are alike, but for those that Caddy has
// authenticated by certificate.
func TestOrdersOverTCP(t *testing.T) {
	t.Parallel()
	tcp, socket := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2019}, &net.UnixAddr{Name: "/run/purser/admin.sock", Net: "unix"}
	verified := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	for _, c := range []struct {
		what   string
		local  net.Addr
		tls    *tls.ConnectionState
		purser *adminapi.Purser
		want   int
	}{
		{"a socket", socket, nil, &adminapi.Purser{}, 0},
		{"a socket before the start", socket, nil, nil, 0},
		{"loopback", tcp, nil, &adminapi.Purser{}, http.StatusForbidden},
		{"loopback, if it is allowed", tcp, nil, &adminapi.Purser{OverTCP: true}, 0},
		{"loopback before the start", tcp, nil, nil, http.StatusServiceUnavailable},
		{"TLS without a certificate", tcp, &tls.ConnectionState{}, &adminapi.Purser{}, http.StatusForbidden},
		{"TLS with one that is not verified", tcp, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}, &adminapi.Purser{}, http.StatusForbidden},
		{"remote administration", tcp, verified, &adminapi.Purser{}, 0},
	} {
		h := &adminapi.Handler{Serving: func() *adminapi.Purser { return c.purser }}
		r := httptest.NewRequestWithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, c.local), http.MethodPost, "/purser/exec", nil)
		r.TLS = c.tls
		got := 0
		if err := h.Admit(r); err != nil {
			e, _ := errors.AsType[*adminapi.Error](err)
			got = e.Status
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
