package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/purserpay/purser/sandbox/identity"
)

// hasSession reports whether a browser keeps a session for the dashboard.
func hasSession(t *testing.T, c *http.Client, page string) bool {
	t.Helper()
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range c.Jar.Cookies(u) {
		if cookie.Name == "purser" && cookie.Value != "" && cookie.Value != "out" {
			return true
		}
	}
	return false
}

// PURSER_OIDC_ALLOW keeps out whom the provider knows and the operator does not, and a reload with another list ends
// sessions at their next request.
func TestSignInIsForThoseOfTheList(t *testing.T) {
	provider, issuer := newProvider(t)
	s := newSite(t)
	t.Setenv("PURSER_TEST_OIDC_SECRET", "provider-secret")
	t.Setenv("PURSER_OIDC_ALLOW", "@example.org, group:payments")
	s.app = fmt.Sprintf("oidc_issuer %s\n\t\toidc_client_id purser\n\t\toidc_client_secret {env.PURSER_TEST_OIDC_SECRET}", issuer)
	s.route = "purser_dashboard\n\t\tpurser_api"
	home := s.url() + "/dashboard/"
	socket, log := adminSite(t, s)

	stranger, ada := newBrowser(t), newBrowser(t)
	status, _, text := press(t, stranger, home)
	if status != http.StatusForbidden || !strings.Contains(text, "You have no access") || strings.Contains(text, "Sign out") {
		t.Errorf("a stranger gets %d: %s", status, text)
	}
	if hasSession(t, stranger, home) {
		t.Error("a stranger has a session")
	}
	for _, list := range []string{"organizations", "keys"} {
		if code, text := adminCall(t, socket, "GET", "/purser/"+list); code != 200 || !strings.Contains(text, `"`+list+`":[]`) {
			t.Errorf("a stranger made %s: %d %s", list, code, text)
		}
	}
	if status, _, text := press(t, stranger, s.url()+"/dashboard/keys"); status != http.StatusForbidden {
		t.Errorf("the stranger's second try: %d %s", status, text)
	}

	provider.Break(identity.Faults{Claims: func(c map[string]any) { c["groups"] = []string{"cooks", "payments"} }})
	if status, _, text := press(t, ada, home); status != http.StatusOK || !strings.Contains(text, "Sign out") {
		t.Fatalf("a member of the group gets %d: %s", status, text)
	}

	t.Setenv("PURSER_OIDC_ALLOW", "alice@example.org")
	adminSite(t, s)
	if status, _, text := get(t, ada, s.url()+"/dashboard/keys"); status != http.StatusForbidden || !strings.Contains(text, "You have no access") {
		t.Errorf("a session that the new list does not have: %d %s", status, text)
	}

	t.Setenv("PURSER_OIDC_ALLOW", "")
	before, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(before), "no list of people is set, such as PURSER_OIDC_ALLOW") {
		t.Errorf("%v: with a list, the log says that there is none: %s", err, before)
	}
	_, log = adminSite(t, s)
	if after, err := os.ReadFile(log); err != nil || !strings.Contains(string(after), "no list of people is set, such as PURSER_OIDC_ALLOW") {
		t.Errorf("%v: the log does not say that everybody may sign in: %s", err, after)
	}
	if hasSession(t, ada, home) {
		t.Error("the session has outlived its end")
	}
	if status, _, _ := press(t, stranger, home); status != http.StatusOK {
		t.Errorf("without a list, the provider's user gets %d", status)
	}
}

// A list that cannot be meant is told at the start.
func TestSignInListIsChecked(t *testing.T) {
	s := newSite(t)
	s.route = "purser_dashboard"
	for list, want := range map[string]string{
		"example.com":           `write @example.com`,
		"*@example.com":         `write @example.com`,
		",":                     "nobody",
		"group:":                "group",
		"@":                     "@",
		"@ex ample.com":         "commas",
		"@a.example @b.example": "commas",
		"group:a group:b":       "commas",
		"group:a b@example.com": "commas",
		"a@b@example.com":       "a@b@example.com",
		"@m\u00fcnchen.example": "xn--",
		"@example.com, alice@":  "alice@",
		"@-example.com":         "@-example.com",
		"@example.com.":         "@example.com.",
		"@example..com":         "@example..com",
		"* @example.com":        "commas",
		"@*.example.com":        "@*.example.com",
	} {
		s.app = fmt.Sprintf("oidc_issuer https://i.example\n\t\toidc_client_id x\n\t\toidc_allow %q", list)
		if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_OIDC_ALLOW") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	t.Setenv("PURSER_TEST_NOTHING", "")
	s.app = "oidc_issuer https://i.example\n\t\toidc_client_id x\n\t\toidc_allow {env.PURSER_TEST_NOTHING}"
	if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_OIDC_ALLOW") {
		t.Errorf("a reference to nothing: %v", err)
	}
	s.app = `oidc_allow @example.com`
	if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_OIDC_ISSUER is missing") {
		t.Errorf("a list without a provider: %v", err)
	}
}
