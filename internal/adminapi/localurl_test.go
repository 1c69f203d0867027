package adminapi

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// Whatever the order in which Caddy lists its sites, purser has one URL.
func TestLocalURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listeners []string
		tls       bool
		want      string
	}{
		{nil, false, ""},
		{[]string{"10.0.0.1:80", "127.0.0.1:8402", "127.0.0.1:8403"}, false, "http://127.0.0.1:8402"},
		{[]string{"10.0.0.2:8402", "10.0.0.1:8403"}, false, "http://10.0.0.1:8403"},
		{[]string{"0.0.0.0:9000", "127.0.0.1:9100"}, false, "http://127.0.0.1:9000"},
		{[]string{"[::]:9000", "10.0.0.1:1"}, false, "http://[::1]:9000"},
		{[]string{"[::1]:443", "127.0.0.1:8443"}, true, "https://localhost:8443"},
		{[]string{"10.0.0.1:443"}, true, "https://10.0.0.1:443"},
	} {
		var listeners []netip.AddrPort
		for _, l := range c.listeners {
			listeners = append(listeners, netip.MustParseAddrPort(l))
		}
		for range 20 {
			rand.Shuffle(len(listeners), func(i, j int) { listeners[i], listeners[j] = listeners[j], listeners[i] })
			if got := LocalURL(listeners, c.tls); got != c.want {
				t.Errorf("%v: %q, want %q", listeners, got, c.want)
			}
		}
	}
}
