package caddymodule

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A `log` without the filter of the shipped Caddyfile shows neither keys nor payments, whichever
// handler of a site with a door of purser's answers, or fails. All handlers get all headers.
func TestBareLogHasNoSecrets(t *testing.T) {
	asked, proxied := make(chan http.Header, 1), make(chan http.Header, 1)
	echo := func(seen chan http.Header) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Clone()
			for _, h := range secretHeaders {
				w.Header().Set(h, secretValue(h))
			}
			w.WriteHeader(http.StatusTeapot)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	s := newSite(t)
	logged := filepath.Join(t.TempDir(), "log")
	s.global = "servers {\n\t\tlog_credentials\n\t}"
	s.route = "@key header X-Api-Key *\n\t\trespond /matched found 200\n\t\terror /fails \"no reason\" 500\n" +
		"\t\thandle /keyed {\n\t\t\trespond @key keyed 200\n\t\t}\n" +
		"\t\treverse_proxy /plain " + echo(asked) + "\n\t\treverse_proxy /paid " + echo(proxied) + " {\n\t\t\ttransport purser\n\t\t}\n\t\tpurser_proxy\n\t\tpurser_api"
	text := replaceOnce(t, s.caddyfile(), "level WARN", "output file "+logged)
	mustLoad(t, replaceOnce(t, text, "\troute {", "\tlog\n\troute {"))
	for _, path := range []string{"/v1/spend", "/fails", "/plain", "/paid", "/keyed", "/nowhere"} {
		requestWithSecrets(t, "GET", s.url()+path)
	}
	requestWithSecrets(t, "POST", s.url()+"/v1/pay")
	for _, seen := range []chan http.Header{asked, proxied} {
		h := <-seen
		for _, name := range []string{"X-Api-Key", "X-Internal-Secret", "Sign-In-With-X"} {
			if got := h.Get(name); got != secretValue(name) {
				t.Errorf("behind the site, %s is %q", name, got)
			}
		}
	}
	if code, _ := fetch(t, s.url()+"/keyed", "X-Api-Key", "k"); code != http.StatusOK {
		t.Errorf("a matcher of a header: %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for _, h := range secretHeaders {
		if resp.Header.Get(h) != secretValue(h) && h != "Proxy-Authorization" {
			t.Errorf("the client's answer lacks %s: %v", h, resp.Header)
		}
	}
	log := logAtTheEnd(t, logged)
	for _, part := range []string{"handled request", "http.log.error", "no reason", "/v1/pay", "/paid", "User-Agent"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log lacks %q, so it proves nothing: %s", part, log)
		}
	}
	for _, h := range secretHeaders {
		if i := strings.Index(log, secretValue(h)); i >= 0 {
			t.Errorf("%s is in the log: %s", h, log[max(0, i-300):i+40])
		}
	}
}

// The same holds over HTTP/2. HTTP/3 would go around it, so a site with a door does not offer it.
func TestBareLogOverTLS(t *testing.T) {
	s := newSite(t)
	logged := filepath.Join(t.TempDir(), "log")
	s.global = "local_certs\n\tskip_install_trust\n\tauto_https disable_redirects"
	text := replaceOnce(t, s.caddyfile(), "level WARN", "output file "+logged)
	text = replaceOnce(t, text, "http://:", "https://localhost:")
	mustLoad(t, replaceOnce(t, text, "\troute {", "\tlog\n\troute {"))
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of its own
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://localhost:%d/v1/spend", s.port), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", secretValue("X-Api-Key"))
	var resp *http.Response
	eventually(t, "the certificate is made", func() bool {
		resp, err = client.Do(r)
		return err == nil
	})
	_ = resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Alt-Svc") != "" {
		t.Errorf("%s %s, Alt-Svc %q", resp.Proto, resp.Status, resp.Header.Get("Alt-Svc"))
	}
	log := logAtTheEnd(t, logged)
	if !strings.Contains(log, "HTTP/2.0") || strings.Contains(log, secretValue("X-Api-Key")) {
		t.Errorf("%s", log)
	}
}

// logAtTheEnd stops Caddy, and returns what a file of its log has then.
func logAtTheEnd(t *testing.T, path string) string {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fetch gets a URL with one header.
func fetch(t *testing.T, url, name, value string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(name, value)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}
