package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// shippedSidecar prepares the shipped Caddyfile and returns where its sidecar door is.
func shippedSidecar(t *testing.T) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	for name, value := range map[string]string{
		"PURSER_ADMIN": "off", "PURSER_DATA_DIR": dir + "/data", "PURSER_PORT": fmt.Sprint(freePort(t)),
		"PURSER_METRICS_PORT": fmt.Sprint(freePort(t)), "PURSER_UPSTREAM_PORT": fmt.Sprint(port),
	} {
		t.Setenv(name, value)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

func TestShippedSidecarWithoutUpstream(t *testing.T) {
	for _, set := range []bool{false, true} {
		url := shippedSidecar(t)
		if set {
			t.Setenv("PURSER_UPSTREAM", "")
		}
		mustLoad(t, shipped(t))
		resp, body := do(t, newRequest(t, "GET", url+"/x", nil))
		var answer map[string]string
		if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusServiceUnavailable ||
			!strings.Contains(answer["error"], "PURSER_UPSTREAM") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		_ = caddy.Stop()
	}
	t.Run("on all addresses", func(t *testing.T) { // a door that cannot spend needs no budget
		shippedSidecar(t)
		t.Setenv("PURSER_UPSTREAM_BIND", "0.0.0.0")
		mustLoad(t, shipped(t))
	})
}

func TestShippedSidecarOnAllAddresses(t *testing.T) {
	v := newVendor(t)
	shippedSidecar(t)
	t.Setenv("PURSER_UPSTREAM", v.URL)
	t.Setenv("PURSER_UPSTREAM_BIND", "0.0.0.0")
	if err := load(t, shipped(t)); err == nil || !strings.Contains(err.Error(), "PURSER_DAILY_BUDGET") {
		t.Error(err)
	}
	t.Setenv("PURSER_MONTHLY_BUDGET", "20")
	mustLoad(t, shipped(t))
}

func TestUpstreamRefuses(t *testing.T) {
	own := freePort(t)
	for name, to := range map[string]string{
		"no scheme": "api.example.com", "another scheme": "ftp://api.example.com", "no host": "https://", "a path only": "/x",
		"not a URL": "https://[::1", "credentials": "https://user:secret@api.example.com", "query": "https://api.example.com/?a=b",
		"fragment": "https://api.example.com/#a", "placeholder": "https://{http.request.host}", "itself": fmt.Sprintf("http://127.0.0.1:%d", own),
		"itself by name": fmt.Sprintf("http://localhost:%d/", own),
	} {
		t.Setenv("PURSER_UPSTREAM", to)
		s := newSite(t)
		s.port = own
		s.route = "purser_upstream"
		err := load(t, s.caddyfile())
		if err == nil || !strings.Contains(err.Error(), "PURSER_UPSTREAM") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("TLS options for a plain URL", func(t *testing.T) {
		s := newSite(t)
		s.route = "purser_upstream {\nto http://api.example.com\nhttp {\ntls\n}\n}"
		if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Error(err)
		}
	})
}

// The upstream sees its own name, its own paths as they were asked for, and nothing of this
// machine.
func TestUpstreamRequests(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, r *http.Request, n int) {
		v.receipt(w, n)
		for name := range r.Header {
			if name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Purser-") {
				t.Errorf("%s: %s", name, r.Header.Get(name))
			}
		}
		_, _ = io.WriteString(w, r.Host+" "+r.RequestURI)
	})
	host := v.Listener.Addr().String()
	for _, c := range []struct{ base, path, want string }{
		{"", "/", "/"},
		{"", "/a//b/../c%2Fd?x=%zz", "/a//b/../c%2Fd?x=%zz"},
		{"/", "/a", "/a"},
		{"/v1/", "/", "/v1/"},
		{"/v1", "/a%2Fb?q", "/v1/a%2Fb?q"},
		{"/v%2F1/", "/a", "/v%2F1/a"},
	} {
		s := newSite(t)
		s.route = "purser_upstream {\nto " + v.URL + c.base + "\n}"
		mustLoad(t, s.caddyfile())
		r := newRequest(t, "GET", s.url(), nil, "X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1", "X-Real-Ip", "192.0.2.1",
			"Purser-Payment", "x")
		r.URL.Opaque = c.path
		if resp, body := do(t, r); resp.StatusCode != 200 || body != host+" "+c.want {
			t.Errorf("%s%s: %d %s", c.base, c.path, resp.StatusCode, body)
		}
	}
}

// A client may reach the sidecar by several names, or several sidecars of one database. Its repeat of a request whose
// answer was lost is the same purchase.
func TestUpstreamRepeatByAnotherName(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		v.receipt(w, n)
		w.Header().Set("Content-Length", "1000")
		_ = http.NewResponseController(w).Flush()
		proxytest.HangUp(w)
	})
	s := newSite(t)
	s.route = "purser_upstream {\nto " + v.URL + "\n}"
	mustLoad(t, s.caddyfile())
	resp, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Fatalf("a whole answer: %s", text)
	}
	_ = resp.Body.Close()
	v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, "all of it") })
	r := newRequest(t, "GET", s.url()+"/x", nil)
	r.Host = "localhost:8406"
	again, body := do(t, r)
	if first := resp.Header.Get(proxy.HeaderPayment); body != "all of it" || first == "" || again.Header.Get(proxy.HeaderPayment) != first {
		t.Errorf("%s %v", body, again.Header)
	}
}

// It is one API and no proxy.
func TestUpstreamIsNoProxy(t *testing.T) {
	v := newVendor(t)
	s := newSite(t)
	s.route = "purser_upstream {\nto " + v.URL + "\n}"
	mustLoad(t, s.caddyfile())
	for _, line := range []string{"GET http://evil.example/ HTTP/1.1", "GET https://evil.example/ HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\nHost: evil.example\r\nConnection: close\r\n\r\n", line)
		text, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
			t.Errorf("%s: %s, %v", line, text, err)
		}
		_ = conn.Close()
	}
	v.expect(0, 0, 0)
}

// Errors are answered in JSON, and none is handed to Caddy, which would log headers.
func TestUpstreamErrors(t *testing.T) {
	v := newVendor(t)
	s := newSite(t)
	s.route = "purser_upstream {\nto " + v.URL + "\n}"
	logged := filepath.Join(t.TempDir(), "log")
	mustLoad(t, replaceOnce(t, s.caddyfile(), "level WARN", "level INFO\n\t\toutput file "+logged))
	ask := func() (*http.Response, map[string]any) {
		t.Helper()
		resp, body := do(t, newRequest(t, "GET", s.url()+"/x", nil, "X-Api-Key", secretValue("X-Api-Key")))
		var answer map[string]any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return resp, answer
	}
	v.delivers(func(w http.ResponseWriter, _ *http.Request, _ int) { proxytest.HangUp(w) })
	resp, answer := ask()
	payment, _ := answer["payment"].(map[string]any)
	if resp.StatusCode != http.StatusBadGateway || answer["reason"] != "payment-open" || payment["state"] != "open" ||
		resp.Header.Get(proxy.HeaderPayment) != payment["id"] {
		t.Errorf("%d %v %v", resp.StatusCode, resp.Header, answer)
	}
	ask()
	if _, _, distinct := v.counts(); distinct != 1 {
		t.Errorf("%d payments", distinct)
	}
	v.Close()
	if resp, answer := ask(); resp.StatusCode != http.StatusBadGateway || answer["reason"] != "upstream-unreachable" {
		t.Errorf("%d %v", resp.StatusCode, answer)
	}
	log := logAtTheEnd(t, logged)
	if !strings.Contains(log, "payment-open") || strings.Contains(log, secretValue("X-Api-Key")) {
		t.Errorf("%s", log)
	}
}

// JSON may leave out, or null, what the Caddyfile always writes.
func TestUpstreamInJSON(t *testing.T) {
	v := newVendor(t)
	s := newSite(t)
	s.route = "purser_upstream {\nto " + v.URL + "\ntask t\n}"
	config, err := adapt(s.caddyfile())
	if err != nil {
		t.Fatal(err)
	}
	text := replaceOnce(t, string(config), `"http":{}`, `"http":null`)
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := caddy.Load([]byte(text), true); err != nil {
		t.Fatal(err)
	}
	if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}
