package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/sandbox/identity"
)

// newProvider starts an identity provider that knows one user.
func newProvider(t *testing.T) (p *identity.Provider, issuer string) {
	t.Helper()
	p, err := identity.New(identity.Options{ClientID: "purser", ClientSecret: "provider-secret"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.At(server.URL)
	return p, server.URL
}

// newBrowser makes one that keeps cookies and follows redirects.
func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
}

// press opens a page, presses the provider's button if it is shown, and returns what the browser sees then.
func press(t *testing.T, c *http.Client, page string) (status int, at *url.URL, text string) {
	t.Helper()
	var resp *http.Response
	connected(t, func() (err error) {
		resp, err = c.Get(page)
		return err
	})
	var err error
	if resp.Request.URL.Path == "/authorize" {
		resp.Body.Close()
		resp, err = c.PostForm(resp.Request.URL.String(), url.Values{"answer": {"yes"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL, string(body)
}

// People sign in, a reload does not sign them out or stop those who are at it, and the rest of the site is what it was.
func TestDashboard(t *testing.T) {
	_, issuer := newProvider(t)
	s := newSite(t)
	t.Setenv("PURSER_TEST_OIDC_SECRET", "provider-secret")
	s.app = fmt.Sprintf("oidc_issuer %s\n\t\toidc_client_id purser\n\t\toidc_client_secret {env.PURSER_TEST_OIDC_SECRET}\n"+
		"\t\tplan free {\n\t\t\tkeys 2\n\t\t}", issuer)
	s.route = "purser_proxy\n\t\tpurser_dashboard\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())

	ada, other := newBrowser(t), newBrowser(t)
	if _, at, text := press(t, ada, s.url()+"/dashboard"); at.String() != s.url()+"/dashboard/" || !strings.Contains(text, "user@purser.test") {
		t.Fatalf("%s: %s", at, text)
	}
	begun := sentTo(t, other, s.url()+"/dashboard/keys")
	s.app += "\n\t\tmax_payment 2" // another configuration, which is loaded
	mustLoad(t, s.caddyfile())
	if status, _, text := get(t, ada, s.url()+"/dashboard/keys"); status != 200 || !strings.Contains(text, "1 of 2") {
		t.Errorf("after the reload: %d %s", status, text)
	}
	var resp *http.Response
	connected(t, func() (err error) {
		resp, err = other.PostForm(begun, url.Values{"answer": {"yes"}})
		return err
	})
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.Request.URL.Path != "/dashboard/keys" {
		t.Errorf("sign-in across a reload: %s %s", resp.Status, resp.Request.URL)
	}

	// An API key opens nothing, also in the absolute form that clients of the proxy use.
	key := newKey(t, s.url())
	proxy, _ := url.Parse(s.url())
	proxy.User = url.UserPassword(key, "task")
	agent := &http.Client{
		Transport:     &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	status, header, _ := get(t, agent, s.url()+"/dashboard/keys")
	if status != http.StatusSeeOther || header.Get("Location") != "/dashboard/sign-in?return=%2Fdashboard%2Fkeys" {
		t.Errorf("an agent: %d %v", status, header)
	}
	for path, want := range map[string]int{"/": 200, "/health": 200, "/dashboards": 404, "/v1/dashboard/": 404} {
		if status, _, text := get(t, http.DefaultClient, s.url()+path); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, text := get(t, http.DefaultClient, strings.Replace(s.url(), "127.0.0.1", "localhost", 1)+"/dashboard/assets/none"); status != 404 {
		t.Errorf("asset: %d %s", status, text)
	}
}

// sentTo returns the provider's page that a visitor is sent to.
func sentTo(t *testing.T, c *http.Client, page string) string {
	t.Helper()
	resp, err := c.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Request.URL.String()
}

// Without configuration the dashboard explains itself, and what is configured by halves does not start.
func TestDashboardNotSetUp(t *testing.T) {
	s := newSite(t)
	s.route = "purser_dashboard\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())
	status, _, text := get(t, http.DefaultClient, s.url()+"/dashboard")
	for _, want := range []string{"PURSER_OIDC_ISSUER", "PURSER_OIDC_CLIENT_ID", s.url() + "/dashboard/callback"} {
		if status != 200 || !strings.Contains(text, want) {
			t.Errorf("%d, no %s in %s", status, want, text)
		}
	}
}
