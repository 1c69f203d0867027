package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// TestStrangers asks a purser process for its pages without a session, with one that was made up, and from another site.
// Packages dashboard and dashboard/session test each page, method and cookie.
func TestStrangers(t *testing.T) {
	h := newHouse(t)
	ada := h.signIn("ada")
	id, secret := ada.newKey("mine")
	session := ada.cookie(t)
	ask := func(method, path string, header ...string) process.Answer {
		t.Helper()
		by := process.Client(nil, nil)
		by.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		got, err := process.Ask(t.Context(), by, method, h.url(path), "", header...)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, cookie := range []string{"", "purser=" + strings.Repeat("A", len(session)), "__Host-purser=" + session} {
		// Some of these paths are cleaned first.
		for _, path := range []string{
			"/dashboard", "/dashboard/", "/dashboard/keys/" + id, "/dashboard/spend.csv", "/dashboard//keys", "/dashboard/keys/../settings",
			"/dashboard/%6beys", "/dashboard/assets/../keys", "/dashboard/keys/%2e%2e/settings",
		} {
			got := ask("GET", path, "Cookie", cookie)
			to := got.Header.Get("Location")
			if got.Status/100 != 3 || !strings.HasPrefix(to, "/dashboard") || strings.HasPrefix(to, "//") {
				t.Errorf("%q: %s gets a %d to %q", cookie, path, got.Status, to)
			}
		}
		if got := ask("POST", "/dashboard/keys/"+id+"/reveal", "Cookie", cookie); !strings.HasPrefix(got.Header.Get("Location"), "/dashboard/sign-in") {
			t.Errorf("%q: a POST gets a %d", cookie, got.Status)
		}
	}
	if got := ask("POST", "/dashboard/keys/"+id+"/revoke", "Origin", "https://evil.example", "Cookie", "purser="+session); got.Status != http.StatusForbidden {
		t.Errorf("another site's POST gets a %d", got.Status)
	}
	if p := ada.get("/dashboard/keys/" + id); p.status != http.StatusOK || !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s: %v", p, p.header)
	}
	if said := h.purser.Output.String(); strings.Contains(said, secret) || strings.Contains(said, session) {
		t.Error("a key or a session is in the log")
	}
}

// cookie is the value of a visitor's session cookie.
func (v *visitor) cookie(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(v.house.url("/dashboard/"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == "purser" {
			return c.Value
		}
	}
	t.Fatal("no session cookie")
	return ""
}
