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
	w.run("dashboard", "https://purser.example.com/dashboard/link#", "!ssh -L")
	w.run("dashboard --url http://localhost:9000", "http://localhost:9000/dashboard/link#", "!ssh -L")
	if got := ran[adminapi.DashboardLink](w, "dashboard --url http://localhost:9000/"); !strings.HasPrefix(got.URL, "http://localhost:9000/dashboard/link#") {
		t.Errorf("%+v", got)
	}
	w.fails(map[string]string{
		"dashboard --url localhost:9000": "--url", "dashboard --url http://localhost:9000/dashboard": "--url", "dashboard --url http://a:b@localhost": "--url",
	})
	w.DashboardURL = func() string { return "https://localhost:8443/dashboard" }
	w.run("dashboard", "https://localhost:8443/dashboard/link#", "ssh -L 8443:localhost:8443 HOST")
	w.DashboardURL = func() string { return "" }
	w.fails(map[string]string{"dashboard": "purser_dashboard"})

	before, err := w.Books.OperatorEpoch(t.Context())
	if err != nil || before != "" {
		t.Errorf("%s, %v", before, err)
	}
	w.run("dashboard --sign-out", "have ended")
	if after, err := w.Books.OperatorEpoch(t.Context()); err != nil || after == before {
		t.Errorf("%s, %v", after, err)
	}
	if !ran[adminapi.DashboardSignOut](w, "dashboard --sign-out").SignedOut {
		t.Error("not signed out")
	}
}
