package session_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
)

// linked makes a gate with links, without a provider unless it is kept.
func linked(w *world, change ...func(*session.Options)) (*session.Links, http.Handler) {
	links := session.NewLinks(w.now)
	_, h := w.newGate(append([]func(*session.Options){func(o *session.Options) {
		o.Issuer, o.ClientID, o.ClientSecret, o.Links = "", "", "", links
	}}, change...)...)
	return links, h
}

// press posts the secret of a link, as the button of its page does.
func (b *browser) pressLink(path string) answered {
	b.w.t.Helper()
	_, secret, _ := strings.Cut(path, "#")
	return b.ask(http.MethodPost, session.Link, url.Values{"link": {secret}}, "Sec-Fetch-Site", "same-origin")
}

// operates reports whether a page is shown to an operator.
func (b *browser) operates() bool {
	b.w.t.Helper()
	a := b.get("/dashboard/keys")
	return a.status == http.StatusOK && strings.Contains(a.text, "operator at /dashboard/keys")
}

func TestALinkWorksOnceAndForFiveMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	path, until := links.Make("ada as root")
	if left := until.Sub(w.now()); left > session.LinkTime || left < session.LinkTime-time.Minute {
		t.Errorf("it works for %s", left)
	}
	b := w.local()
	b.handler = h
	// A GET shows the button, also one of a program that loads links in advance, and uses nothing up.
	for range 3 {
		if a := b.get(session.Link, "Sec-Purpose", "prefetch"); a.status != http.StatusOK || a.text != "press the button" ||
			a.header.Get("Cache-Control") != "no-store" || a.header.Get("Referrer-Policy") == "" || len(b.cookies) > 0 {
			t.Fatalf("%d %s %v", a.status, a.text, a.header)
		}
	}
	if a := b.pressLink(path); a.location() != "/dashboard/" || !b.operates() {
		t.Fatalf("%d %s", a.status, a.text)
	}
	late, _ := links.Make("")
	for name, used := range map[string]func() string{
		"used":    func() string { return path },
		"unknown": func() string { return session.Link + "#" + strings.Repeat("A", 43) },
		"empty":   func() string { return session.Link },
		"late": func() string {
			w.pass(session.LinkTime)
			return late
		},
	} {
		other := w.local()
		other.handler = h
		if a := other.pressLink(used()); a.status != http.StatusGone || !strings.Contains(a.text, "purser dashboard") || other.operates() {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	if !b.operates() {
		t.Error("the session ended with the links of others")
	}
	w.pass(session.Lifetime)
	if b.operates() {
		t.Error("the session does not end")
	}
	if _, secret, _ := strings.Cut(path, "#"); strings.Contains(w.logs.String(), secret) || !strings.Contains(w.logs.String(), "ada as root") {
		t.Errorf("log: %s", &w.logs)
	}
}

// If many visitors press at once, one gets in.
func TestALinkIsOnlyForOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	path, _ := links.Make("")
	var in atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			b := w.local()
			b.handler = h
			if b.pressLink(path).status == http.StatusSeeOther {
				in.Add(1)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 {
		t.Errorf("%d got in", in.Load())
	}
}

// Pages of other sites cannot press the button, and what tries links in a loop does not keep the operator
// out.
func TestLinksAndAttackers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	path, _ := links.Make("")
	b := w.local()
	b.handler = h
	_, secret, _ := strings.Cut(path, "#")
	for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://127.0.0.1:9999"}} {
		if a := b.ask(http.MethodPost, session.Link, url.Values{"link": {secret}}, from...); a.status != http.StatusForbidden {
			t.Errorf("%v: %d", from, a.status)
		}
	}
	if a := b.get(session.Link + "?link=" + secret); a.status != http.StatusOK || b.operates() {
		t.Errorf("GET: %d", a.status)
	}
	if a := b.ask(http.MethodPost, session.Link+"?link="+secret, url.Values{}); a.status != http.StatusGone {
		t.Errorf("in the query: %d", a.status)
	}
	status := 0
	for range 50 {
		status = b.pressLink("#wrong").status
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the fiftieth wrong one: %d", status)
	}
	if a := b.pressLink(path); a.status != http.StatusSeeOther || !b.operates() {
		t.Errorf("the operator after them: %d %s", a.status, a.text)
	}
	// Links are bounded: the oldest goes.
	first, _ := links.Make("")
	for range 16 {
		links.Make("")
	}
	if a := w.local(); func() int { a.handler = h; return a.pressLink(first).status }() == http.StatusSeeOther {
		t.Error("the first of many links still works")
	}
}

func TestWhereLinksWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		origin string
		change func(*session.Options)
		in     bool
	}{
		{"http://127.0.0.1:9000", func(*session.Options) {}, true}, // through an SSH tunnel
		{"http://localhost:8402", func(*session.Options) {}, true},
		{"http://[::1]:8402", func(*session.Options) {}, true},
		{publicURL, public, true},
		{"http://127.0.0.1:8402", public, false},
		{"http://rebound.example.com", func(*session.Options) {}, false},
		{"http://10.0.0.5:8402", func(o *session.Options) { o.LoopbackOnly = false }, false}, // anyone on the way reads it
	} {
		links, h := linked(w, c.change)
		path, _ := links.Make("")
		b := w.browser(c.origin)
		b.handler = h
		shown := b.get(session.Link).text == "press the button"
		if a := b.pressLink(path); shown != c.in || b.operates() != c.in {
			t.Errorf("%s: shown %v, %d %s", c.origin, shown, a.status, a.text)
		}
	}
}

// An operator signs out, here or everywhere, and signs in again for what needs a recent sign-in.
func TestOperatorsSignOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	in := func() *browser {
		b := w.local()
		b.handler = h
		path, _ := links.Make("")
		if a := b.pressLink(path); a.status != http.StatusSeeOther || !b.operates() {
			t.Fatalf("%d %s", a.status, a.text)
		}
		return b
	}
	first, second := in(), in()
	w.pass(16 * time.Minute)
	if a := first.get(session.Again("/dashboard/keys?key=1&label=a")); a.status != http.StatusForbidden || !strings.Contains(a.text, "purser dashboard") {
		t.Errorf("again: %d %s", a.status, a.text)
	}
	// The next link leads to the page, once.
	for _, want := range []string{"/dashboard/keys?key=1&label=a", "/dashboard/"} {
		path, _ := links.Make("")
		if a := first.pressLink(path); a.location() != want {
			t.Errorf("leads to %q, not %q", a.location(), want)
		}
	}
	// Other programs on this machine can set cookies.
	for _, bad := range []string{"https://evil.test/", "//evil.test/dashboard/", "%2F%2Fevil.test", "%", "/dashboard/sign-out"} {
		path, _ := links.Make("")
		first.cookies["purser-back"] = bad
		if a := first.pressLink(path); a.location() != "/dashboard/" || first.cookies["purser-back"] != "" {
			t.Errorf("%s: leads to %q", bad, a.location())
		}
	}
	if a := first.ask(http.MethodPost, session.SignOut, nil); a.location() != "/dashboard/sign-in?out=here" || first.operates() || !second.operates() {
		t.Errorf("here: %d %s", a.status, a.location())
	}
	if a := first.get("/dashboard/sign-in?out=here"); a.status != http.StatusOK || !strings.Contains(a.text, "signed out") {
		t.Errorf("signed out: %d %s", a.status, a.text)
	}
	if a := first.get(session.SignIn); a.location() != "/dashboard/" {
		t.Errorf("sign-in: %d %s", a.status, a.location())
	}
	third := in()
	if a := third.ask(http.MethodPost, session.SignOutEverywhere, nil); a.status != http.StatusSeeOther || second.operates() || third.operates() {
		t.Errorf("everywhere: %d", a.status)
	}
	w.pass(time.Second)
	in()
}

// With a provider, links work beside it, whatever its list says, and neither sort of session replaces the
// other unasked.
func TestLinksBesideAProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links := session.NewLinks(w.now)
	b := w.local()
	_, b.handler = w.newGate(func(o *session.Options) { o.Links, o.People.Allow = links, "@example.net" })
	path, _ := links.Make("")
	if a := b.pressLink(path); a.status != http.StatusSeeOther || !b.operates() {
		t.Fatalf("%d %s", a.status, a.text)
	}
	_, b.handler = w.newGate(func(o *session.Options) { o.Links = links })
	if !b.operates() {
		t.Error("a reload ended the session")
	}
	other := w.local()
	other.handler = b.handler
	start := other.toProvider("/dashboard/sign-in")
	for name, value := range other.cookies {
		b.cookies[name] = value
	}
	if a := b.get(w.press(start, "yes")); a.status != http.StatusConflict || !b.operates() {
		t.Errorf("a provider's answer: %d %s", a.status, a.text)
	}
}

// While the store is down, a link is not used up.
func TestALinkWaitsForTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	path, _ := links.Make("")
	b := w.local()
	b.handler = h
	b.cookies["purser"] = strings.Repeat("A", 43)
	w.accounts.down.Store(true)
	if a := b.pressLink(path); a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.text)
	}
	w.accounts.down.Store(false)
	if a := b.pressLink(path); a.status != http.StatusSeeOther || !b.operates() {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// clearing is a store that fails to keep a session while the operator ends all sessions and links.
type clearing struct {
	*counting
	links *session.Links
}

func (c clearing) PutSession(context.Context, pay.Session) error {
	c.links.Clear()
	return pay.ErrUnavailable
}

// A link whose session the store does not keep works again, unless all links were ended meanwhile.
func TestAnEndedLinkDoesNotComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	_, broken := linked(w, func(o *session.Options) { o.Accounts, o.Links = clearing{w.accounts, links}, links })
	path, _ := links.Make("")
	b := w.local()
	b.handler = broken
	if a := b.pressLink(path); a.status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", a.status, a.text)
	}
	b.handler = h
	if a := b.pressLink(path); a.status != http.StatusGone || b.operates() {
		t.Errorf("the link works after all links were ended: %d %s", a.status, a.text)
	}
}

// Signing out everywhere on the dashboard does what `purser dashboard --sign-out` does: links that wait end.
func TestSigningOutEverywhereEndsLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	links, h := linked(w)
	in, _ := links.Make("")
	waits, _ := links.Make("")
	b, other := w.local(), w.local()
	b.handler, other.handler = h, h
	b.pressLink(in)
	if a := b.ask(http.MethodPost, session.SignOutEverywhere, nil); a.status != http.StatusSeeOther || b.operates() {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if a := other.pressLink(waits); a.status != http.StatusGone || other.operates() {
		t.Errorf("a link that waited works: %d", a.status)
	}
}
