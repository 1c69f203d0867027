package session_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/sandbox/identity"
)

func listing(p session.PeopleOptions) func(*session.Options) {
	return func(o *session.Options) { o.People = p }
}

// as signs a person in with more claims, and returns what the page says of the visitor.
func (b *browser) as(claims map[string]any) string {
	b.w.t.Helper()
	b.w.provider.Break(identity.Faults{Claims: says(claims)})
	b.mustSignIn()
	return b.get("/dashboard/").text
}

// The first list that has the person counts: operators, approvers, owners, viewers. The user is
// ada@example.com, and verified.
func TestPeople(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	type p = session.PeopleOptions
	sales := m{"groups": []string{"sales", "team-b", "team-a", "cooks"}}
	for name, c := range map[string]struct {
		people p
		claims m
		want   string // of the page; "" for no access
	}{
		"operator":                {p{Operators: "ada@example.com"}, nil, "^operator user-1 of all at .* as operator ada@example.com on the dashboard$"},
		"operator by a group":     {p{Operators: "group:sales", Allow: "@a.example"}, sales, "^operator user-1 of all"},
		"approver":                {p{Approvers: "@example.com"}, nil, "^approver user-1 of all at .* as account "},
		"viewer":                  {p{Viewers: "@example.com"}, nil, "^viewer user-1 of all"},
		"all lists":               {p{Operators: "@example.com", Approvers: "@example.com", Viewers: "@example.com"}, nil, "^operator"},
		"two lists":               {p{Approvers: "@example.com", Viewers: "@example.com"}, nil, "^approver"},
		"everybody views":         {p{Viewers: "*"}, m{"email": nil}, "^viewer"},
		"of no list":              {p{Operators: "@example.org"}, nil, ""},
		"of no list, but allowed": {p{Operators: "@example.org", Allow: "*"}, nil, "^user-1 of org_[-0-9a-f]{36} at .* as owner"},
		"an address of no proof":  {p{Operators: "ada@example.com"}, m{"email_verified": false}, ""},

		"a domain":             {p{Organization: "domain", Owners: "@example.org", Allow: "*"}, nil, "^user-1 of org_[0-9a-f]{32} at .* as viewer"},
		"an owner":             {p{Organization: "domain", Owners: "@example.com"}, nil, "^user-1 of org_[0-9a-f]{32} at .* as owner"},
		"everybody owns":       {p{Organization: "domain", Owners: "*"}, nil, "^user-1 of org_[0-9a-f]{32} at .* as owner"},
		"an owner, who views":  {p{Organization: "domain", Owners: "ada@example.com", Viewers: "*"}, nil, "^user-1 of org_[0-9a-f]{32} at .* as owner"},
		"an approver, of all":  {p{Organization: "domain", Owners: "*", Approvers: "*"}, nil, "^approver user-1 of all"},
		"a public domain":      {p{Organization: "domain", Owners: "*"}, m{"email": "ada@gmail.com"}, "^user-1 of org_[-0-9a-f]{36} at .* as owner"},
		"a public domain's":    {p{Organization: "domain", Owners: "*"}, m{"email": "ada@Yahoo.co.uk"}, "^user-1 of org_[-0-9a-f]{36} at"},
		"a domain of no proof": {p{Organization: "domain", Owners: "*"}, m{"email_verified": false}, "^user-1 of org_[-0-9a-f]{36} at"},
		"a group":              {p{Organization: "group:team-", Owners: "group:sales", Allow: "*"}, sales, "^user-1 of org_[0-9a-f]{32} at .* as owner"},
		"a group's viewer":     {p{Organization: "group", Owners: "group:chefs", Allow: "*"}, sales, "^user-1 of org_[0-9a-f]{32} at .* as viewer"},
		"no group":             {p{Organization: "group:x-", Owners: "*"}, sales, "^user-1 of org_[-0-9a-f]{36} at .* as owner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, listing(c.people))
			b := w.local()
			if c.want == "" {
				w.provider.Break(identity.Faults{Claims: says(c.claims), UserInfo: says(c.claims)})
				if a := b.signIn(session.SignIn); !a.noAccess() {
					t.Errorf("let in: %d %s", a.status, a.text)
				}
				return
			}
			w.provider.Break(identity.Faults{Claims: says(c.claims), UserInfo: says(c.claims)})
			b.mustSignIn()
			if got := b.get("/dashboard/").text; !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

func TestPeopleOptions(t *testing.T) {
	t.Parallel()
	type p = session.PeopleOptions
	for want, people := range map[string]p{
		`PURSER_OIDC_OPERATORS: "alice": for a whole`:  {Operators: "alice"},
		`PURSER_OIDC_APPROVERS: "example.com"`:         {Approvers: "example.com"},
		`PURSER_OIDC_VIEWERS: ",": it lists nobody`:    {Viewers: ","},
		`PURSER_OIDC_OWNERS: "group:": a group has`:    {Organization: "group", Owners: "group:"},
		"PURSER_OIDC_OWNERS is missing":                {Organization: "domain"},
		"PURSER_OIDC_OWNERS needs":                     {Owners: "*"},
		`PURSER_OIDC_ORGANIZATION: "group:"`:           {Organization: "group:", Owners: "*"},
		`PURSER_OIDC_ORGANIZATION: "team"`:             {Organization: "team", Owners: "*"},
		`PURSER_OIDC_ORGANIZATION: "domain:a.example"`: {Organization: "domain:a.example", Owners: "*"},
	} {
		o := session.Options{Issuer: "https://id.example.com", ClientID: "purser", People: people}
		if err := session.Check(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, not %q", people, err, want)
		}
		o.Issuer, o.ClientID = "", ""
		if err := session.Check(o); err == nil || !strings.Contains(err.Error(), "PURSER_OIDC_ISSUER") {
			t.Errorf("without an issuer: %v", err)
		}
	}
}

var organization = regexp.MustCompile(`org_[-0-9a-f]+`)

// People of one domain or group share an organization with its keys. If several groups match, the
// first by its bytes counts, in whatever order the provider sends them.
func TestSharedOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, listing(session.PeopleOptions{Organization: "group:team-", Owners: "*"}))
	of := func(subject string, groups ...string) string {
		return organization.FindString(w.local().as(map[string]any{"sub": subject, "groups": groups}))
	}
	a := of("ada", "team-a", "sales")
	if b := of("bob", "sales", "team-b", "team-a"); b != a || a == "" {
		t.Errorf("%q and %q", a, b)
	}
	if b := of("bob", "team-b"); b == a {
		t.Error("two groups share an organization")
	}
	keys, err := w.accounts.KeysIn(t.Context(), books.OfOrganization(a))
	if err != nil || len(keys) != 1 {
		t.Errorf("keys of the organization: %+v, %v", keys, err)
	}
	all, err := w.accounts.KeysIn(t.Context(), books.OfOperator())
	if err != nil || len(all) != 2 {
		t.Errorf("all keys: %+v, %v", all, err)
	}

	// An organization of one's own comes with the setting, and waits while people share one.
	ada := w.local()
	inTeam := ada.as(map[string]any{"sub": "ada", "groups": []string{"team-a"}})
	_, own := w.newGate()
	_, shared := w.newGate(listing(session.PeopleOptions{Organization: "group:team-", Owners: "*"}))
	if ada.handler = own; ada.get("/dashboard/").status != http.StatusSeeOther {
		t.Error("a session goes from one organization to another")
	}
	before := organization.FindString(ada.as(map[string]any{"sub": "ada", "groups": []string{"team-a"}}))
	if before == a || before == "" {
		t.Errorf("own organization: %q", before)
	}
	if ada.handler = shared; ada.as(map[string]any{"sub": "ada", "groups": []string{"team-a"}}) != inTeam {
		t.Error("ada is not in her team again")
	}
	if ada.handler = own; organization.FindString(ada.as(map[string]any{"sub": "ada"})) != before {
		t.Error("ada's own organization is lost")
	}
}

// A reload takes a role away at the next request, and gives another one.
func TestRolesFollowTheLists(t *testing.T) {
	t.Parallel()
	type p = session.PeopleOptions
	w := newWorld(t, listing(p{Operators: "ada@example.com"}))
	b := w.local()
	if got := b.as(nil); !strings.HasPrefix(got, "operator ") {
		t.Fatal(got)
	}
	for want, people := range map[string]p{"approver ": {Approvers: "@example.com"}, "viewer ": {Viewers: "@example.com"}, "operator ": {Operators: "*"}} {
		if _, b.handler = w.newGate(listing(people)); !strings.HasPrefix(b.get("/dashboard/").text, want) {
			t.Errorf("not %s: %s", want, b.get("/dashboard/").text)
		}
	}
	// A visitor who no longer sees all needs an organization, and signs in for it.
	if _, b.handler = w.newGate(); b.get("/dashboard/").status != http.StatusSeeOther {
		t.Error("still in")
	}
	if _, b.handler = w.newGate(listing(p{Operators: "eve@example.com"})); !b.get("/dashboard/").noAccess() || b.token() != "" {
		t.Error("removed from the list, and still in")
	}
	// Without a provider, none of its people are known.
	c := w.local()
	c.as(nil)
	if _, c.handler = w.newGate(func(o *session.Options) { o.Issuer, o.ClientID, o.ClientSecret = "", "", "" }); !strings.Contains(c.get("/dashboard/").text, "PURSER_OIDC_ISSUER") {
		t.Error("still in without a provider")
	}
}

// `purser dashboard --sign-out` ends the sessions of all who see everything, whatever the clock says,
// and no others.
func TestTheEpochOfOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, listing(session.PeopleOptions{Operators: "ada@example.com", Allow: "*"}))
	links, h := linked(w)
	_ = h
	operator, other := w.local(), w.local()
	operator.as(nil)
	other.as(map[string]any{"sub": "user-1", "email": "eve@example.com"})
	link := w.local()
	_, link.handler = w.newGate(func(o *session.Options) { o.Links = links })
	path, _ := links.Make("root")
	link.pressLink(path)
	w.pass(-5 * 60 * 1e9) // the clock is put back
	if err := w.accounts.EndOperatorSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * 60 * 1e9)
	if a := operator.get("/dashboard/"); a.status != http.StatusSeeOther {
		t.Errorf("an operator of the provider: %d %s", a.status, a.text)
	}
	if link.operates() {
		t.Error("an operator with a link is still in")
	}
	if !other.isIn() {
		t.Error("somebody else was put out")
	}
	operator.cookies = map[string]string{}
	if got := operator.as(nil); !strings.HasPrefix(got, "operator ") {
		t.Error(got)
	}
}
