package session_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/sandbox/identity"
)

// at serves one path of the provider.
func at(path string, serve http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, path) {
			return false
		}
		serve(w, r)
		return true
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "id_token=secret-of-somebody", code) }
}

// endless writes until the client leaves.
func endless(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"a":"`)
	for line := strings.Repeat("x", 1<<16); ; {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

// When the provider fails, no session is made, the page says so, and sign-in works again
// afterwards.
func TestProviderTrouble(t *testing.T) {
	t.Parallel()
	const discovery = "/.well-known/openid-configuration"
	document := func(change func(map[string]any)) identity.Faults { return identity.Faults{Discovery: change} }
	serve := func(path string, f http.HandlerFunc) identity.Faults { return identity.Faults{Serve: at(path, f)} }
	garbage := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\x00<html>{{") }
	slow := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server would not see the client leave
		<-r.Context().Done()
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
	}
	round := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }
	for name, c := range map[string]struct {
		faults identity.Faults
		late   bool // only the callback fails
	}{
		"down":                      {serve(discovery, status(503)), false},
		"nothing there":             {serve(discovery, status(404)), false},
		"garbage":                   {serve(discovery, garbage), false},
		"endless":                   {serve(discovery, endless), false},
		"slow":                      {serve(discovery, slow), false},
		"cut off":                   {serve(discovery, cut), false},
		"in circles":                {serve(discovery, round), false},
		"another issuer":            {document(func(d map[string]any) { d["issuer"] = "https://accounts.example.com" }), false},
		"token endpoint in clear":   {document(func(d map[string]any) { d["token_endpoint"] = "http://accounts.example.com/token" }), false},
		"sign-in page in clear":     {document(func(d map[string]any) { d["authorization_endpoint"] = "http://accounts.example.com/" }), false},
		"keys from a file":          {document(func(d map[string]any) { d["jwks_uri"] = "file:///etc/passwd" }), false},
		"script for a sign-in page": {document(func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" }), false},
		"no endpoints":              {document(func(d map[string]any) { clear(d) }), false},
		"tokens: down":              {serve("/token", status(503)), true},
		"tokens: garbage":           {serve("/token", garbage), true},
		"tokens: endless":           {serve("/token", endless), true},
		"tokens: slow":              {serve("/token", slow), true},
		"tokens: elsewhere":         {serve("/token", away), true},
		"tokens: none":              {identity.Faults{Token: func(a map[string]any) { delete(a, "id_token") }}, true},
		"keys: down":                {serve("/jwks", status(500)), true},
		"keys: garbage":             {serve("/jwks", garbage), true},
		"keys: endless":             {serve("/jwks", endless), true},
		"keys: slow":                {serve("/jwks", slow), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *session.Options) {
				if strings.HasSuffix(name, "slow") {
					o.Timeout = 2 * time.Second // also bounds good answers on a busy machine
				}
			})
			b := w.local()
			var a answered
			if c.late {
				back := w.press(b.toProvider("/dashboard/sign-in"), "yes")
				w.provider.Break(c.faults)
				a = b.get(back)
			} else {
				w.provider.Break(c.faults)
				a = b.get("/dashboard/sign-in")
			}
			if a.status != http.StatusServiceUnavailable && (name != "tokens: elsewhere" || a.status != http.StatusForbidden) {
				t.Errorf("%d %s", a.status, a.text)
			}
			if len(b.cookies) != 0 || w.accounts.sessions.Load() != 0 {
				t.Errorf("cookies %v", b.cookies)
			}
			if all := w.logs.String() + a.text; strings.Contains(all, "secret-of-somebody") && c.late && strings.HasPrefix(name, "tokens") {
				t.Errorf("the token endpoint's answer is told: %s", all)
			}
			w.provider.Break(identity.Faults{})
			w.pass(6 * time.Second)
			b.mustSignIn()
		})
	}
}

// A provider that is down or fails is not asked again for every visitor.
func TestProviderAskedSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	w.provider.Break(identity.Faults{Serve: at("/", status(500))})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { w.local().get("/dashboard/sign-in") })
	}
	all.Wait()
	if n := w.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	w.provider.Break(identity.Faults{})
	w.pass(6 * time.Second)
	for range 20 {
		b.toProvider("/dashboard/sign-in")
	}
	if n := w.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	// An hour later it is asked again. Without an answer, the known document serves on, but not
	// after an answer of another issuer.
	w.pass(61 * time.Minute)
	w.provider.Break(identity.Faults{Serve: at("/.well-known", status(500))})
	b.mustSignIn()
	w.provider.Break(identity.Faults{Discovery: func(d map[string]any) { d["issuer"] = "https://accounts.example.com" }})
	w.pass(61 * time.Minute)
	if a := w.local().get("/dashboard/sign-in"); a.status != http.StatusServiceUnavailable {
		t.Errorf("another issuer: %d", a.status)
	}

	_, nowhere := w.newGate(func(o *session.Options) { o.Issuer = "http://127.0.0.1:1" })
	b.handler, b.cookies = nowhere, map[string]string{}
	if a := b.get("/dashboard/sign-in"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("nobody there: %d", a.status)
	}
}

// A callback of another browser's attempt, or from another issuer, makes no session.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(name string, a answered, b *browser, status int) {
		t.Helper()
		if a.status != status || b.isIn() {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	b := w.local()
	refused("nothing", b.get("/dashboard/callback"), b, 400)
	refused("state of nobody", b.get("/dashboard/callback?state=x&code=y"), b, 400)

	attacker := w.local()
	theirs := w.press(attacker.toProvider("/dashboard/sign-in"), "yes")
	refused("state and code of another browser", b.get(theirs), b, 400)
	b.toProvider("/dashboard/sign-in")
	refused("the same with a sign-in of one's own begun", b.get(theirs), b, 400)
	b = w.local()
	mine, _ := url.Parse(w.press(b.toProvider("/dashboard/sign-in"), "yes"))
	q, their := mine.Query(), mustQuery(t, theirs)
	q.Set("code", their.Get("code"))
	refused("the code of another browser", b.get("/dashboard/callback?"+q.Encode()), b, 403)

	for name, change := range map[string]func(url.Values){
		"two states":         func(v url.Values) { v.Add("state", v.Get("state")) },
		"two codes":          func(v url.Values) { v.Add("code", "x") },
		"two issuers":        func(v url.Values) { v.Add("iss", "x") },
		"another issuer":     func(v url.Values) { v.Set("iss", "https://accounts.example.com") },
		"no issuer":          func(v url.Values) { v.Del("iss") },
		"no code":            func(v url.Values) { v.Del("code") },
		"huge code":          func(v url.Values) { v.Set("code", strings.Repeat("x", 5000)) },
		"another code":       func(v url.Values) { v.Set("code", "x") },
		"code and error":     func(v url.Values) { v.Set("error", "server_error") },
		"error with markup":  func(v url.Values) { v.Set("error", "<script>alert(1)</script>") },
		"error with a story": func(v url.Values) { v.Set("error", "access_denied"); v.Set("error_description", "call 0900 123456") },
	} {
		b := w.local()
		w.provider.Break(identity.Faults{Callback: change})
		a := b.get(w.press(b.toProvider("/dashboard/sign-in"), "yes"))
		if a.status != 403 && a.status != 400 || b.isIn() {
			t.Errorf("%s: %d", name, a.status)
		}
		if strings.Contains(a.text, "<script>") || strings.Contains(a.text, "0900") {
			t.Errorf("%s: the page repeats it: %s", name, a.text)
		}
	}
	w.provider.Break(identity.Faults{})

	b = w.local()
	a := b.get(w.press(b.toProvider("/dashboard/sign-in?return=/dashboard/keys"), "no"))
	refused("cancelled", a, b, 403)
	if !strings.Contains(a.text, "access_denied") || !strings.Contains(a.text, "/dashboard/sign-in?return=%2Fdashboard%2Fkeys") || len(b.cookies) != 0 {
		t.Errorf("%s %v", a.text, b.cookies)
	}

	b = w.local()
	late := w.press(b.toProvider("/dashboard/sign-in"), "yes")
	w.pass(11 * time.Minute)
	refused("too late", b.get(late), b, 400)

	// Damaged cookies.
	for _, value := range []string{"", "x", "e30", strings.Repeat("A", 3000)} {
		b = w.local()
		back := w.press(b.toProvider("/dashboard/sign-in"), "yes")
		for name := range b.cookies {
			b.cookies[name] = value
		}
		refused("broken cookie", b.get(back), b, 400)
	}
}

func mustQuery(t *testing.T, path string) url.Values {
	t.Helper()
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// A callback works once, for one browser. A visitor who goes back in history keeps the session.
func TestReplayedCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	back := w.press(b.toProvider("/dashboard/sign-in?return=/dashboard/keys"), "yes")
	kept := maps.Clone(b.cookies)
	b.get(back)
	token := b.token()
	if a := b.get(back); a.status != http.StatusSeeOther || a.location() != "/dashboard/" || b.token() != token || !b.isIn() {
		t.Errorf("back in history: %d %s", a.status, a.location())
	}
	thief := w.local()
	if a := thief.get(back); a.status != http.StatusBadRequest || thief.isIn() {
		t.Errorf("without its cookie: %d", a.status)
	}
	thief.cookies = kept
	if a := thief.get(back); a.status != http.StatusForbidden || thief.isIn() {
		t.Errorf("with its cookie: %d", a.status)
	}
	// A provider that redeems a code twice sends the first ID token again, which has another nonce.
	w.provider.Break(identity.Faults{KeepCodes: true})
	other := w.local()
	to := other.toProvider("/dashboard/sign-in")
	q := mustQuery(t, w.press(to, "yes"))
	q.Set("code", mustQuery(t, back).Get("code"))
	if a := other.get("/dashboard/callback?" + q.Encode()); a.status != http.StatusForbidden || other.isIn() {
		t.Errorf("an old code in a new sign-in: %d", a.status)
	}
}

// Visitors without a session cannot fill the store, and are slowed down.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 60 {
		w.local().toProvider("/dashboard/sign-in")
	}
	a := w.local().get("/dashboard/sign-in")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("%d", a.status)
	}
	if w.accounts.sessions.Load() != 0 || w.asked.Load() != 1 {
		t.Errorf("%d sessions, provider asked %d times", w.accounts.sessions.Load(), w.asked.Load())
	}
	w.pass(time.Minute)
	// The bound on presented codes holds for any cookies.
	b := w.local()
	to := b.toProvider("/dashboard/sign-in")
	kept := b.cookies
	asked := w.asked.Load()
	for range 120 {
		b.cookies = maps.Clone(kept)
		a = b.get("/dashboard/callback?" + url.Values{"state": {to.Query().Get("state")}, "code": {"x"}, "iss": {w.issuer}}.Encode())
	}
	if n := w.asked.Load() - asked; n < 60 || n > 100 || a.status != http.StatusTooManyRequests {
		t.Errorf("provider asked %d times, %d", n, a.status)
	}
}

// When the store fails, the page says so, and no session is made.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	b.mustSignIn()
	w.accounts.down.Store(true)
	if a := b.get("/dashboard/"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	w.accounts.down.Store(false)
	if !b.isIn() {
		t.Error("signed out")
	}
	a := b.get("/dashboard/panic")
	if text := w.logs.String(); a.status != http.StatusInternalServerError || strings.Contains(a.text+text, "pk_secret") {
		t.Errorf("panic: %d %s\n%s", a.status, a.text, text)
	}
}

// A wrong configuration fails at the start, with the variable's name.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(*session.Options)
		want   string
	}{
		"no issuer":       {func(o *session.Options) { o.Issuer = "" }, "PURSER_OIDC_ISSUER is missing"},
		"no client":       {func(o *session.Options) { o.ClientID = "" }, "PURSER_OIDC_CLIENT_ID is missing"},
		"issuer in clear": {func(o *session.Options) { o.Issuer = "http://accounts.example.com" }, "PURSER_OIDC_ISSUER"},
		"no URL":          {func(o *session.Options) { o.Issuer = "accounts.example.com" }, "PURSER_OIDC_ISSUER"},
		"a query":         {func(o *session.Options) { o.Issuer = "https://accounts.example.com/?x=y" }, "PURSER_OIDC_ISSUER"},
		"a path":          {func(o *session.Options) { o.PublicURL = publicURL + "/purser" }, "PURSER_PUBLIC_URL"},
		"no public URL":   {func(o *session.Options) { o.PublicURL = "purser.example.com" }, "PURSER_PUBLIC_URL"},
	} {
		o := session.Options{Accounts: w.accounts, Issuer: "https://accounts.example.com", ClientID: clientID, ClientSecret: clientSecret}
		c.change(&o)
		if _, err := session.New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The provider is not asked before a visitor signs in.
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer server.Close()
	if _, err := session.New(session.Options{Accounts: w.accounts, Issuer: server.URL, ClientID: clientID}); err != nil {
		t.Error(err)
	}
}
