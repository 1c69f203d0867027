package browser

import (
	"strings"
	"testing"
)

func newGuard(t *testing.T) *Guard {
	t.Helper()
	g, err := New("https://Purser.example/", []string{"https://App.example", "http://127.0.0.1:3000"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestForeign(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, c := range []struct {
		name               string
		host, site, origin string
		want               bool
	}{
		{"a program", "127.0.0.1:8406", "", "", false},
		{"typed into the address bar", "127.0.0.1:8406", "none", "", false},
		{"our own page", "127.0.0.1:8406", "same-origin", "http://127.0.0.1:8406", false},
		{"an image on another site's page", "127.0.0.1:8406", "cross-site", "", true},
		{"a form of another site", "127.0.0.1:8406", "cross-site", "https://evil.example", true},
		{"another port of this host", "127.0.0.1:8406", "same-site", "http://127.0.0.1:9000", true},
		{"two values", "127.0.0.1:8406", "same-origin,cross-site", "", true},
		{"a word from the future", "127.0.0.1:8406", "near-site", "", true},
		{"an old browser, another origin", "127.0.0.1:8406", "", "https://evil.example", true},
		{"an old browser, another port", "127.0.0.1:8406", "", "http://127.0.0.1:9000", true},
		{"an old browser, our own page", "127.0.0.1:8406", "", "http://127.0.0.1:8406", false},
		{"an origin that is kept secret", "127.0.0.1:8406", "", "null", true},
		{"no origin at all", "127.0.0.1:8406", "", "://", true},
		{"an allowed page", "127.0.0.1:8406", "cross-site", "https://app.example", false},
		{"an allowed page on this machine", "127.0.0.1:8406", "same-site", "http://127.0.0.1:3000", false},
		{"a page of the public URL", "127.0.0.1:8406", "cross-site", "https://purser.example", false},
		{"an image on an allowed page", "127.0.0.1:8406", "cross-site", "", true},
	} {
		if got := g.Foreign(c.host, c.site, c.origin); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8406": true, "127.9.9.9:1": true, "[::1]:8406": true, "[::1]": true, "localhost": true,
		"LocalHost:8406": true, "purser.example": true, "app.example:443": true, "PURSER.example:1": true,
		"evil.example": false, "evil.example:8406": false, "127.0.0.1.evil.example": false, "192.168.1.2:8406": false, "": false,
		"localhost.evil.example": false,
	} {
		if got := g.Serves(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"app.example", "ftp://app.example", "https://", "https://app.example/path", "*"} {
		if _, err := New("", []string{origin}); err == nil || !strings.Contains(err.Error(), "PURSER_ALLOWED_ORIGINS") {
			t.Errorf("%q: %v", origin, err)
		}
	}
	if _, err := New("://", nil); err == nil || !strings.Contains(err.Error(), "PURSER_PUBLIC_URL") {
		t.Errorf("public URL: %v", err)
	}
}
