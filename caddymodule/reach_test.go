package caddymodule

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// upstreamProxy takes CONNECT to any name, and leads it to one address.
func upstreamProxy(t *testing.T, to string) (proxyURL string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		if r.Method != http.MethodConnect || user != "corp" || password != "hunter2" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		asked.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		up, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, conn); _ = up.Close() }()
		_, _ = io.Copy(conn, up)
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "//", "//corp:hunter2@", 1), asked
}

// A seller behind a company's proxy is paid, over https and over http, although purser cannot look its name up.
func TestUpstreamProxy(t *testing.T) {
	seller, trust := tlsSeller(t)
	plain := newSeller(t)
	_, plainPort, _ := net.SplitHostPort(plain.Listener.Addr().String())
	s := intercepting(t, trust, "via off")
	s.route = strings.Replace(s.route, "resolve example.com 127.0.0.1", "upstream_proxy {env.CORPORATE_PROXY}", 1)
	buy := func(target *httptest.Server, address string) {
		t.Helper()
		proxyURL, asked := upstreamProxy(t, target.Listener.Addr().String())
		t.Setenv("CORPORATE_PROXY", proxyURL)
		mustLoad(t, s.caddyfile())
		key := newKey(t, s.url())
		_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
		client := trusting(t, s.through(t, url.UserPassword(key, "t")), []byte(root))
		status, header, text := get(t, client, address)
		if status != 200 || header.Get("Purser-Payment") == "" || asked.Load() == 0 || header.Get("Via") != "" {
			t.Errorf("%s: %d %v %s, and the proxy was asked %d times", address, status, header, text, asked.Load())
		}
	}
	buy(seller, httpsURL(seller))
	// That the company's proxy is on loopback says nothing about who answers.
	proxyURL, _ := upstreamProxy(t, plain.Listener.Addr().String())
	t.Setenv("CORPORATE_PROXY", proxyURL)
	mustLoad(t, s.caddyfile())
	client := s.through(t, url.UserPassword(newKey(t, s.url()), "t"))
	if status, header, text := get(t, client, "http://example.com:"+plainPort+"/x"); status != 402 || header.Get("Purser-Declined") == "" {
		t.Errorf("plain http: %d %v %s", status, header, text)
	}
	s.route = strings.Replace(s.route, "via off", "via off\n\t\t\tallow_http example.com:"+plainPort, 1)
	buy(plain, "http://example.com:"+plainPort+"/x")

	s.route = strings.Replace(s.route, "{env.CORPORATE_PROXY}", "http://corp:hunter2@127.0.0.1:1", 1)
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_UPSTREAM_PROXY") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password in the configuration: %v", err)
	}
}

// Hosts outside the lists of reach are refused before anything is asked or paid. In report mode they are not.
func TestReachLists(t *testing.T) {
	seller, trust := tlsSeller(t)
	for more, reached := range map[string]bool{
		"deny_hosts example.com": false, "allow_hosts other.example": false, "allow_hosts *.example.com,other.example": false,
		"allow_hosts example.com": true, "allow_hosts other.example\n\t\t\treport_only on": true,
	} {
		s := intercepting(t, trust, more)
		mustLoad(t, s.caddyfile())
		_, _, root := get(t, http.DefaultClient, s.url()+rootPath)
		client := trusting(t, s.through(t, url.UserPassword(newKey(t, s.url()), "t")), []byte(root))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, httpsURL(seller), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if reached != (err == nil && resp.StatusCode == 200) || !reached && (err == nil || !strings.Contains(err.Error(), "Forbidden")) {
			t.Errorf("%s: %v, %v", more, resp, err)
		}
	}
}

// Clients reach sites of the same Caddy if an option says so, and neither purser's doors nor the admin endpoint in any case.
func TestSitesOfTheSameCaddy(t *testing.T) {
	s := newSite(t)
	plain, doors, admin := freePort(t), freePort(t), freePort(t)
	for _, on := range []bool{false, true} {
		s.app, s.route = "admin_over_tcp on", "purser_proxy\n\t\tpurser_api"
		if on {
			s.route = "purser_proxy {\n\t\t\town_sites on\n\t\t}\n\t\tpurser_api"
		}
		text := replaceOnce(t, s.caddyfile(), "admin off", fmt.Sprintf("admin 127.0.0.1:%d", admin)) +
			fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\trespond plain\n}\nhttp://:%d {\n\tbind 127.0.0.1\n\troute {\n\t\tpurser_api\n\t}\n}\n", plain, doors)
		mustLoad(t, text)
		c := s.through(t, url.User(newKey(t, s.url())))
		for port, reached := range map[int]bool{plain: on, doors: false, admin: false} {
			resp, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/health", port)) //nolint:noctx // of this test
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if got := resp.StatusCode == http.StatusOK && string(body) == "plain"; err != nil || got != reached || !reached && resp.StatusCode != http.StatusForbidden {
				t.Errorf("own sites %t: %d of %v: %s %s, %v", on, port, map[string]int{"plain": plain, "doors": doors, "admin": admin}, resp.Status, body, err)
			}
		}
	}
}

// A client that may choose HTTP/2 chooses HTTP/1.1, which CONNECT needs here.
func TestProxyOverTLSOffersHTTP1(t *testing.T) {
	s := newSite(t)
	t.Setenv("PURSER_FACILITATOR_URL", newStandIn(t).URL)
	s.global = "skip_install_trust" // not into the machine's store
	s.route = "purser_proxy\n\t\tpurser_api"
	text := strings.Replace(s.caddyfile(), "http://:"+strconv.Itoa(s.port)+" {", "https://:"+strconv.Itoa(s.port)+" {\n\ttls internal {\n\t\ton_demand\n\t}", 1)
	mustLoad(t, text)
	connected(t, func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url(), "http://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // the certificate is not the subject
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("%q", got)
		}
		return nil
	})
}

// The file for browsers and systems names the proxy as its client does.
func TestPAC(t *testing.T) {
	s := newSite(t)
	t.Setenv("PURSER_FACILITATOR_URL", newStandIn(t).URL)
	s.route = "purser_proxy\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())
	status, header, text := get(t, http.DefaultClient, s.url()+"/proxy.pac")
	if status != 200 || header.Get("Content-Type") != "application/x-ns-proxy-autoconfig" ||
		!strings.Contains(text, `return "PROXY `+strings.TrimPrefix(s.url(), "http://")+`";`) {
		t.Errorf("%d %v %s", status, header, text)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/proxy.pac", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = `a";alert(1);"`
	if resp, err := http.DefaultClient.Do(r); err == nil {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 400 || strings.Contains(string(text), "alert") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	}
}
