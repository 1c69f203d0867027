package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// madeLink asks for a link, as `purser dashboard` does.
func madeLink(t *testing.T, socket string) *url.URL {
	t.Helper()
	code, text := adminCall(t, socket, "POST", "/purser/dashboard")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	u, err := url.Parse(decode[adminapi.DashboardLink](t, text).URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// tunnel forwards connections of a port of its own, as `ssh -L` does.
func tunnel(t *testing.T, to string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			onward, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { defer onward.Close(); _, _ = io.Copy(onward, from) }()
			go func() { defer from.Close(); _, _ = io.Copy(from, onward) }()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// A link works through an SSH tunnel, also with another local port: the browser's address counts for
// Origin and cookie.
func TestALinkThroughATunnel(t *testing.T) {
	s := newSite(t)
	s.route = "purser_dashboard"
	socket, _ := adminSite(t, s)
	port := tunnel(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	for _, origin := range []string{"http://localhost:" + port, "http://127.0.0.1:" + port, s.url()} {
		link := madeLink(t, socket)
		if link.Scheme != "http" || link.Host != fmt.Sprintf("127.0.0.1:%d", s.port) {
			t.Errorf("the link is %s", link.Redacted())
		}
		c := newBrowser(t)
		post := func(from string) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/dashboard/link", strings.NewReader(url.Values{"link": {link.Fragment}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", from)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp
		}
		// Another page of this machine must not press the button.
		if resp := post("http://localhost:1"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("from another port: %s", resp.Status)
		}
		if resp := post(origin); resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/dashboard/" {
			t.Errorf("%s: %s at %s", origin, resp.Status, resp.Request.URL)
		}
		if status, _, text := get(t, c, origin+"/dashboard/settings"); status != http.StatusOK || !strings.Contains(text, "Operator: sees and changes every key") {
			t.Errorf("%s: %d", origin, status)
		}
	}
}

// Without PURSER_PUBLIC_URL, the link has the scheme of the site. Certificates are for names.
// Caddy makes no certificate here, because it would still write the files when the test has ended.
func TestALinkToASiteWithTLS(t *testing.T) {
	s := newSite(t)
	s.route, s.global = "purser_dashboard", "auto_https disable_redirects disable_certs"
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+t.TempDir()+"/admin.sock|0600")
	text = replaceOnce(t, text, fmt.Sprintf("http://:%d {", s.port), fmt.Sprintf("https://localhost:%d {", s.port))
	mustLoad(t, text)
	socket, _, _ := strings.Cut(text[strings.Index(text, "admin unix/")+len("admin unix/"):], "|")
	if link := madeLink(t, socket); link.Scheme != "https" || link.Host != fmt.Sprintf("localhost:%d", s.port) {
		t.Errorf("the link is %s", link.Redacted())
	}
}

// Links go to the site that is named, where several have a dashboard.
func TestALinkToTheNamedSite(t *testing.T) {
	s := newSite(t)
	s.route = "purser_dashboard"
	s.port = freePort(t)
	other := freePort(t)
	if other < s.port {
		other, s.port = s.port, other // the lowest counts
	}
	for named, want := range map[string]int{
		"": s.port, fmt.Sprintf("127.0.0.1:%d", other): other, "second": other, fmt.Sprintf("127.0.0.1:%d", s.port): s.port,
	} {
		s.app, s.global = "", fmt.Sprintf("servers 127.0.0.1:%d {\n\t\tname second\n\t}", other)
		if named != "" {
			s.app = "site " + named
		}
		text := s.caddyfile() + fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\troute {\n\t\tpurser_dashboard\n\t}\n}\n", other)
		socket := filepath.Join(t.TempDir(), "admin.sock")
		mustLoad(t, replaceOnce(t, text, "admin off", "admin unix/"+socket+"|0600"))
		if link := madeLink(t, socket); link.Host != fmt.Sprintf("127.0.0.1:%d", want) {
			t.Errorf("with site %q the link is %s", named, link.Redacted())
		}
	}
	s.app = "site 127.0.0.1:1"
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "site (PURSER_SITE)") || !strings.Contains(err.Error(), fmt.Sprintf("127.0.0.1:%d", s.port)) {
		t.Errorf("a site without doors: %v", err)
	}
}
