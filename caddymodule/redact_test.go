package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// secretHeaders are sent with a value of their own, to find them in logs.
var secretHeaders = []string{
	"X-Api-Key", "X-Internal-Secret", "Payment-Signature", "X-Payment", "Proxy-Authorization", "Payment-Response", "X-Payment-Response", "Sign-In-With-X",
}

func secretValue(header string) string { return "SECRET-" + header }

// requestWithSecrets sends all of them and reads nothing.
func requestWithSecrets(t *testing.T, method, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range secretHeaders {
		r.Header.Set(h, secretValue(h))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// The shipped Caddyfile's filter keeps secrets out of the default log, of errors and of
// access logs, at every level.
func TestShippedCaddyfileRedacts(t *testing.T) {
	dir := t.TempDir()
	port, metrics := freePort(t), freePort(t)
	t.Setenv("PURSER_ADMIN", "unix/"+dir+"/admin.sock|0600")
	t.Setenv("PURSER_DATA_DIR", dir+"/data")
	t.Setenv("PURSER_PORT", fmt.Sprint(port))
	t.Setenv("PURSER_METRICS_PORT", fmt.Sprint(metrics))
	t.Setenv("PURSER_UPSTREAM_PORT", fmt.Sprint(freePort(t)))
	everything, access := filepath.Join(dir, "default.log"), filepath.Join(dir, "access.log")
	text := replaceOnce(t, shipped(t), "\tlog default {\n\t\timport redacted\n",
		"\tlog default {\n\t\timport redacted\n\t\tlevel DEBUG\n\t\toutput file "+everything+"\n")
	text = replaceOnce(t, text, "\t# log {\n\t# \timport redacted\n\t# }\n",
		"\tlog {\n\t\timport redacted\n\t\tlevel DEBUG\n\t\toutput file "+access+"\n\t}\n")
	// Something that fails behind a route, and a proxy of Caddy's own: it logs requests and
	// answers at DEBUG.
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range secretHeaders {
			w.Header().Set(h, secretValue(h))
		}
	}))
	defer echo.Close()
	text = replaceOnce(t, text, "\troute {\n\t\tpurser_proxy {", "\troute {\n\t\terror /fails \"no reason\" 500\n\t\treverse_proxy /relayed "+
		echo.Listener.Addr().String()+"\n\t\tpurser_proxy {")
	mustLoad(t, text)
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, path := range []string{"/v1/spend", "/fails", "/relayed", "/nowhere"} {
		requestWithSecrets(t, "GET", base+path)
	}
	requestWithSecrets(t, "POST", base+"/v1/pay")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	for file, must := range map[string][]string{
		everything: {"no reason", "upstream roundtrip", "/fails"}, access: {"handled request", "/v1/pay", "/relayed"},
	} {
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range must {
			if !strings.Contains(string(log), part) {
				t.Errorf("%s lacks %q, so it proves nothing: %s", filepath.Base(file), part, log)
			}
		}
		for _, h := range secretHeaders {
			if i := strings.Index(string(log), secretValue(h)); i >= 0 {
				t.Errorf("%s is in %s: %s", h, filepath.Base(file), log[max(0, i-300):i+40])
			}
		}
	}
}

// Without any filter, too, our handlers give Caddy no error to log headers with.
func TestErrorsBehindTheProxyAreAnswered(t *testing.T) {
	s := newSite(t)
	logged := filepath.Join(t.TempDir(), "log")
	s.route = "purser_proxy\n\t\terror \"broken on purpose\" 502\n\t\tpurser_api"
	mustLoad(t, replaceOnce(t, s.caddyfile(), "level WARN", "level DEBUG\n\t\toutput file "+logged))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", secretValue("X-Api-Key"))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
	log := logAtTheEnd(t, logged)
	if !strings.Contains(log, "broken on purpose") || strings.Contains(log, secretValue("X-Api-Key")) {
		t.Errorf("%s", log)
	}
}

func replaceOnce(t *testing.T, text, old, replacement string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q occurs %d times in %s", old, n, text)
	}
	return strings.Replace(text, old, replacement, 1)
}
