package browser

import (
	"net/http"
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

const firefox = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

func TestForeign(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, c := range []struct {
		name               string
		host, site, origin string
		want               bool
		more               string // "Name: value"
	}{
		{"a program", "127.0.0.1:8406", "", "", false, ""},
		{"typed into the address bar", "127.0.0.1:8406", "none", "", false, ""},
		{"our own page", "127.0.0.1:8406", "same-origin", "http://127.0.0.1:8406", false, ""},
		{"an image on another site's page", "127.0.0.1:8406", "cross-site", "", true, ""},
		{"a form of another site", "127.0.0.1:8406", "cross-site", "https://evil.example", true, ""},
		{"another port of this host", "127.0.0.1:8406", "same-site", "http://127.0.0.1:9000", true, ""},
		{"two values", "127.0.0.1:8406", "same-origin,cross-site", "", true, ""},
		{"a word from the future", "127.0.0.1:8406", "near-site", "", true, ""},
		{"an old browser, another origin", "127.0.0.1:8406", "", "https://evil.example", true, ""},
		{"an old browser, another port", "127.0.0.1:8406", "", "http://127.0.0.1:9000", true, ""},
		{"an old browser, our own page", "127.0.0.1:8406", "", "http://127.0.0.1:8406", false, ""},
		{"an origin that is kept secret", "127.0.0.1:8406", "", "null", true, ""},
		{"no origin at all", "127.0.0.1:8406", "", "://", true, ""},
		{"an allowed page", "127.0.0.1:8406", "cross-site", "https://app.example", false, ""},
		{"an allowed page on this machine", "127.0.0.1:8406", "same-site", "http://127.0.0.1:3000", false, ""},
		{"a page of the public URL", "127.0.0.1:8406", "cross-site", "https://purser.example", false, ""},
		{"an image on an allowed page", "127.0.0.1:8406", "cross-site", "", true, ""},
		{"over plain http, an image on another site's page", "10.0.0.5:8406", "", "", true, "Referer: http://evil.example/"},
		{"over plain http, a page that says nothing", "10.0.0.5:8406", "", "", true, firefox},
		{"over plain http, our own page", "10.0.0.5:8406", "", "", false, "Referer: http://10.0.0.5:8406/a"},
		{"over plain http, an image on an allowed page", "10.0.0.5:8406", "", "", false, "Referer: https://APP.example/a?b"},
		{"over plain http, another port of this host", "10.0.0.5:8406", "", "", true, "Referer: http://10.0.0.5:9000/"},
		{"a page that is no URL", "10.0.0.5:8406", "", "", true, "Referer: about:blank"},
		{"a browser that says where it is", "10.0.0.5:8406", "none", "", false, firefox},
		{"a program that is compatible with a browser", "10.0.0.5:8406", "", "", false, "User-Agent: Mozilla/5.0 (compatible; Robot/1.0)"},
		{"another program", "10.0.0.5:8406", "", "", false, "User-Agent: python-requests/2.32"},
	} {
		headers := http.Header{"Sec-Fetch-Site": {c.site}, "Origin": {c.origin}}
		if name, value, ok := strings.Cut(c.more, ": "); ok {
			headers.Set(name, value)
		}
		if got := g.Foreign(c.host, headers.Get); got != c.want {
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

func TestUnregistrable(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"10.0.0.5:8406": true, "[fd00::1]:8406": true, "[::1]": true, "8.8.8.8": true, "purser:8406": true, "PURSER": true,
		"purser.": true, "localhost": true, "a.localhost": true, "purser.Internal:80": true, "purser.ns.svc.cluster.local": true,
		"nas.home.arpa": true, "api.purser.test": true,
		"evil.example": false, "evil.example.:8406": false, "10.0.0.5.evil.example": false, "local.evil.example": false,
		"notlocal.example": false, "evil.arpa": false, "xlocal.com": false, "": false, ":8406": false, ".": false,
	} {
		if got := Unregistrable(host); got != want {
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
