package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// A page in a browser reads and changes nothing through the admin endpoint, also when that
// listens on TCP, and on all addresses.
func TestPagesDoNotReachAdmin(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "0.0.0.0", ""} {
		s := newSite(t)
		s.app = "admin_over_tcp on"
		port := freePort(t)
		mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", fmt.Sprintf("admin %s:%d", host, port)))
		call := func(method, path, name string, header ...string) int {
			t.Helper()
			body := ""
			if method != http.MethodGet {
				body = "{}"
			}
			r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = strings.ReplaceAll(name, "PORT", fmt.Sprint(port))
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], strings.ReplaceAll(header[i+1], "PORT", fmt.Sprint(port)))
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}
		own := "127.0.0.1:PORT"
		for _, c := range []struct {
			what   string
			code   int
			method string
			path   string
			name   string
			header []string
		}{
			{"the command", 200, "GET", "/purser/keys", own, nil},
			{"the command by name", 200, "GET", "/purser/keys", "localhost:PORT", nil},
			{"another name for this address", 403, "GET", "/purser/keys", "evil.example:PORT", nil},
			{"another name without a port", 403, "GET", "/purser/payments", "evil.example", nil},
			{"another name that begins like ours", 403, "GET", "/purser/status", "127.0.0.1.evil.example:PORT", nil},
			{"another name, to change something", 403, "POST", "/purser/exec", "evil.example:PORT", []string{"Content-Type", "application/json"}},
			{"another origin", 403, "POST", "/purser/exec", own, []string{"Content-Type", "application/json", "Origin", "https://evil.example"}},
			{"another origin, reading", 403, "GET", "/purser/keys", own, []string{"Origin", "https://evil.example"}},
			{"a form", 415, "POST", "/purser/exec", own, []string{"Content-Type", "text/plain"}},
			{"a form without a type", 415, "POST", "/purser/exec", own, nil},
			{"an image", 400, "GET", "/purser/keys", own, []string{"Sec-Fetch-Mode", "no-cors"}},
			{"a page without an origin", 403, "GET", "/purser/keys", own, []string{"Sec-Fetch-Mode", "cors"}},
		} {
			if code := call(c.method, c.path, c.name, c.header...); code != c.code {
				t.Errorf("admin on %q, %s: %d, want %d", host, c.what, code, c.code)
			}
		}
		if host == "" {
			t.Setenv(adminapi.AddressVariable, "purser.internal.example:2019")
			if code := call("GET", "/purser/keys", "purser.internal.example:PORT"); code != 200 {
				t.Errorf("its own name: %d", code)
			}
		}
	}
}
