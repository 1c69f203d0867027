package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// enrollment makes the sign-in of a new person.
func enrollment(issuer, subject string) pay.Enrollment {
	org := "org_" + newID()
	return pay.Enrollment{
		Account: pay.Account{
			ID: newID(), Identity: pay.Identity{Issuer: issuer, Subject: subject, Name: "Ada <b>", Email: "ada@example.com"},
			OrganizationID: org, Created: noon, SignedIn: noon,
		},
		Key: newKey(org),
	}
}

// session makes a session with a number.
func session(n int, expires time.Time) pay.Session {
	return pay.Session{ID: fmt.Sprintf("%064x", pay.HashOf("session", fmt.Sprint(n))), Data: fmt.Appendf(nil, "data %d", n), Expires: expires}
}

// sessions demands which sessions exist.
func (f *fixture) sessions(want map[int]bool) {
	f.Helper()
	for n, there := range want {
		s, err := f.Session(f.ctx, session(n, noon).ID)
		if !there {
			f.fails(err, pay.ErrSessionNotFound)
			continue
		}
		f.must(err)
		f.same("data", string(s.Data), fmt.Sprintf("data %d", n))
	}
}

var accountTests = map[string]func(*fixture){
	"the first sign-in and the next": func(f *fixture) {
		e := enrollment("https://id.example.com", "sub-1")
		a, first, err := f.Enroll(f.ctx, e)
		f.must(err)
		f.same("account", []any{a, first}, []any{e.Account, true})
		f.same("organization", must(f.Organization(f.ctx, a.OrganizationID)), pay.Organization{ID: a.OrganizationID, Plan: pay.PlanFree, Created: noon})
		keys := must(f.OrganizationKeys(f.ctx, a.OrganizationID))
		f.same("keys", keys, []pay.Key{e.Key.Key})
		f.same("secret", must(f.RevealKey(f.ctx, e.Key.ID)), e.Key.Secret)

		next := enrollment("https://id.example.com", "sub-1")
		next.Account.Name, next.Account.Email = "Ada L.", ""
		next.Account.SignedIn = noon.Add(time.Hour)
		want := a
		want.Name, want.Email, want.SignedIn = "Ada L.", "", noon.Add(time.Hour)
		again, first, err := f.Enroll(f.ctx, next)
		f.must(err)
		f.same("account", []any{again, first}, []any{want, false})
		f.same("account", must(f.Account(f.ctx, a.ID)), want)
		keys = must(f.OrganizationKeys(f.ctx, a.OrganizationID))
		f.same("keys", len(keys), 1)
		_, err = f.Key(f.ctx, next.Key.ID)
		f.fails(err, pay.ErrKeyNotFound)
		_, err = f.Account(f.ctx, next.Account.ID)
		f.fails(err, pay.ErrAccountNotFound)
	},
	"unknown accounts": func(f *fixture) {
		for _, id := range []string{"", newID(), strings.Repeat("x", 1000)} {
			_, err := f.Account(f.ctx, id)
			f.fails(err, pay.ErrAccountNotFound)
			_, err = f.EndSessions(f.ctx, id)
			f.fails(err, pay.ErrAccountNotFound)
		}
	},
	"identities that look alike": func(f *fixture) {
		seen := map[string]bool{}
		for _, who := range [][2]string{
			{"https://id.example.com", "ab"},
			{"https://id.example.coma", "b"},
			{"https://id.example.com/", "ab"},
			{"https://ID.example.com", "ab"},
			{"https://id.example.com", "AB"},
			{"https://id.example.com", "ab "},
			{"https://id.example.com", "ab\x00"},
			{"https://id.example.com\x00", "ab"},
			{"https://id.example.com", "é"},
			{"https://id.example.com", "e\u0301"},
			{"https://id.example.com", strings.Repeat("s", 1024)},
		} {
			a, first, err := f.Enroll(f.ctx, enrollment(who[0], who[1]))
			f.must(err)
			if !first || seen[a.ID] {
				f.Fatalf("%q has the account of another identity", who)
			}
			seen[a.ID] = true
		}
	},
	"the same identity at once": func(f *fixture) {
		var firsts atomic.Int64
		var accounts [crowd]string
		errs := together(crowd, func(i int) error {
			a, first, err := f.Enroll(f.ctx, enrollment("https://id.example.com", "sub"))
			if accounts[i] = a.ID; first {
				firsts.Add(1)
			}
			return err
		})
		f.must(firstOf(errs))
		f.same("first sign-ins", firsts.Load(), 1)
		for _, id := range accounts {
			f.same("account", id, accounts[0])
		}
		f.same("organizations", len(must(f.Organizations(f.ctx, "", 10))), 1)
		f.same("keys", len(must(f.ListKeys(f.ctx, "", 10))), 1)
	},
	"an organization has one account": func(f *fixture) {
		a, _, err := f.Enroll(f.ctx, enrollment("https://id.example.com", "sub"))
		f.must(err)
		e := enrollment("https://id.example.com", "other")
		e.Account.OrganizationID, e.Key.OrganizationID = a.OrganizationID, a.OrganizationID
		if _, _, err := f.Enroll(f.ctx, e); err == nil {
			f.Fatal("two accounts have one organization")
		}
		_, err = f.Account(f.ctx, e.Account.ID)
		f.fails(err, pay.ErrAccountNotFound)
		_, err = f.Key(f.ctx, e.Key.ID)
		f.fails(err, pay.ErrKeyNotFound)
	},
	"accounts that share an organization": func(f *fixture) {
		enroll := func(subject, own, keys string) (pay.Account, bool) {
			e := enrollment("https://id.example.com", subject)
			e.Account.OrganizationID, e.Key.OrganizationID = own, keys
			a, first, err := f.Enroll(f.ctx, e)
			f.must(err)
			return a, first
		}
		ada, first := enroll("ada", "", "org_shared")
		f.same("ada", []any{first, ada.OrganizationID}, []any{true, ""})
		made := must(f.OrganizationKeys(f.ctx, "org_shared"))
		f.same("keys", len(made), 1)
		enroll("bob", "", "org_shared")
		_, first = enroll("ada", "", "org_shared")
		f.same("ada is new", first, false)
		f.same("keys", must(f.OrganizationKeys(f.ctx, "org_shared")), made)
		f.must(firstOf(together(crowd, func(i int) error {
			enroll(fmt.Sprint("person ", i), "", "org_rushed")
			return nil
		})))
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org_rushed"))), 1)

		// An account without any organization has no key, and gets its own later. It keeps that.
		enroll("eve", "", "")
		f.same("keys", len(must(f.ListKeys(f.ctx, "", 10))), 2)
		eve, first := enroll("eve", "org_eve", "org_eve")
		f.same("eve", []any{first, eve.OrganizationID, must(f.Account(f.ctx, eve.ID)).OrganizationID}, []any{false, "org_eve", "org_eve"})
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org_eve"))), 1)
		eve, _ = enroll("eve", "", "org_shared")
		f.same("eve", eve.OrganizationID, "org_eve")
		f.same("keys", must(f.OrganizationKeys(f.ctx, "org_shared")), made)
		e := enrollment("https://id.example.com", "bob")
		e.Account.OrganizationID, e.Key.OrganizationID = "org_shared", "org_shared"
		if _, _, err := f.Enroll(f.ctx, e); err == nil {
			f.Fatal("an account owns an organization that others share")
		}
	},
	"generations": func(f *fixture) {
		a, _, err := f.Enroll(f.ctx, enrollment("https://id.example.com", "sub"))
		f.must(err)
		f.must(firstOf(together(crowd, func(int) error { _, err := f.EndSessions(f.ctx, a.ID); return err })))
		got := must(f.Account(f.ctx, a.ID))
		f.same("generation", got.Generation, crowd)
		again, _, err := f.Enroll(f.ctx, enrollment("https://id.example.com", "sub"))
		f.must(err)
		f.same("generation after a sign-in", again.Generation, crowd)
	},
	"sessions": func(f *fixture) {
		f.sessions(map[int]bool{1: false})
		f.must(f.DeleteSession(f.ctx, session(1, noon).ID))
		s := session(1, noon.Add(time.Hour))
		f.must(f.PutSession(f.ctx, s))
		got := must(f.Session(f.ctx, s.ID))
		f.same("session", got, s)
		s.Data, s.Expires = []byte("\x00new\xff"), noon.Add(2*time.Hour)
		f.must(f.PutSession(f.ctx, s))
		got = must(f.Session(f.ctx, s.ID))
		f.same("session", got, s)
		n := must(f.ExpireSessions(f.ctx, noon.Add(time.Hour), 10)) // the time that it had before
		f.same("expired", n, 0)
		f.must(f.DeleteSession(f.ctx, s.ID))
		f.sessions(map[int]bool{1: false})

		s = session(2, noon)
		s.Data = make([]byte, pay.MaxSessionData)
		f.must(f.PutSession(f.ctx, s))
		s = session(3, noon)
		s.Data = make([]byte, pay.MaxSessionData+1)
		if err := f.PutSession(f.ctx, s); err == nil {
			f.Fatal("a session of any length is kept")
		}
	},
	"sessions whose time is over": func(f *fixture) {
		for n := range 10 {
			f.must(f.PutSession(f.ctx, session(n, noon.Add(time.Duration(n)*time.Nanosecond))))
		}
		expire := func(at time.Time, limit, want int) {
			f.Helper()
			f.same("expired", must(f.ExpireSessions(f.ctx, at, limit)), want)
		}
		expire(noon.Add(-1), 100, 0)
		expire(noon.Add(6), 3, 3) // those that expired first
		f.sessions(map[int]bool{0: false, 2: false, 3: true, 9: true})
		expire(noon.Add(6), 100, 4)
		f.sessions(map[int]bool{6: false, 7: true, 9: true})
		expire(noon.Add(6), 100, 0)
		expire(noon.Add(time.Hour), 100, 3)
		f.must(f.PutSession(f.ctx, session(1, time.Time{})))
		f.must(f.PutSession(f.ctx, session(2, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))))
		expire(noon, 100, 1)
		f.sessions(map[int]bool{1: false, 2: true})
	},
	"sessions at once": func(f *fixture) {
		f.must(firstOf(together(crowd, func(i int) error {
			for n := range 4 {
				s := session((i+n)%8, noon.Add(time.Duration(i%2)*time.Hour))
				if err := f.PutSession(f.ctx, s); err != nil {
					return err
				}
				if i%3 == 0 {
					if err := f.DeleteSession(f.ctx, s.ID); err != nil {
						return err
					}
				}
				if _, err := f.ExpireSessions(f.ctx, noon, 2); err != nil {
					return err
				}
			}
			return nil
		})))
		if _, err := f.ExpireSessions(f.ctx, noon.Add(time.Hour), 1000); err != nil {
			f.Fatal(err)
		}
		for n := range 8 {
			f.sessions(map[int]bool{n: false})
		}
	},
	"reopened": func(f *fixture) { f.accountsSurvive(Opener.Close) },
	"crashed":  func(f *fixture) { f.accountsSurvive(Opener.Kill) },
}

// accountsSurvive demands accounts and sessions after the store was opened again.
func (f *fixture) accountsSurvive(end func(Opener, testing.TB)) {
	f.Helper()
	e := enrollment("https://id.example.com", "sub")
	_, _, err := f.Enroll(f.ctx, e)
	f.must(err)
	a := must(f.EndSessions(f.ctx, e.Account.ID))
	f.must(f.PutSession(f.ctx, session(1, noon.Add(time.Hour))))
	k := newKey("")
	must(f.CreateKey(f.ctx, k))
	linked := must(f.LinkKey(f.ctx, pay.Link{Secret: k.Secret, OrganizationID: a.OrganizationID}))
	must(f.SetPlan(f.ctx, a.OrganizationID, pay.PlanAgency))

	f.reopen(end)

	f.same("account", must(f.Account(f.ctx, a.ID)), a)
	f.sessions(map[int]bool{1: true})
	again, first, err := f.Enroll(f.ctx, enrollment("https://id.example.com", "sub"))
	f.must(err)
	f.same("the next sign-in", []any{again.ID, first}, []any{a.ID, false})
	f.same("keys", must(f.OrganizationKeys(f.ctx, a.OrganizationID)), []pay.Key{e.Key.Key, linked})
	f.same("secret", must(f.RevealKey(f.ctx, linked.ID)), k.Secret)
	f.same("organizations", must(f.Organizations(f.ctx, "", 10)), []pay.Organization{{ID: a.OrganizationID, Plan: pay.PlanAgency, Created: noon}})
}
