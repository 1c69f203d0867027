package session_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/identity"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"http://127.0.0.1:8402", "http://localhost:8402", "http://[::1]:8402", "https://localhost:8443", publicURL} {
		t.Run(origin, func(t *testing.T) {
			t.Parallel()
			var change []func(*session.Options)
			if origin == publicURL {
				change = append(change, public)
			}
			w := newWorld(t, change...)
			b := w.browser(origin)
			a := b.get("/dashboard/spend?from=2026-01-01&q=%2F%2Fx")
			want := "/dashboard/sign-in?return=" + url.QueryEscape("/dashboard/spend?from=2026-01-01&q=%2F%2Fx")
			if a.status != http.StatusSeeOther || a.location() != want {
				t.Fatalf("%d %s", a.status, a.location())
			}
			to := b.toProvider(a.location())
			for name, value := range map[string]string{
				"redirect_uri": origin + "/dashboard/callback", "response_type": "code", "client_id": clientID,
				"code_challenge_method": "S256", "scope": "openid profile email",
			} {
				if got := to.Query().Get(name); got != value {
					t.Errorf("%s: %q", name, got)
				}
			}
			if a = b.get(w.press(to, "yes")); a.status != http.StatusSeeOther || a.location() != "/dashboard/spend?from=2026-01-01&q=%2F%2Fx" {
				t.Fatalf("%d %s %s", a.status, a.location(), a.text)
			}
			if !b.isIn() || len(b.cookies) != 1 {
				t.Errorf("cookies %v", b.cookies)
			}
			secure := strings.HasPrefix(origin, "https")
			c := b.last[map[bool]string{false: "purser", true: "__Host-purser"}[secure]]
			if c == nil || !c.HttpOnly || c.Secure != secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge != 12*3600 || c.Domain != "" {
				t.Errorf("cookie %+v", c)
			}
			// The same person in another browser has the same organization. A visitor with a
			// session goes back at once.
			other := w.browser(origin)
			other.mustSignIn()
			if x, y := b.get("/dashboard/").text, other.get("/dashboard/").text; x != y {
				t.Errorf("%s, and then %s", x, y)
			}
			if a := b.get("/dashboard/sign-in?return=/dashboard/keys"); a.location() != "/dashboard/keys" {
				t.Errorf("already in: %d %s", a.status, a.location())
			}
			if text := w.logs.String(); strings.Contains(text, b.token()) || strings.Contains(text, "ada@") {
				t.Errorf("a secret is in the log: %s", text)
			}
		})
	}
}

// Forged, wrong, expired and replayed ID tokens make no session.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(w *world) identity.Faults {
		return func(*world) identity.Faults {
			return identity.Faults{Claims: says(map[string]any{name: value})}
		}
	}
	at := func(name string, off time.Duration) func(w *world) identity.Faults {
		return func(w *world) identity.Faults { return claim(name, w.now().Add(off).Unix())(w) }
	}
	signed := func(s identity.Signature) func(w *world) identity.Faults {
		return func(*world) identity.Faults { return identity.Faults{Signature: s} }
	}
	answer := func(change func(map[string]any)) func(w *world) identity.Faults {
		return func(*world) identity.Faults { return identity.Faults{Token: change} }
	}
	for name, lie := range map[string]func(w *world) identity.Faults{
		"expired":                              at("exp", -2*time.Minute),
		"no expiry":                            claim("exp", nil),
		"not yet valid":                        at("nbf", 2*time.Minute),
		"issued in the future":                 at("iat", 2*time.Minute),
		"issued at no time":                    claim("iat", nil),
		"asked in the future":                  at("auth_time", 2*time.Minute),
		"issuer":                               claim("iss", "https://accounts.example.com"),
		"issuer with a slash":                  func(w *world) identity.Faults { return claim("iss", w.issuer+"/")(w) },
		"no issuer":                            claim("iss", nil),
		"audience":                             claim("aud", "another"),
		"no audience":                          claim("aud", nil),
		"several audiences":                    claim("aud", []string{clientID, "another"}),
		"authorized party":                     claim("azp", "another"),
		"nonce":                                claim("nonce", "another"),
		"no nonce":                             claim("nonce", nil),
		"access token hash":                    claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"),
		"no subject":                           claim("sub", nil),
		"empty subject":                        claim("sub", ""),
		"subject of another type":              claim("sub", 7),
		"huge subject":                         claim("sub", strings.Repeat("x", 5000)),
		"not signed":                           signed(identity.None),
		"signed with the public key as secret": signed(identity.PublicKey),
		"unknown key":                          signed(identity.UnknownID),
		"key of a stranger":                    signed(identity.Forged),
		"another access token":                 answer(func(a map[string]any) { a["access_token"] = "another" }),
		"garbage for a token":                  answer(func(a map[string]any) { a["id_token"] = "a.b.c" }),
		"tampered": answer(func(a map[string]any) {
			parts := strings.Split(a["id_token"].(string), ".")
			parts[1] = parts[1][:len(parts[1])-4] + "fQ" // another payload, or an invalid one
			a["id_token"] = strings.Join(parts, ".")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.provider.Break(lie(w))
			b := w.local()
			a := b.signIn("/dashboard/sign-in")
			if a.status != http.StatusForbidden || len(b.cookies) != 0 || b.isIn() || w.accounts.sessions.Load() != 0 {
				t.Errorf("%d %s %v", a.status, a.text, b.cookies)
			}
			orgs, err := w.accounts.Organizations(t.Context(), "", 10)
			if err != nil || len(orgs) != 0 {
				t.Errorf("organizations %v, %v", orgs, err)
			}
			w.provider.Break(identity.Faults{})
			b.mustSignIn()
		})
	}
}

// Small deviations, and other forms of a claim, are accepted.
func TestTolerated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(map[string]any){
		"just expired": func(c map[string]any) { c["exp"] = w.now().Add(-30 * time.Second).Unix() },
		"a clock that is ahead": func(c map[string]any) {
			c["iat"], c["nbf"], c["auth_time"] = w.now().Add(30*time.Second).Unix(), w.now().Add(30*time.Second).Unix(), w.now().Add(30*time.Second).Unix()
		},
		"two audiences and who asked": func(c map[string]any) { c["aud"], c["azp"] = []string{"another", clientID}, clientID },
		"no at_hash":                  func(c map[string]any) { delete(c, "at_hash") },
		"no auth_time":                func(c map[string]any) { delete(c, "auth_time") },
		"fractions":                   func(c map[string]any) { c["auth_time"] = float64(w.now().Unix()) - 0.5 },
		"unknown claims": func(c map[string]any) {
			c["groups"] = []any{map[string]any{"x": 1}}
			c["name"] = 7
			c["email"] = []int{1}
		},
	} {
		w.provider.Break(identity.Faults{Claims: change})
		b := w.local()
		if a := b.signIn("/dashboard/sign-in"); a.status != http.StatusSeeOther || !b.isIn() {
			t.Errorf("%s: %d %s\n%s", name, a.status, a.text, &w.logs)
		}
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.local().mustSignIn()
		if err := w.provider.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	// Also in the middle of a sign-in.
	b := w.local()
	to := b.toProvider("/dashboard/sign-in")
	back := w.press(to, "yes")
	if err := w.provider.Rotate(); err != nil {
		t.Fatal(err)
	}
	if b.get(back); !b.isIn() {
		t.Error(w.logs.String())
	}
}

// Names come from userinfo when ID tokens lack them, and only from the same subject.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	bare := func(c map[string]any) { delete(c, "name"); delete(c, "email") }
	for name, c := range map[string]struct {
		faults identity.Faults
		want   pay.Identity
	}{
		"in the token":   {identity.Faults{}, pay.Identity{Name: "Ada <b>Lovelace</b>", Email: "ada@example.com"}},
		"in userinfo":    {identity.Faults{Claims: bare}, pay.Identity{Name: "Ada <b>Lovelace</b>", Email: "ada@example.com"}},
		"somebody else":  {identity.Faults{Claims: bare, UserInfo: func(c map[string]any) { c["sub"] = "user-2" }}, pay.Identity{}},
		"not verified":   {identity.Faults{Claims: func(c map[string]any) { c["email_verified"] = false }}, pay.Identity{Name: "Ada <b>Lovelace</b>"}},
		"only a handle":  {identity.Faults{Claims: func(c map[string]any) { delete(c, "name"); c["preferred_username"] = " ada\n\x1b[31m" }}, pay.Identity{Name: "ada[31m", Email: "ada@example.com"}},
		"userinfo fails": {identity.Faults{Claims: bare, Serve: at("/userinfo", status(500))}, pay.Identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.provider.Break(c.faults)
			var got pay.Identity
			gate, _ := w.newGate()
			b := w.local()
			b.handler = gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				v, _ := session.From(r.Context())
				got = v.Account.Identity
			}), plain{})
			b.mustSignIn()
			b.get("/dashboard/")
			c.want.Issuer, c.want.Subject = w.issuer, "user-1"
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Two tabs sign in at the same time, in any order. A browser keeps a few attempts only.
func TestTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.local()
	first, second := b.toProvider("/dashboard/sign-in?return=/dashboard/keys"), b.toProvider("/dashboard/sign-in?return=/dashboard/spend")
	if a := b.get(w.press(second, "yes")); a.location() != "/dashboard/spend" {
		t.Errorf("second tab: %d %s", a.status, a.location())
	}
	if a := b.get(w.press(first, "yes")); a.location() != "/dashboard/keys" || !b.isIn() {
		t.Errorf("first tab: %d %s", a.status, a.location())
	}
	many := w.local()
	var tabs []*url.URL
	for range 9 {
		tabs = append(tabs, many.toProvider("/dashboard/sign-in"))
		w.pass(time.Second)
	}
	if len(many.cookies) != 4 {
		t.Errorf("%d cookies", len(many.cookies))
	}
	if a := many.get(w.press(tabs[8], "yes")); a.location() != "/dashboard/" {
		t.Errorf("newest tab: %d %s", a.status, a.text)
	}
	slices.Reverse(tabs)
	out := w.local()
	out.cookies = map[string]string{}
	if a := out.get(w.press(tabs[8], "yes")); a.status != http.StatusBadRequest {
		t.Errorf("forgotten tab: %d", a.status)
	}
}

// First sign-ins of one person in many places at once make one organization.
func TestFirstSignInsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var backs []string
	var browsers []*browser
	for range 8 {
		b := w.local()
		browsers, backs = append(browsers, b), append(backs, w.press(b.toProvider("/dashboard/sign-in"), "yes"))
	}
	var all sync.WaitGroup
	for i, b := range browsers {
		all.Go(func() { b.get(backs[i]) })
	}
	all.Wait()
	for _, b := range browsers {
		if !b.isIn() {
			t.Error("not in")
		}
	}
	orgs, err := w.accounts.Organizations(t.Context(), "", 10)
	if err != nil || len(orgs) != 1 {
		t.Errorf("%d organizations, %v", len(orgs), err)
	}
}

// Sessions and attempts survive a reload, and are known to other nodes.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in, on := w.local(), w.local()
	in.mustSignIn()
	back := w.press(on.toProvider("/dashboard/sign-in?return=/dashboard/keys"), "yes")
	_, next := w.newGate()
	in.handler, on.handler = next, next
	if a := on.get(back); a.location() != "/dashboard/keys" || !on.isIn() || !in.isIn() {
		t.Errorf("%d %s", a.status, a.text)
	}
}
