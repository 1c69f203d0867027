package session_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/dashboard/session"
)

func TestBack(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"/dashboard/keys", "/dashboard/spend?from=2026-01-01&to=2026-02-01", "/dashboard/keys/0199/", "/dashboard/spend?task=a+b%20c&host=%2F%2Fx",
	} {
		if got := session.Back(good); got != good {
			t.Errorf("%q: %q", good, got)
		}
	}
	for _, bad := range []string{
		"", "/", "//evil.example", `/\evil.example`, "https://evil.example/dashboard/", "dashboard/keys", "/dashboardx", "/dashboard//evil.example",
		`/dashboard/\evil`, "/dashboard/../v1/pay", "/dashboard/%2e%2e/v1", "/dashboard/..%2f..%2fv1", "/dashboard/%5cevil", "/dashboard/a\tb", "/dashboard/a\nb",
		"/dashboard/%0d%0aSet-Cookie:x", "/dashboard/a b", "/dashboard/\x00", "/dashboard/%00", "/dashboard/%zz", "/dashboard/sign-in?return=/dashboard/sign-in",
		"/dashboard/callback?code=x", "/dashboard/sign-out", "/dashboard/sign-out/", "/dashboard/assets/app.css", "/dashboard", "/dashboard?x", "javascript:alert(1)",
		"/dashboard/" + strings.Repeat("x", 2000), "/dashboard/x//", "/dashboard/./x", "///dashboard/x", "/dashboard/?x=%0a", "/dashboard/\u202e\u0085\x7f",
	} {
		if got := session.Back(bad); got != session.Home && !strings.HasPrefix(got, session.Home+"?x") {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

// For every path asked for, the browser stays on this site and in the dashboard.
func FuzzBack(f *testing.F) {
	for _, seed := range []string{"/dashboard/keys?x=y", "//evil", `/dashboard/\..\x`, "/dashboard/%2f%2fevil", "/dashboard/#//x"} {
		f.Add(seed)
	}
	base, _ := url.Parse("https://purser.example.com/dashboard/callback")
	f.Fuzz(func(t *testing.T, asked string) {
		got := session.Back(asked)
		if session.Back(got) != got {
			t.Errorf("%q: %q is not one itself", asked, got)
		}
		// Browsers read a backslash as a slash, and drop control characters.
		for _, seen := range []string{got, strings.ReplaceAll(got, `\`, "/"), strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, got)} {
			u, err := base.Parse(seen)
			if err != nil || u.Host != base.Host || u.Scheme != "https" || !strings.HasPrefix(u.Path, session.Home) {
				t.Errorf("%q: %q leads to %v, %v", asked, got, u, err)
			}
		}
	})
}
