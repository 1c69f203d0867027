package session_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/sandbox/identity"
)

func allow(list string) func(*session.Options) {
	return func(o *session.Options) { o.People.Allow = list }
}

// says replaces claims in the provider's ID tokens; nil removes a claim.
func says(claims map[string]any) func(map[string]any) {
	return func(c map[string]any) {
		for name, value := range claims {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
}

// noAccess reports whether an answer is the page for identities that are not on the list.
func (a answered) noAccess() bool {
	return a.status == http.StatusForbidden && strings.Contains(a.text, "You have no access")
}

// The list judges claims that the provider vouches for: a verified address or its domain, compared
// without case, and groups. The user is ada@example.com, and verified.
func TestAllowed(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for name, c := range map[string]struct {
		list     string
		token    m
		userinfo m
		in       bool
	}{
		"no list":                  {list: "", in: true},
		"domain":                   {list: "@example.com", in: true},
		"domain among others":      {list: "@a.example,group:x, @example.com", in: true},
		"domain in capitals":       {list: "@EXAMPLE.com", token: m{"email": "Ada@Example.COM"}, in: true},
		"address":                  {list: "ada@example.com", in: true},
		"address in capitals":      {list: "ADA@example.com", token: m{"email": "adA@exaMple.com"}, in: true},
		"verified as text":         {list: "@example.com", token: m{"email_verified": "true"}, in: true},
		"another domain":           {list: "@example.org"},
		"another address":          {list: "eve@example.com"},
		"a subdomain":              {list: "@example.com", token: m{"email": "ada@mail.example.com"}},
		"a parent domain":          {list: "@mail.example.com"},
		"a domain that ends so":    {list: "@example.com", token: m{"email": "ada@notexample.com"}},
		"a domain that begins so":  {list: "@example.com", token: m{"email": "ada@example.com.evil.test"}},
		"a final dot":              {list: "@example.com", token: m{"email": "ada@example.com."}},
		"two signs":                {list: "@example.com", token: m{"email": "ada@evil.test@example.com"}},
		"two signs, the other way": {list: "@example.com", token: m{"email": "ada@example.com@evil.test"}},
		"nobody at the domain":     {list: "@example.com", token: m{"email": "@example.com"}},
		"a space":                  {list: "@example.com", token: m{"email": "ada @example.com"}},
		"two addresses":            {list: "@example.com", token: m{"email": "eve@evil.test,ada@example.com"}},
		"a Kelvin sign":            {list: "kay@example.com", token: m{"email": "\u212aay@example.com"}},
		"a Kelvin sign's domain":   {list: "@kay.example", token: m{"email": "ada@\u212aay.example"}},
		"an address in a list":     {list: "@example.com", token: m{"email": []string{"ada@example.com"}}},
		"no address":               {list: "@example.com", token: m{"email": nil}, userinfo: m{"email": nil}},
		"not verified":             {list: "@example.com", token: m{"email_verified": false}},
		"not verified, as text":    {list: "@example.com", token: m{"email_verified": "false"}},
		"verified, as a number":    {list: "@example.com", token: m{"email_verified": 1}},
		"verified is not said":     {list: "@example.com", token: m{"email_verified": nil}, userinfo: m{"email_verified": nil}},

		"group":              {list: "group:payments", token: m{"groups": []string{"a", "payments"}}, in: true},
		"group as text":      {list: "group:payments", token: m{"groups": "payments"}, in: true},
		"group with a space": {list: "@a.example, group: Domain Admins ", token: m{"groups": []string{"Domain Admins"}}, in: true},
		"group of a path":    {list: "group:/payments", token: m{"groups": []string{"/payments"}}, in: true},
		"group, no address":  {list: "group:payments", token: m{"groups": []string{"payments"}, "email": nil}, in: true},
		"group among many":   {list: "group:payments", token: m{"groups": append(slices.Repeat([]string{"<<<<<<<<<<<<<<<<"}, 2000), "payments")}, in: true},
		"group in capitals":  {list: "group:payments", token: m{"groups": []string{"Payments"}}},
		"groups in one text": {list: "group:payments", token: m{"groups": "cooks,payments"}},
		"another group":      {list: "group:payments", token: m{"groups": []string{"payments2", "group:payments"}}},
		"groups of a kind":   {list: "group:payments", token: m{"groups": m{"payments": true}}},
		"groups of numbers":  {list: "group:7", token: m{"groups": []any{7, nil}}},
		"no groups":          {list: "group:payments", token: m{"groups": nil}},
		"a group is no domain": {
			list: "@example.com", token: m{"email": nil, "groups": []string{"@example.com", "ada@example.com"}},
			userinfo: m{"email": nil},
		},

		// Some providers leave claims out of ID tokens.
		"userinfo's address":                {list: "@example.com", token: m{"email": nil, "email_verified": nil}, in: true},
		"userinfo's verification":           {list: "@example.com", token: m{"email_verified": nil}, in: true},
		"userinfo's other address":          {list: "@example.com", token: m{"email_verified": nil}, userinfo: m{"email": "ada@evil.test"}},
		"userinfo's groups":                 {list: "group:payments", userinfo: m{"groups": []string{"payments"}}, in: true},
		"userinfo contradicts the token":    {list: "@example.com, group:x", token: m{"email_verified": false}},
		"userinfo contradicts the groups":   {list: "group:payments", token: m{"groups": []string{}}, userinfo: m{"groups": []string{"payments"}}},
		"userinfo is not asked for nothing": {list: "ada@example.com", userinfo: m{"sub": "user-2"}, in: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, allow(c.list))
			w.provider.Break(identity.Faults{Claims: says(c.token), UserInfo: says(c.userinfo)})
			b := w.local()
			a := b.signIn(session.SignIn)
			if c.in {
				if a.status != http.StatusSeeOther || !b.isIn() {
					t.Errorf("not let in: %d %s\n%s", a.status, a.text, &w.logs)
				}
				return
			}
			if !a.noAccess() || b.isIn() {
				t.Errorf("%d %s", a.status, a.text)
			}
			orgs, err := w.accounts.Organizations(t.Context(), "", 10)
			if err != nil || len(orgs) != 0 || w.accounts.sessions.Load() != 0 || len(b.cookies) != 0 {
				t.Errorf("made %v, %v, %d sessions, cookies %v", orgs, err, w.accounts.sessions.Load(), b.cookies)
			}
			if log := w.logs.String(); !strings.Contains(log, "PURSER_OIDC_ALLOW") || strings.Contains(log, "ada") || strings.Contains(log, "cooks") {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// When the list needs userinfo and userinfo fails, no identity is admitted.
func TestAllowedWithoutUserInfo(t *testing.T) {
	t.Parallel()
	bare := says(map[string]any{"email": nil})
	for name, faults := range map[string]identity.Faults{
		"it fails":          {Claims: bare, Serve: at("/userinfo", status(500))},
		"another subject":   {Claims: bare, UserInfo: says(map[string]any{"sub": "user-2"})},
		"it is not offered": {Claims: bare, Discovery: says(map[string]any{"userinfo_endpoint": nil})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, allow("@example.com"))
			w.provider.Break(faults)
			b := w.local()
			a := b.signIn(session.SignIn)
			want := http.StatusServiceUnavailable
			if faults.Discovery != nil {
				want = http.StatusForbidden
			}
			if a.status != want || b.isIn() || w.accounts.sessions.Load() != 0 {
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
}

// Groups are requested only when the list has groups and the provider has a scope for them.
func TestScopeOfGroups(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"group:payments": "openid groups profile email", "@example.com": "openid profile email", "": "openid profile email",
	} {
		w := newWorld(t, allow(list))
		w.provider.Break(identity.Faults{Discovery: says(map[string]any{"scopes_supported": []string{"openid", "email", "profile", "groups"}})})
		if got := w.local().toProvider(session.SignIn).Query().Get("scope"); got != want {
			t.Errorf("%q: scope %q", list, got)
		}
	}
}

// A new list takes effect at the next request of every session, for every path.
func TestAnotherListEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, allow("@example.com"))
	_, everybody := w.newGate()
	_, others := w.newGate(allow("@example.org, group:cooks"))
	w.provider.Break(identity.Faults{Claims: says(map[string]any{"groups": []string{"payments"}})})
	signedIn := func() *browser {
		b := w.local()
		b.mustSignIn()
		return b
	}
	b := signedIn()
	b.handler = others
	if a := b.get("/dashboard/keys", "HX-Request", "true"); a.status != http.StatusForbidden || a.header.Get("HX-Redirect") != session.Home || a.text != "" {
		t.Errorf("a script: %d %v %s", a.status, a.header, a.text)
	}
	if a := b.get("/dashboard/keys"); !a.noAccess() {
		t.Errorf("%d %s", a.status, a.text)
	}
	if b.handler = everybody; b.isIn() {
		t.Error("a session that has ended is one again")
	}
	b = signedIn()
	b.handler = others
	if a := b.ask(http.MethodPost, "/dashboard/keys", nil); !a.noAccess() {
		t.Errorf("POST: %d %s", a.status, a.text)
	}
	// They can try again, which is refused, and sign out, which works.
	b = signedIn()
	b.handler = others
	if a := b.signIn(session.SignIn); !a.noAccess() || b.isIn() {
		t.Errorf("sign-in: %d %s", a.status, a.text)
	}
	b = signedIn()
	token := b.token()
	b.handler = others
	if a := b.ask(http.MethodPost, session.SignOutEverywhere, nil); a.status != http.StatusSeeOther {
		t.Errorf("signing out: %d %s", a.status, a.text)
	}
	b.handler, b.cookies["purser"] = everybody, token
	if b.isIn() {
		t.Error("still in after signing out everywhere")
	}
	// A list that allows the same identity by another rule changes nothing.
	b = signedIn()
	_, b.handler = w.newGate(allow("group:payments"))
	if !b.isIn() {
		t.Error("a member of the group was put out")
	}
}

// An identity that the provider no longer allows loses its session at its next sign-in. A link with
// another identity's sign-in ends no session.
func TestWhoLostTheGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, allow("group:payments"))
	w.provider.Break(identity.Faults{Claims: says(map[string]any{"groups": []string{"payments"}})})
	ada, eve := w.local(), w.local()
	ada.mustSignIn()
	isEve := says(map[string]any{"sub": "eve"})
	w.provider.Break(identity.Faults{Claims: isEve, UserInfo: isEve})
	link := w.press(eve.toProvider(session.SignIn), "yes")
	for name, value := range eve.cookies { // set by a program on another port
		ada.cookies[name] = value
	}
	if a := ada.get(link); !a.noAccess() || !ada.isIn() {
		t.Errorf("somebody else's link: %d %s", a.status, a.text)
	}
	w.provider.Break(identity.Faults{})
	w.pass(16 * time.Minute) // the sign-in is no longer fresh
	if a := ada.signIn(session.Again("/dashboard/keys")); !a.noAccess() || ada.isIn() {
		t.Errorf("without the group: %d %s", a.status, a.text)
	}
}
