package session_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/dashboard/session"
)

// A link of an approval needs no session, and all else of the gate: the right address, and no page of
// another site behind a POST.
func TestLinksOfApprovalsPassTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, h := linked(w)
	b := w.local()
	b.handler = h
	const path = session.ApprovalLink + "01890a5d-ac96-774b-bcce-b302099a8057"
	passes := func(a answered) bool { return strings.Contains(a.text, "nobody at "+path) }
	if a := b.get(path); !passes(a) || a.header.Get("Content-Security-Policy") == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := b.ask(http.MethodPost, path, nil, "Sec-Fetch-Site", "same-origin"); !passes(a) {
		t.Errorf("%d %s", a.status, a.text)
	}
	for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.com"}} {
		if a := b.ask(http.MethodPost, path, nil, header[0], header[1]); a.status != http.StatusForbidden || passes(a) {
			t.Errorf("%v: %d %s", header, a.status, a.text)
		}
	}
	if a := b.get(path, "Host", "evil.example.com"); passes(a) {
		t.Errorf("by another name: %d %s", a.status, a.text)
	}
	if got := session.Back(path); got != session.Home {
		t.Errorf("sign-in leads back to %s", got)
	}
}
