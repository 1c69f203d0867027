//go:build walk

package caddymodule

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/walk"
)

// counted prints what the second of two purchases enters: the first one fills caches.
func counted(t *testing.T, name string, buy func()) {
	t.Helper()
	buy()
	calls := walk.Count(buy)
	n, files := walk.Sum(calls)
	t.Logf("%s: %d files, %d calls", name, len(files), n)
	if os.Getenv("WALK_FILES") == "" {
		return
	}
	for _, f := range files {
		t.Logf("%6d %s", calls[f], f)
	}
}

func TestWalkPlain(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	seller := newSeller(t)
	_, port, _ := net.SplitHostPort(seller.Listener.Addr().String())
	s := newSite(t)
	s.route = "purser_proxy {\n\t\t\tresolve api.example.com 127.0.0.1\n\t\t}\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())
	client := s.through(t, url.UserPassword(newKey(t, s.url()), "task-1"))
	counted(t, "paid GET over plain HTTP", func() {
		if status, _, text := get(t, client, "http://api.example.com:"+port+"/x"); status != 200 || !strings.HasPrefix(text, "paid") {
			t.Errorf("%d %s", status, text)
		}
	})
}

func TestWalkIntercepted(t *testing.T) {
	seller, trust := tlsSeller(t)
	s := intercepting(t, trust, "")
	mustLoad(t, s.caddyfile())
	_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
	client := trusting(t, s.through(t, url.UserPassword(newKey(t, s.url()), "task-1")), []byte(root))
	counted(t, "paid GET over interception", func() {
		if status, _, text := get(t, client, httpsURL(seller)); status != 200 || !strings.HasPrefix(text, "paid") {
			t.Errorf("%d %s", status, text)
		}
	})
}

func TestWalkREST(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	mustLoad(t, s.caddyfile())
	key := newKey(t, s.url())
	counted(t, "POST /v1/pay", func() { mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(10_000, "https://api.example.com/x")) })
}
