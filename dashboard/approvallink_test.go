package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// checks checks links with the books of a world that is made later.
type checks struct{ links session.ApprovalLinks }

func (c *checks) Check(ctx context.Context, id, token string) error {
	return c.links.Check(ctx, id, token)
}

// linkWorld is a world whose approvals have links.
func linkWorld(t *testing.T) (*world, session.ApprovalLinks) {
	t.Helper()
	c := &checks{}
	w := newWorld(t, func(s *setup) { s.pages.ApprovalLinks = c })
	c.links = session.ApprovalLinks{Origin: w.url, Secrets: w.books, Clock: w.clock.now}
	return w, c.links
}

// cutLink returns path and token of a link.
func (w *world) cutLink(l session.ApprovalLinks, a pay.Approval) (path, token string) {
	w.t.Helper()
	link, err := l.Of(w.t.Context(), w.store, a.ID)
	if err != nil || !strings.HasPrefix(link, w.url+"/dashboard/approve/"+a.ID+"#") {
		w.t.Fatalf("%q, %v", link, err)
	}
	path, token, _ = strings.Cut(strings.TrimPrefix(link, w.url), "#")
	return path, token
}

// stranger asks without a session.
func (w *world) stranger() *person {
	p := w.operates()
	p.account.ID, p.account.OrganizationID = "", ""
	return p
}

func (p *person) opens(method, path string, form url.Values) seen {
	return p.do(method, path, form, "Test-Visitor", "")
}

// A link shows the terms only to a POST with its token, and answers this one payment.
func TestALinkAnswersOneApproval(t *testing.T) {
	t.Parallel()
	w, links := linkWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held, other := w.asks(ada.key, "https://api.example.com/report", "600000"), w.asks(ada.key, "https://api.example.com/other", "700000")
	path, token := w.cutLink(links, held)
	otherPath, otherToken := w.cutLink(links, other)
	bot := w.stranger()
	for _, query := range []string{"", "?token=" + token, "?link=" + token + "&answer=approve", "?answer=deny&reason=x"} {
		bot.opens(http.MethodGet, path+query, nil).is(200, "Show the payment").without("api.example.com", seller, "Approve this payment", token)
	}
	bot.opens(http.MethodHead, path, nil).is(200)
	bot.opens(http.MethodPut, path, nil).is(http.StatusSeeOther)
	if got := w.approval(held); got.Answer != "" {
		t.Fatalf("reading answers: %+v", got)
	}
	form := func(fields ...string) url.Values {
		v := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			v.Set(fields[i], fields[i+1])
		}
		return v
	}
	page := bot.opens(http.MethodPost, path, form("link", w.url+path+"#"+token)).is(200, "https://api.example.com/report", "0.6 <span class=\"unit\">USDC", seller, "It expires in 60 minutes",
		"Approve this payment", `name="link" value="`+token+`"`, "Everybody who has this link can answer").without("raise", "/dashboard/keys")
	if page.header.Get("Cache-Control") != "no-store" || page.header.Get("Content-Encoding") != "" {
		t.Errorf("%v", page.header)
	}
	bot.opens(http.MethodPost, path, form("link", token, "answer", "raise")).is(http.StatusBadRequest)
	bot.opens(http.MethodPost, path, form("link", token, "answer", "deny")).is(http.StatusUnprocessableEntity, "reason-wrong")
	if got := w.approval(held); got.Answer != "" {
		t.Fatalf("%+v", got)
	}
	bot.opens(http.MethodPost, path, form("link", token, "answer", "approve")).is(200, "It was approved by the operator with the link of a notice", "nothing more to answer").without("Approve this payment")
	// The link is used up: the next person sees the answer of the first.
	bot.opens(http.MethodPost, path, form("link", token, "answer", "deny", "reason", "no")).is(http.StatusConflict, "another person has answered first", "It was approved")
	if got := w.approval(other); got.Answer != "" {
		t.Errorf("the link answers another approval: %+v", got)
	}
	bot.opens(http.MethodPost, otherPath, form("link", otherToken, "answer", "deny", "reason", "too dear")).is(200, "denied by the operator", "too dear")
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{KeyID: ada.key.ID, Limit: 2})
	if err != nil || len(entries) != 2 || entries[1].By.String() != "operator with the link of a notice" {
		t.Errorf("the audit: %+v, %v", entries, err)
	}
	if link, err := links.Of(t.Context(), w.store, held.ID); link != "" || err != nil {
		t.Errorf("an answered approval has a link: %q, %v", link, err)
	}
	if strings.Contains(w.logs.String(), token) || strings.Contains(w.logs.String(), otherToken) {
		t.Error("a token is in the log")
	}
}

// Tokens that are forged, of another approval, changed or late are all alike.
func TestLinksThatDoNotWork(t *testing.T) {
	t.Parallel()
	w, links := linkWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held, other := w.asks(ada.key, "https://api.example.com/report", "600000"), w.asks(ada.key, "https://api.example.com/other", "700000")
	path, token := w.cutLink(links, held)
	otherPath, otherToken := w.cutLink(links, other)
	bot := w.stranger()
	try := func(path, token string) seen {
		return bot.opens(http.MethodPost, path, url.Values{"link": {token}, "answer": {"approve"}})
	}
	swap := func(i int) string {
		text := []byte(token)
		if text[i] == 'A' {
			text[i] = 'B'
		} else {
			text[i] = 'A'
		}
		return string(text)
	}
	bad := try(path, "")
	bad.is(http.StatusGone, "This link does not work", "Nothing was changed")
	for _, at := range [][2]string{
		{path, otherToken},
		{otherPath, token},
		{path, swap(0)},
		{path, swap(5)},
		{path, swap(20)},
		{path, token[:40]},
		{path, token + "AAAA"},
		{path, strings.Repeat("A", 54)},
		{path, strings.Repeat("x", 10_000)},
		{"/dashboard/approve/" + nobodys, token},
		{"/dashboard/approve/x", token},
		{"/dashboard/approve/" + strings.ToUpper(held.ID), token},
	} {
		if got := try(at[0], at[1]); got.status != bad.status || got.body != bad.body {
			t.Errorf("%s with %.60s: %d %s", at[0], at[1], got.status, got.brief())
		}
	}
	for _, a := range []pay.Approval{held, other} {
		if got := w.approval(a); got.Answer != "" {
			t.Fatalf("%+v", got)
		}
	}
	// An operator who signs out everywhere ends the links that wait.
	if err := w.books.EndOperatorSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	try(path, token).is(http.StatusGone)
	path, token = w.cutLink(links, held)
	w.clock.advance(time.Hour)
	try(path, token).is(http.StatusGone)
	if err := links.Check(t.Context(), held.ID, token); !errors.Is(err, session.ErrApprovalLink) {
		t.Error(err)
	}
	if got := w.approval(held); got.Answer != "" {
		t.Errorf("%+v", got)
	}
	// Without a public address there are no links.
	plain := newWorld(t)
	plain.stranger().opens(http.MethodGet, path, nil).is(http.StatusSeeOther)
}
