package forward

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	for _, c := range []struct {
		name, header string
		status       int
		reason       string
	}{
		{"none", "", 407, reasonCredentials},
		{"other scheme", "Proxy-Authorization: Bearer " + w.Secret, 407, reasonCredentials},
		{"not base64", "Proxy-Authorization: Basic %%", 407, reasonCredentials},
		{"no user", "Proxy-Authorization: " + basic("", "x"), 407, reasonCredentials},
		{"unknown key", "Proxy-Authorization: " + basic("pk_unknown-key", ""), 407, reasonCredentials},
		{"two", "Proxy-Authorization: " + basic(w.Secret, "") + "\nProxy-Authorization: " + basic(w.Secret, ""), 407, reasonCredentials},
		{"bad task", "Proxy-Authorization: " + basic(w.Secret, "a b"), 400, reasonTask},
		{"long task", "Proxy-Authorization: " + basic(w.Secret, strings.Repeat("a", 65)), 400, reasonTask},
		{"good", "Proxy-Authorization: " + basic(w.Secret, ""), 200, ""},
		{"without colon", "Proxy-Authorization: basic " + base64.StdEncoding.EncodeToString([]byte(w.Secret)), 200, ""},
		{"with task", "Proxy-Authorization: " + basic(w.Secret, strings.Repeat("a", 64)), 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, _ := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nConnection: close\n%s\n\n", s.URL, c.header), "GET")
			if a.StatusCode != c.status || a.Header.Get(proxy.HeaderError) != c.reason {
				t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Text)
			}
			if c.status == 407 && !strings.HasPrefix(a.Header.Get("Proxy-Authenticate"), "Basic ") {
				t.Errorf("Proxy-Authenticate: %q", a.Header.Get("Proxy-Authenticate"))
			}
			if c.status != 200 && a.Problem(t).Reason != c.reason {
				t.Error(a.Text)
			}
			if c.status == 407 && !strings.Contains(a.Text, `"do":{"developer":"Ask the operator for a key of this purser`) {
				t.Errorf("nothing to do: %s", a.Text)
			}
		})
	}
	// SDKs of model providers show the message only.
	a, _, _ := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nX-Stainless-Lang: python\nProxy-Authorization: %s\n\n", s.URL, basic("pk_unknown-key", "")), "GET")
	if want := declines.UnknownKey + ": " + declines.UnknownKeyDetail + ". Ask the operator"; !strings.Contains(a.Text, `"message":"`+want) {
		t.Errorf("an SDK's user reads %s", a.Text)
	}
	if _, paid, _ := s.Counts(); paid != 3 {
		t.Errorf("%d paid requests", paid)
	}
	if strings.Contains(w.Logs.String(), w.Secret) {
		t.Error("the key is in the log")
	}
}

func TestStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.forward.StandIn = "own" })
	s := proxytest.NewSeller(t)
	for _, c := range []struct {
		name, header string
		status       int
	}{
		{"alone", "X-Nothing: 1", 200},
		{"forwarded", "Forwarded: for=1.2.3.4", 407},
		{"x-forwarded-for", "X-Forwarded-For: 1.2.3.4", 407},
		{"x-real-ip", "X-Real-IP: 1.2.3.4", 407},
		{"via", "Via: 1.1 someone", 407},
		{"wrong credentials", "Proxy-Authorization: " + basic("pk_unknown-key", ""), 407},
	} {
		a, _, _ := w.raw(fmt.Sprintf("GET %s/x HTTP/1.1\nHost: x\nConnection: close\n%s\n\n", s.URL, c.header), "GET")
		if a.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, a.StatusCode, a.Text)
		}
	}
	r := proxytest.Request(t, "GET", s.URL+"/x", nil)
	for peer, ok := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"192.168.1.2:1": false, "203.0.113.1:1": false, "@": false, "": false,
	} {
		r.RemoteAddr = peer
		if _, no := w.forward.authenticate(r); (no == nil) != ok {
			t.Errorf("peer %q: %v", peer, no)
		}
	}
}

func TestGuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	try := func(secret string) int {
		return w.do(w.client(url.User(secret)), proxytest.Request(t, "GET", s.URL+"/free", nil)).StatusCode
	}
	if got := try(w.Secret); got != 200 {
		t.Fatal(got)
	}
	for i := range proxy.FailuresAtOnce {
		if got := try(fmt.Sprintf("pk_guess-%d", i)); got != 407 {
			t.Fatalf("guess %d: %d", i, got)
		}
	}
	if got := try("pk_guess-last"); got != http.StatusTooManyRequests {
		t.Errorf("after %d guesses: %d", proxy.FailuresAtOnce, got)
	}
	if got := try(w.Secret); got != 200 { // a client that was right lately does not suffer for a neighbour
		t.Errorf("the right key: %d", got)
	}
}

// Proxy requests over anything but HTTP/1 cannot be told from others, or not be tunnelled.
func TestHTTP2FrontIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range []*http.Request{
		proxytest.Request(t, "GET", "http://example.com/", nil),
		{Method: "CONNECT", URL: &url.URL{Host: "example.com:443"}, Host: "example.com:443", Header: http.Header{}},
	} {
		r.ProtoMajor = 2
		rec := httptest.NewRecorder()
		w.forward.ServeHTTP(rec, r, http.NotFoundHandler())
		if rec.Code != http.StatusHTTPVersionNotSupported {
			t.Errorf("%s: %d", r.Method, rec.Code)
		}
	}
}

func TestHeaderHygiene(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewSeller(t)
	s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
		s.Receipt(rw, n)
		rw.Header().Set("Connection", "X-Hop")
		rw.Header().Set("X-Hop", "1")
		rw.Header().Set("Keep-Alive", "timeout=5")
		rw.Header().Set("Proxy-Authenticate", "Basic")
		rw.Header().Set("Purser-Declined", "forged")
		rw.Header().Set("Server", "seller")
		rw.Header().Set("Cache-Control", "public, max-age=9")
		rw.Header().Set("Cdn-Cache-Control", "max-age=9")
	}
	a := w.get(s.URL+"/a/../b//c%2Fd?x=1;y=%zz",
		"Connection", "X-Listed", "X-Listed", "1", "Keep-Alive", "timeout=5", "Proxy-Connection", "keep-alive",
		"Proxy-Anything", "1", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https", "Forwarded", "for=1.2.3.4",
		"X-Real-Ip", "1.2.3.4", "Purser-Payment", "forged", "X-Api-Key", w.Secret, "Authorization", "Bearer "+w.Secret,
		"X-Mine", "kept", "Via", "1.0 fred")
	a.Paid(t)
	for _, r := range []*http.Request{s.Unpaid[0], s.Bought[0]} {
		for _, name := range []string{
			"Connection", "X-Listed", "Keep-Alive", "Proxy-Connection", "Proxy-Anything", "Proxy-Authorization", "X-Forwarded-For",
			"X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "X-Real-Ip", "Purser-Payment", "X-Api-Key", "Authorization", "Accept-Encoding",
		} {
			if v := r.Header.Values(name); len(v) > 0 {
				t.Errorf("the seller got %s: %q", name, v)
			}
		}
		if r.Header.Get("X-Mine") != "kept" || !slices.Equal(r.Header.Values("Via"), []string{"1.0 fred", "1.1 " + w.forward.pseudonym}) {
			t.Errorf("the seller got %v", r.Header)
		}
		if r.RequestURI != "/a/../b//c%2Fd?x=1;y=%zz" {
			t.Errorf("the seller got %q", r.RequestURI)
		}
	}
	for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", proxy.HeaderDeclined, "Cdn-Cache-Control"} {
		if v := a.Header.Values(name); len(v) > 0 {
			t.Errorf("the client got %s: %q", name, v)
		}
	}
	if got := a.Header.Values("Server"); !slices.Equal(got, []string{"seller"}) {
		t.Errorf("Server: %q", got)
	}
	if got := a.Header.Values("Cache-Control"); !slices.Equal(got, []string{"private, max-age=9"}) {
		t.Errorf("Cache-Control: %q", got)
	}
	if a.Header.Get("Via") != "1.1 "+w.forward.pseudonym {
		t.Errorf("Via: %q", a.Header.Get("Via"))
	}
}

// A key of another service stays in the request.
func TestForeignKeysGoThrough(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	w.get(s.URL+"/x", "X-Api-Key", "theirs", "Authorization", "Bearer theirs").Paid(t)
	if h := s.Bought[0].Header; h.Get("X-Api-Key") != "theirs" || h.Get("Authorization") != "Bearer theirs" {
		t.Errorf("%v", h)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w, closed := newWorld(t), nowhere(t)
	auth := w.login()
	for _, c := range []struct {
		text   string
		status int
		reason string
	}{
		{"GET https://example.com/ HTTP/1.1\nHost: x" + auth, 400, reasonBadRequest},
		{"GET ftp://example.com/ HTTP/1.1\nHost: x" + auth, 400, reasonBadRequest},
		{"GET http://u:p@example.com/ HTTP/1.1\nHost: x" + auth, 400, reasonBadRequest},
		{"TRACE http://example.com/ HTTP/1.1\nHost: x" + auth, 405, reasonMethod},
		{"GET http://example.com/ HTTP/1.1\nHost: x\nVia: 1.0 a, 1.1 " + w.forward.pseudonym + auth, 508, reasonLoop},
		{"GET http://" + closed + "/x HTTP/1.1\nHost: x" + auth, 502, "upstream-unreachable"},
		{"CONNECT " + closed + " HTTP/1.1\nHost: x", 407, reasonCredentials},
		{"CONNECT example.com HTTP/1.1\nHost: x" + auth, 400, reasonBadRequest},
		{"CONNECT example.com:0 HTTP/1.1\nHost: x" + auth, 400, reasonBadRequest},
		{"CONNECT " + closed + " HTTP/1.1\nHost: x\nVia: 1.1 " + w.forward.pseudonym + auth, 508, reasonLoop},
		{"CONNECT " + closed + " HTTP/1.1\nHost: x" + auth, 502, "upstream-unreachable"},
	} {
		method, _, _ := strings.Cut(c.text, " ")
		a, _, _ := w.raw(c.text+"\nConnection: close\n\n", method)
		if p := a.Problem(t); a.StatusCode != c.status || p.Reason != c.reason || p.Payment != nil || a.Header.Get("Server") != "" ||
			strings.Contains(a.Text, "dial") || strings.Contains(a.Text, closed) {
			t.Errorf("%s: %d %v %s", c.text, a.StatusCode, a.Header, a.Text)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	t.Parallel()
	var own string
	w := newWorld(t, func(s *setup) {
		s.forward.Own = func(host string) bool { return host == own }
		s.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(rw, "%s %s %s|%v|%s", r.Method, r.RequestURI, r.Host, r.URL.IsAbs(), r.Header.Get("Proxy-Authorization"))
		})
	})
	own = w.addr()
	a := w.do(w.client(nil), proxytest.Request(t, "POST", "http://"+own+"/v1/pay?x=1", strings.NewReader("{}")))
	if want := "POST /v1/pay?x=1 " + own + "|false|"; a.Text != want {
		t.Errorf("%q, want %q", a.Text, want)
	}
	a = w.do(w.agent(), proxytest.Request(t, "GET", "http://"+strings.ToUpper(own)+"/health", nil))
	if !strings.HasPrefix(a.Text, "GET /health ") || !strings.HasSuffix(a.Text, "|false|") {
		t.Errorf("%q", a.Text)
	}
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if a := w.do(direct, proxytest.Request(t, "GET", "http://"+own+"/direct", nil)); !strings.HasPrefix(a.Text, "GET /direct ") {
		t.Errorf("%q", a.Text)
	}
}

// A chain of two proxies works; a proxy that leads to itself is stopped.
func TestLoop(t *testing.T) {
	t.Parallel()
	inner, s := newWorld(t), proxytest.NewSeller(t)
	outer := newWorld(t)
	// The outer proxy's upstream connections go through the inner one.
	outer.forward.upstream.of(outer.Key.ID).transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: inner.addr(), User: url.User(inner.Secret)})
	a := outer.get(s.URL + "/x")
	if a.StatusCode != 200 || a.Header.Get(proxy.HeaderPayment) != "" { // paid by the inner one, whose headers do not pass
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	inner.forward.upstream.of(inner.Key.ID).transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: outer.addr(), User: url.User(outer.Secret)})
	b := outer.get(s.URL + "/y")
	if b.StatusCode != http.StatusLoopDetected {
		t.Errorf("%d %s", b.StatusCode, b.Text)
	}
}
