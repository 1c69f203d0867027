package exposure_test

import (
	"testing"

	"github.com/purserpay/purser/internal/exposure"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen []string
		want   bool
	}{
		{[]string{"127.0.0.1:80"}, true},
		{[]string{"tcp/127.1.2.3:80", "[::1]:80", "localhost:80", "TCP4/127.0.0.1:80-90", "[::ffff:127.0.0.1]:80"}, true},
		{[]string{"unix//run/x.sock"}, true},
		{[]string{"unix//run/x.sock|0666", "127.0.0.1"}, true},
		{[]string{"127.0.0.1:80", ":80"}, false},
		{[]string{"0.0.0.0:80"}, false},
		{[]string{"[::]:80"}, false},
		{[]string{"192.168.1.2:80"}, false},
		{[]string{"example.com:80"}, false},
		{[]string{"localhost.example.com:80"}, false},
		{[]string{"eth0:80"}, false},
		{[]string{"[fe80::1%lo]:80"}, false},
		{[]string{"{env.BIND}:80"}, false},
		{[]string{"tailscale/127.0.0.1:80"}, false},
		{[]string{"fd/3"}, false},
		{[]string{""}, false},
		{nil, false},
	} {
		if got := exposure.OnlyLoopback(c.listen); got != c.want {
			t.Errorf("%v: %t", c.listen, got)
		}
	}
}

func TestElsewhere(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"": false, "http://127.0.0.1:8402": false, "http://localhost:8402": false, "http://[::1]:8402": false,
		"https://purser.example.com": true, "https://10.0.0.1": true, "://": true,
	} {
		if got := exposure.Elsewhere(url); got != want {
			t.Errorf("%q: %t", url, got)
		}
	}
}
