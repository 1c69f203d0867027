package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/sandbox/identity"
)

// as makes the provider sign in another person from now on.
func (w *world) as(subject string) {
	w.provider.Break(identity.Faults{Claims: says(map[string]any{"sub": subject})})
}

// On plain http, all ports of a host share cookies, and the cookie of a longer path comes first.
// Another program could so put one path, such as that of linking a key, into its own session.
func TestTwoSessionsAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.local(), w.local()
	ada.mustSignIn()
	w.as("eve")
	eve.mustSignIn()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		a := ada.ask(method, "/dashboard/keys/link", nil, "Cookie", "purser="+eve.token())
		if a.status != http.StatusBadRequest || !strings.Contains(a.text, "Two sessions at once") {
			t.Errorf("%s with two sessions: %d %s", method, a.status, a.text)
		}
		for _, path := range []string{session.SignIn, session.SignIn + "?again=1"} {
			if a := ada.get(path, "Cookie", "purser=x"); a.status != http.StatusBadRequest {
				t.Errorf("%s with two sessions, one of them none: %d", path, a.status)
			}
		}
	}
	if a := ada.ask(http.MethodPost, session.SignOut, nil, "Cookie", "purser="+eve.token()); a.status != http.StatusBadRequest || eve.get("/dashboard/").status != http.StatusOK || !ada.isIn() {
		t.Errorf("signing out with two sessions: %d", a.status)
	}
}

// A link cannot replace a visitor's session by another account's.
func TestNobodyBecomesSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.local(), w.local()
	ada.mustSignIn()
	before := ada.get("/dashboard/").text
	w.as("eve")
	link := w.press(eve.toProvider(session.SignIn), "yes")
	for name, value := range eve.cookies { // set by a program on another port
		ada.cookies[name] = value
	}
	a := ada.get(link)
	if a.status != http.StatusConflict || !strings.Contains(a.text, "Another person is signed in") || ada.get("/dashboard/").text != before {
		t.Errorf("%d %s, and then %s", a.status, a.text, ada.get("/dashboard/").text)
	}
	w.provider.Break(identity.Faults{})
	if a := ada.get("/dashboard/"); a.text != before {
		t.Errorf("the session was changed: %s", a.text)
	}
	// After signing out, any account can sign in.
	w.as("eve")
	ada.ask(http.MethodPost, session.SignOut, nil)
	ada.mustSignIn()
	if ada.get("/dashboard/").text == before {
		t.Error("accounts cannot be changed after signing out")
	}
}

func TestSessionsHaveNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var names []string
	w.handler = w.gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		v, _ := session.From(r.Context())
		names = append(names, v.Session)
	}), plain{})
	a, b := w.local(), w.local()
	for _, who := range []*browser{a, b} {
		if end := who.signIn(session.SignIn); end.status != http.StatusSeeOther {
			t.Fatalf("%d %s", end.status, end.text)
		}
		who.get("/dashboard/")
	}
	if len(names) != 2 || names[0] == "" || names[0] == names[1] || strings.Contains(names[0], a.token()) {
		t.Errorf("names of two sessions of one account: %q", names)
	}
}

// Times from before the clock was put back prove nothing: the clock may have been put forward to
// have a key revealed.
func TestAClockThatIsPutBackMakesNothingFresh(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for ahead, want := range map[time.Duration]bool{
		time.Hour: false, 2 * time.Minute: false, 30 * time.Second: true, 0: true, -14 * time.Minute: true, -15 * time.Minute: false,
	} {
		if got := (session.Visitor{AuthTime: now.Add(ahead)}).Fresh(now); got != want {
			t.Errorf("signed in %s from now: fresh is %v", ahead, got)
		}
	}
}
