package session_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/sandbox/identity"
)

// Sessions end on the server when they should.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := func(token string) *browser { // a browser with a copied cookie
		b := w.local()
		b.cookies["purser"] = token
		return b
	}
	b := w.local()
	token := b.mustSignIn()
	if !old(token).isIn() {
		t.Fatal("the cookie alone is not enough")
	}
	a := b.ask(http.MethodPost, "/dashboard/sign-out", url.Values{}, "Sec-Fetch-Site", "same-origin")
	if a.status != http.StatusSeeOther || a.location() != "/dashboard/sign-in?out=here" || len(b.cookies) != 1 || b.token() != "out" {
		t.Errorf("sign-out: %d %s %v", a.status, a.location(), b.cookies)
	}
	// The provider would sign the visitor in again, so going back must not reach it.
	if a := b.get("/dashboard/keys"); a.location() != "/dashboard/sign-in?out=1&return=%2Fdashboard%2Fkeys" || b.get(a.location()).status != http.StatusOK {
		t.Errorf("going back: %d %s", a.status, a.location())
	}
	if a = b.get(a.location()); a.status != http.StatusOK || !strings.Contains(a.text, "signed out") {
		t.Errorf("signed out: %d %s", a.status, a.text)
	}
	if old(token).isIn() {
		t.Error("a cookie from before the sign-out is good")
	}
	if a := b.ask(http.MethodPost, "/dashboard/sign-out", nil); a.status != http.StatusSeeOther {
		t.Errorf("twice: %d", a.status)
	}

	first, second := w.local(), w.local()
	first.mustSignIn()
	second.mustSignIn()
	if a := first.ask(http.MethodPost, "/dashboard/sign-out-everywhere", nil); a.location() != "/dashboard/sign-in?out=everywhere" {
		t.Errorf("everywhere: %d %s", a.status, a.location())
	}
	if first.isIn() || second.isIn() {
		t.Error("a session is left")
	}
	second.mustSignIn()

	// Signing in again replaces the session. A planted token never becomes a session.
	b = w.local()
	token = b.mustSignIn()
	w.pass(16 * time.Minute)
	again := b.get(w.press(b.toProvider("/dashboard/sign-in?again=1"), "yes"))
	if again.status != http.StatusSeeOther || b.token() == token || old(token).isIn() {
		t.Error("the session before is still good")
	}
	b = w.local()
	planted := strings.Repeat("A", 43)
	b.cookies["purser"] = planted
	if b.mustSignIn() == planted || old(planted).isIn() {
		t.Error("session fixation")
	}

	b = w.local()
	b.mustSignIn()
	w.pass(12*time.Hour - time.Minute)
	if !b.isIn() {
		t.Error("ended too early")
	}
	w.pass(2 * time.Minute)
	if b.isIn() {
		t.Error("12 hours are over")
	}
}

// Sessions outlive an update of purser, so their tokens, ids and stored JSON stay as they are.
func TestStoredSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.local().mustSignIn()
	id := sha256.Sum256([]byte(token))
	kept, err := w.accounts.Session(t.Context(), hex.EncodeToString(id[:]))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[\w-]{43}$`).MatchString(token) {
		t.Errorf("token %s", token)
	}
	want := regexp.MustCompile(`^{"deadline":"` + kept.Expires.UTC().Format(time.RFC3339Nano) +
		`","account":"[-\da-f]{36}","generation":0,"auth_time":"[-\dT:]+Z","secure":false,"standing":{"email":"ada@example\.com"},"organization":"org_[-\da-f]{36}"}$`)
	if !want.Match(kept.Data) {
		t.Errorf("stored %s, not %s", kept.Data, want)
	}
}

// A session is valid only at the address where it was made, and only in the cookie of that
// address's name.
func TestCookieOfAnotherAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := w.local()
	plainToken := plain.mustSignIn()
	_, atPublic := w.newGate(public)
	w.handler = atPublic
	secure := w.browser(publicURL)
	secureToken := secure.mustSignIn()
	for name, value := range map[string]string{"purser": plainToken, "__Host-purser": plainToken} {
		b := w.browser(publicURL)
		b.cookies[name] = value
		if b.isIn() {
			t.Errorf("over https, a session of plain http as %s", name)
		}
	}
	b := w.browser(publicURL)
	b.cookies["purser"] = secureToken
	if b.isIn() {
		t.Error("over https, the cookie of plain http")
	}
	_, w.handler = w.newGate()
	for _, name := range []string{"purser", "__Host-purser"} {
		b := w.local()
		b.cookies[name] = secureToken
		if b.isIn() {
			t.Errorf("over plain http, a session of https as %s", name)
		}
	}
	if !plain.isIn() || !secure.isIn() {
		t.Error("signed out")
	}
}

// The dashboard answers at these addresses, and explains at the others why it does not.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := func(o *session.Options) { o.LoopbackOnly = false }
	for name, c := range map[string]struct {
		origin string
		change func(*session.Options)
		header []string
		status int
		want   string
	}{
		"loopback":                         {"http://127.0.0.1:8402", nil, nil, 303, ""},
		"loopback, IPv6":                   {"http://[::1]:8402", nil, nil, 303, ""},
		"localhost":                        {"http://localhost", nil, nil, 303, ""},
		"a name that leads to loopback":    {"http://rebound.example.com:8402", nil, nil, 421, "not purser"},
		"localhost of somebody":            {"http://localhost.example.com", nil, nil, 421, "not purser"},
		"no host":                          {"http://127.0.0.1", nil, []string{"Host", ""}, 421, "not purser"},
		"a zone":                           {"http://127.0.0.1", nil, []string{"Host", "[::1%25lo]"}, 421, "not purser"},
		"user and loopback":                {"http://127.0.0.1", nil, []string{"Host", "x@127.0.0.1"}, 421, "not purser"},
		"path in the host":                 {"http://127.0.0.1", nil, []string{"Host", "127.0.0.1/x"}, 421, "not purser"},
		"plain http from elsewhere":        {"http://purser.example.com", open, nil, 403, "https"},
		"it says it came by https":         {"http://purser.example.com", open, []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "127.0.0.1", "Forwarded", "proto=https;host=localhost"}, 403, "https"},
		"loopback of an open listener":     {"http://127.0.0.1:8402", open, nil, 303, ""},
		"the public URL":                   {publicURL, public, nil, 303, ""},
		"the public URL with its port":     {publicURL, public, []string{"Host", "PURSER.example.com:443"}, 303, ""},
		"loopback beside the public URL":   {"http://127.0.0.1:8402", public, nil, 421, publicURL},
		"another name than the public":     {"http://other.example.com", public, []string{"X-Forwarded-Host", "purser.example.com"}, 421, publicURL},
		"a public URL in clear":            {"http://purser.example.com", func(o *session.Options) { o.PublicURL = "http://purser.example.com" }, nil, 403, "https"},
		"a public URL on loopback":         {"http://localhost:9000", func(o *session.Options) { o.PublicURL = "http://localhost:9000/" }, nil, 303, ""},
		"loopback by another of its names": {"http://127.0.0.1:9000", func(o *session.Options) { o.PublicURL = "http://localhost:9000" }, nil, 421, "http://localhost:9000"},
	} {
		var change []func(*session.Options)
		if c.change != nil {
			change = append(change, c.change)
		}
		_, h := w.newGate(change...)
		b := w.browser(c.origin)
		b.handler = h
		for _, path := range []string{"/dashboard/", "/dashboard/callback?state=x"} {
			a := b.get(path, c.header...)
			status := c.status
			if status == 303 && path != "/dashboard/" {
				status = 400
			}
			if a.status != status || !strings.Contains(a.text, c.want) {
				t.Errorf("%s, %s: %d %s", name, path, a.status, a.text)
			}
		}
		if a := b.ask(http.MethodPost, "/dashboard/sign-in", nil, c.header...); c.status != 303 && (a.status != c.status || a.location() != "") {
			t.Errorf("%s: signs in, %d %s", name, a.status, a.location())
		}
		// A program at another address gets the style sheet, which has no secrets.
		if a := b.get("/dashboard/assets/app.css", c.header...); a.status != http.StatusOK {
			t.Errorf("%s: asset %d", name, a.status)
		}
	}
}

// Pages of other sites cannot change anything, nor frame or script the dashboard.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	b.mustSignIn()
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"}, // another port of this machine
		{"Origin", "https://evil.example.com"},
		{"Origin", "http://127.0.0.1:9999"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Origin", "http://127.0.0.1:8402"},
	} {
		for _, path := range []string{"/dashboard/sign-out", "/dashboard/sign-out-everywhere", "/dashboard/sign-in", "/dashboard/keys"} {
			if a := b.ask(http.MethodPost, path, url.Values{}, header...); a.status != http.StatusForbidden {
				t.Errorf("%s %v: %d", path, header, a.status)
			}
		}
	}
	if !b.isIn() {
		t.Error("signed out by another site")
	}
	a := b.get("/dashboard/")
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
		"Permissions-Policy": "camera=()", "Vary": "Cookie",
	} {
		if !strings.Contains(a.header.Get(name), want) {
			t.Errorf("%s: %q", name, a.header.Get(name))
		}
	}
	policy := a.header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "form-action 'self' "+w.issuer+";") {
		t.Errorf("policy %s", policy)
	}
	if a := b.get("/dashboard/assets/app.css"); a.header.Get("Cache-Control") != "" || a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("asset: %v", a.header)
	}
}

// Requests from scripts, and requests that no browser makes by itself.
func TestMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.local()
	in.mustSignIn()
	for _, c := range []struct {
		method, path string
		in           bool
		status       int
		allow        string
	}{
		{"POST", "/dashboard/callback", false, 405, "GET"},
		{"HEAD", "/dashboard/callback", false, 405, "GET"},
		{"GET", "/dashboard/sign-out", true, 405, "POST"},
		{"GET", "/dashboard/sign-out-everywhere", true, 405, "POST"},
		{"DELETE", "/dashboard/sign-in", false, 405, "GET, HEAD, POST"},
		{"TRACE", "/dashboard/", true, 405, "GET, HEAD, POST"},
		{"OPTIONS", "/dashboard/keys", true, 405, "GET, HEAD, POST"},
		{"PROPFIND", "/dashboard/", true, 405, "GET, HEAD, POST"},
		{"POST", "/dashboard/keys", false, 303, ""},
		{"POST", "/dashboard/keys", true, 200, ""},
		{"HEAD", "/dashboard/", false, 303, ""},
		{"GET", "/dashboard/nothing", false, 303, ""},
		{"GET", "/dashboard/assets/../keys", false, 303, ""},
		{"GET", "/dashboard/assets/%2e%2e/keys", false, 303, ""},
		{"GET", "/dashboard/assetsx", false, 303, ""},
		{"POST", "/dashboard/assets/app.css", false, 303, ""},
	} {
		b := w.local()
		if c.in {
			b = in
		}
		if a := b.ask(c.method, c.path, nil); a.status != c.status || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, a.status, a.header.Get("Allow"))
		}
	}
	out := w.local()
	if a := out.ask("POST", "/dashboard/keys", url.Values{"label": {"x"}}); a.location() != "/dashboard/sign-in" {
		t.Errorf("what was posted is repeated: %s", a.location())
	}
	for current, want := range map[string]string{
		"http://127.0.0.1:8402/dashboard/keys?x=y": "/dashboard/sign-in?return=%2Fdashboard%2Fkeys%3Fx%3Dy",
		"https://evil.example.com/dashboard/keys":  "/dashboard/sign-in",
		"http://127.0.0.1:8402.evil.example.com/":  "/dashboard/sign-in",
		"": "/dashboard/sign-in",
	} {
		a := out.get("/dashboard/live", "HX-Request", "true", "HX-Current-URL", current)
		if a.status != http.StatusUnauthorized || a.header.Get("HX-Redirect") != want || a.location() != "" {
			t.Errorf("%s: %d %s", current, a.status, a.header.Get("HX-Redirect"))
		}
	}
	if a := out.get("/dashboard/", "X-Api-Key", "pk_0123456789", "Authorization", "Bearer pk_0123456789", "Proxy-Authorization", "Basic cGtfMDEyMzQ1Njc4OTo="); a.status != http.StatusSeeOther {
		t.Errorf("an API key opens it: %d", a.status)
	}
	// Begin with a form.
	if a := out.ask("POST", "/dashboard/sign-in", url.Values{"return": {"/dashboard/keys"}}); !strings.HasPrefix(a.location(), w.issuer) {
		t.Errorf("by a form: %d %s", a.status, a.location())
	}
	if a := out.ask("POST", "/dashboard/sign-in", url.Values{"return": {strings.Repeat("x", 20_000)}}); a.status != http.StatusBadRequest {
		t.Errorf("a huge form: %d", a.status)
	}
}

// To prove the identity again, the provider must ask, and say when it did.
func TestAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	token := b.mustSignIn()
	fresh := func() bool { return strings.HasSuffix(b.get("/dashboard/").text, "fresh=true") }
	if !fresh() {
		t.Error("just signed in")
	}
	if a := b.get("/dashboard/sign-in?again=1&return=/dashboard/keys"); a.location() != "/dashboard/keys" {
		t.Errorf("asked again at once: %d %s", a.status, a.location())
	}
	w.pass(16 * time.Minute)
	if fresh() {
		t.Error("sixteen minutes later")
	}
	again := session.Again("/dashboard/keys")
	to := b.toProvider(again)
	if q := to.Query(); q.Get("prompt") != "login" || q.Get("max_age") != "0" {
		t.Errorf("%v", q)
	}
	for name, change := range map[string]func(map[string]any){
		"asked before":   func(c map[string]any) { c["auth_time"] = w.now().Add(-15 * time.Minute).Unix() },
		"does not say":   func(c map[string]any) { delete(c, "auth_time") },
		"says something": func(c map[string]any) { c["auth_time"] = -1 },
	} {
		w.provider.Break(identity.Faults{Claims: change})
		a := b.get(w.press(b.toProvider(again), "yes"))
		if a.status != http.StatusForbidden || fresh() || b.token() != token || !b.isIn() {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	w.provider.Break(identity.Faults{})
	if a := b.get(w.press(b.toProvider(again), "yes")); a.location() != "/dashboard/keys" || !fresh() || b.token() == token {
		t.Errorf("%d %s", a.status, a.location())
	}
	// A visitor without a session signs in as usual.
	if q := w.local().toProvider(again).Query(); q.Has("prompt") {
		t.Errorf("%v", q)
	}
}

// Without a provider, one page explains how to set one up.
func TestNotSetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nothing := func(o *session.Options) { o.Issuer, o.ClientID, o.ClientSecret = "", "", "" }
	b := w.local()
	_, b.handler = w.newGate(nothing)
	a := b.get("/dashboard/")
	for _, want := range []string{"PURSER_OIDC_ISSUER", "PURSER_OIDC_CLIENT_ID", "PURSER_OIDC_CLIENT_SECRET", "PURSER_PUBLIC_URL", "http://127.0.0.1:8402/dashboard/callback"} {
		if a.status != http.StatusOK || !strings.Contains(a.text, want) {
			t.Errorf("%d, no %s in %s", a.status, want, a.text)
		}
	}
	if a := b.get("/dashboard/keys"); a.location() != "/dashboard/" {
		t.Errorf("%d %s", a.status, a.location())
	}
	if a := b.ask("POST", "/dashboard/keys", nil); a.location() != "/dashboard/" {
		t.Errorf("%d %s", a.status, a.location())
	}
	if a := b.ask("POST", "/dashboard/", nil); a.status != http.StatusMethodNotAllowed {
		t.Errorf("%d", a.status)
	}
	if a := b.get("/dashboard/", "Host", "rebound.example.com"); a.status != http.StatusMisdirectedRequest {
		t.Errorf("%d", a.status)
	}
	_, b.handler = w.newGate(nothing, func(o *session.Options) { o.LoopbackOnly = false })
	if a := b.get("/dashboard/", "Host", "purser.example.com"); a.status != http.StatusOK || !strings.Contains(a.text, "https://purser.example.com/dashboard/callback") {
		t.Errorf("%d %s", a.status, a.text)
	}
}
