package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
)

// The operator signs in without a provider, also across a reload. Nothing that an agent reaches makes a
// link, opens one, or learns one.
func TestDashboardLink(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_dashboard\n\t\tpurser_api"
	socket, log := adminSite(t, s)
	adminSend(t, socket, "POST", "/purser/exec", "application/json", `{}`) // makes the exec key
	link := func() (page, secret string) {
		t.Helper()
		code, text := adminSend(t, socket, "POST", "/purser/dashboard", "application/json", `{}`)
		page, secret, ok := strings.Cut(decode[adminapi.DashboardLink](t, text).URL, "#")
		if code != 200 || !ok || page != s.url()+"/dashboard/link" {
			t.Fatalf("%d %s", code, text)
		}
		return page, secret
	}
	page, secret := link()
	if code, _ := adminSend(t, socket, "POST", "/purser/dashboard", "text/plain", `{}`); code != http.StatusUnsupportedMediaType {
		t.Errorf("as a form of another page: %d", code)
	}

	// An agent has a key, the proxy and what it reaches directly.
	key := newKey(t, s.url())
	agent := s.through(t, url.User(key))
	for name, c := range map[string]*http.Client{"directly": newBrowser(t), "through the proxy": agent} {
		// A look at the page uses nothing up, and a guess is none.
		if status, _, text := get(t, c, page); status != 200 || strings.Contains(text, secret) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		resp, err := c.PostForm(page, url.Values{"link": {strings.Repeat("A", len(secret))}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusGone || len(resp.Cookies()) > 0 {
			t.Errorf("a guess %s: %s %v", name, resp.Status, resp.Cookies())
		}
		for _, path := range []string{"/purser/dashboard", "/v1/purser/dashboard", "/dashboard/link", "/dashboard/"} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.url()+path, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Api-Key", key)
			r.Header.Set(adminapi.OperatorHeader, "root")
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 400 || strings.Contains(string(text), "/link#") {
				t.Errorf("asked for a link %s at %s: %s %s", name, path, resp.Status, text)
			}
		}
	}
	tunnel := strings.Replace(page, "http:", "https:", 1)
	if resp, err := agent.Get(tunnel); err == nil {
		resp.Body.Close()
		t.Errorf("a tunnel to purser itself: %s", resp.Status)
	}

	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// The link outlives a reload, and so does the session.
	reload := func(budget string) {
		t.Helper()
		s.app = "daily_budget " + budget
		socket, log = adminSite(t, s)
	}
	reload("2")
	operator := newBrowser(t)
	var resp *http.Response
	connected(t, func() (err error) {
		resp, err = operator.PostForm(page, url.Values{"link": {secret}})
		return err
	})
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.Request.URL.Path != "/dashboard/" {
		t.Fatalf("sign-in: %s %s", resp.Status, resp.Request.URL)
	}
	reload("3")
	if status, _, text := get(t, operator, s.url()+"/dashboard/keys"); status != 200 || !strings.Contains(text, ">exec<") || !strings.Contains(text, ">unclaimed<") {
		t.Errorf("keys: %d %s", status, text)
	}
	after, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if all := string(before) + string(after); strings.Contains(all, secret) || !strings.Contains(all, "link to the dashboard made") {
		t.Errorf("the log has a secret, or does not say that a link was made: %s", all)
	}
	if code, text := adminSend(t, socket, "DELETE", "/purser/dashboard", "application/json", ""); code != 200 || !strings.Contains(text, `"signed_out":true`) {
		t.Errorf("%d %s", code, text)
	}
	if _, _, text := get(t, operator, s.url()+"/dashboard/keys"); !strings.Contains(text, "purser dashboard") {
		t.Errorf("after all sessions have ended: %s", text)
	}

	// The public URL is the only address, and a purser without the pages has no link.
	s.app = "public_url https://purser.example.com"
	socket, _ = adminSite(t, s)
	if _, text := adminSend(t, socket, "POST", "/purser/dashboard", "application/json", `{}`); !strings.Contains(text, `"https://purser.example.com/dashboard/link#`) {
		t.Error(text)
	}
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ = adminSite(t, s)
	if code, text := adminSend(t, socket, "POST", "/purser/dashboard", "application/json", `{}`); code != 409 || !strings.Contains(text, "purser_dashboard") {
		t.Errorf("%d %s", code, text)
	}
}

// Where the admin endpoint is a TCP port, an agent does not reach it through the proxy.
func TestProxyMakesNoDashboardLink(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_dashboard\n\t\tpurser_api"
	port := freePort(t)
	mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", fmt.Sprintf("admin 127.0.0.1:%d", port)))
	resp, err := s.through(t, url.User(newKey(t, s.url()))).Post(fmt.Sprintf("http://127.0.0.1:%d/purser/dashboard", port), "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 403 || resp.Header.Get(proxy.HeaderError) != string(guard.DenyOwn) {
		t.Errorf("%s", resp.Status)
	}
}
