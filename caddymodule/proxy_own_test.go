package caddymodule

import (
	"fmt"
	"net/netip"
	"net/url"
	"testing"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
)

// The admin endpoint changes limits: an agent must not reach it through the proxy, wherever
// the configuration has put it, and however it is spelled.
func TestProxyDoesNotReachTheAdminEndpoint(t *testing.T) {
	for _, c := range []struct {
		admin  string // host
		denied []string
	}{
		{"127.0.0.1", []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"}},
		{"localhost", []string{"127.0.0.1", "localhost", "[::1]"}},
		{"", []string{"127.0.0.1", "localhost", "[::1]", "127.0.0.2", "0.0.0.0", "[::]"}},
		{"0.0.0.0", []string{"127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0"}},
	} {
		t.Run("on "+c.admin, func(t *testing.T) {
			s := newSite(t)
			s.route = "purser_proxy\n\t\tpurser_api"
			port := freePort(t)
			mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", fmt.Sprintf("admin %s:%d", c.admin, port)))
			client := s.through(t, url.User(newKey(t, s.url())))
			for _, host := range c.denied {
				status, header, text := get(t, client, fmt.Sprintf("http://%s:%d/purser/keys", host, port))
				if status != 403 || header.Get(proxy.HeaderError) != string(guard.DenyOwn) {
					t.Errorf("%s: %d %s", host, status, text)
				}
			}
			// A port without a listener is not ours.
			if own := netip.AddrPortFrom(netip.IPv6Loopback(), uint16(freePort(t))); listenedOn(own) {
				t.Errorf("%s: taken for our own", own)
			}
		})
	}
}
