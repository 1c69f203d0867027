package adminapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/adminapi"
)

func TestDashboardLinkOfTheCommand(t *testing.T) {
	w := newWorld(t)
	w.run("dashboard", "http://127.0.0.1:8402/dashboard/link#", "It works once", "ssh -L 8402:127.0.0.1:8402 HOST")
	got := ran[adminapi.DashboardLink](w, "dashboard")
	if left := got.Expires.Sub(w.now()); !strings.HasPrefix(got.URL, "http://127.0.0.1:8402/dashboard/link#") || left > session.LinkTime || left < 4*time.Minute {
		t.Errorf("%+v", got)
	}
	w.DashboardURL = func() string { return "https://purser.example.com/dashboard" }
	w.run("dashboard", "https://purser.example.com/dashboard/link#", "!ssh")
	w.DashboardURL = func() string { return "" }
	w.fails(map[string]string{"dashboard": "purser_dashboard"})

	before, err := w.Books.OperatorSessionsEnded(t.Context())
	if err != nil || !before.IsZero() {
		t.Errorf("%s, %v", before, err)
	}
	w.run("dashboard --sign-out", "have ended")
	if ended, err := w.Books.OperatorSessionsEnded(t.Context()); err != nil || w.now().Sub(ended) > time.Minute {
		t.Errorf("%s, %v", ended, err)
	}
	if !ran[adminapi.DashboardSignOut](w, "dashboard --sign-out").SignedOut {
		t.Error("not signed out")
	}
}
