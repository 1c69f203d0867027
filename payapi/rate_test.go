package payapi

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/perclient"
)

func TestAddressLimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	l := perclient.NewLimiter[netip.Addr](3, 3)
	take := func(peer string) int { return takeTurn(l, &http.Request{RemoteAddr: peer}, now) }
	use := func(peers ...string) {
		t.Helper()
		for i, peer := range peers {
			if wait := take(peer); wait != 0 {
				t.Fatalf("turn %d of %s waits %d s", i, peer, wait)
			}
		}
	}
	// The port does not count. A mapped IPv4 address counts as IPv4. An IPv6 client has its whole
	// /64.
	use("192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3")
	use("[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::ffff:1%eth0]:1")
	use("@", "", "not an address")
	for _, peer := range []string{"192.0.2.1:4", "[2001:db8::3]:1", "@"} {
		if wait := take(peer); wait != 20 {
			t.Errorf("%s waits %d s, want 20", peer, wait)
		}
	}
	use("192.0.2.2:1", "[2001:db8:0:1::1]:1")
	now = now.Add(19500 * time.Millisecond)
	if wait := take("192.0.2.1:1"); wait != 1 {
		t.Errorf("waits %d s, want 1", wait)
	}
	now = now.Add(time.Second)
	use("192.0.2.1:1")
	if take("192.0.2.1:1") == 0 {
		t.Error("refused turns gave something back")
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	a := &API{}
	for want, r := range map[string]*http.Request{
		"http://127.0.0.1:8402": {Host: "127.0.0.1:8402"},
		"https://pay.example":   {Host: "pay.example", TLS: &tls.ConnectionState{}},
		"":                      {},
		"http://[::1]:8402":     {Host: "[::1]:8402", Header: http.Header{"X-Forwarded-Proto": {"https"}}},
	} {
		if got := a.origin(r); got != want {
			t.Errorf("origin %q, want %q", got, want)
		}
	}
}

func TestUnavailableText(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"POST /api-keys": "Failed to create API key", "GET /api-keys": "Service unavailable", "POST /wallets": "Service unavailable",
		"POST /api-keys/": "Service unavailable", "GET /": "Service unavailable",
	} {
		method, path, _ := strings.Cut(route, " ")
		if got := unavailableText(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: %q", route, got)
		}
	}
}
