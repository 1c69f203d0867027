package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
)

// Each request brings the key that pays, and its task, at both forms of the sidecar door.
func TestKeyAndTaskOfTheRequest(t *testing.T) {
	for what, door := range map[string]string{
		"transport": "reverse_proxy %s {\n\t\t\ttransport purser {\n\t\t\t\tkey {header.X-Agent}\n\t\t\t\ttask agent-{http.request.uri.path.0}\n\t\t\t}\n\t\t}",
		"upstream":  "purser_upstream {\n\t\t\tto %s\n\t\t\tkey {header.X-Agent}\n\t\t\ttask agent-{http.request.uri.path.0}\n\t\t}",
	} {
		t.Run(what, func(t *testing.T) {
			facilitator, v, s := newStandIn(t), newVendor(t), newSite(t)
			t.Setenv("PURSER_FACILITATOR_URL", facilitator.URL)
			t.Setenv("PURSER_KEY", "pk_deployment") // which pays for none of it
			logged := filepath.Join(t.TempDir(), "log")
			s.route = "handle /api-keys {\n\t\t\tpurser_api\n\t\t}\n\t\thandle /wallets {\n\t\t\tpurser_api\n\t\t}\n\t\t" + fmt.Sprintf(door, v.URL)
			text := replaceOnce(t, s.caddyfile(), "level WARN", "level DEBUG\n\t\toutput file "+logged)
			mustLoad(t, replaceOnce(t, text, "\troute {", "\tlog\n\troute {"))
			one, two := newKey(t, s.url()), newKey(t, s.url())
			ask := func(path string, headers ...string) (int, string) {
				t.Helper()
				resp, text := do(t, newRequest(t, "GET", s.url()+path, nil, headers...))
				return resp.StatusCode, resp.Header.Get(proxy.HeaderError) + " " + text
			}
			for i, key := range []string{one, "Bearer " + two} {
				if status, text := ask(fmt.Sprintf("/crawl-%d/x", i), "X-Agent", key); status != http.StatusOK {
					t.Errorf("%d %s", status, text)
				}
			}
			v.expect(2, 2, 2)
			if got := v.last.Header.Get("X-Agent"); got != "" {
				t.Errorf("the seller got %q", got)
			}
			for headers, want := range map[[2]string]int{
				{"X-Agent", ""}: 401, {"X-Other", "x"}: 401, {"X-Agent", "pk_unknown_key"}: 401, {"X-Agent", "short"}: 401, {"X-Agent", one + "," + two}: 401,
			} {
				if status, text := ask("/crawl/x", headers[0], headers[1]); status != want || !strings.HasPrefix(text, "api-key ") {
					t.Errorf("%q: %d %s", headers, status, text)
				}
			}
			if status, text := ask("/a%20b/x", "X-Agent", one); status != 400 || !strings.HasPrefix(text, "task-label ") {
				t.Errorf("a label that is none: %d %s", status, text)
			}
			v.expect(2, 2, 2)
			if status, text := ask("/", "X-Agent", one); status != http.StatusOK {
				t.Errorf("an empty label: %d %s", status, text)
			}
			v.expect(3, 3, 3)
			tenant := pooledAt(t).newestTenant()
			var tasks []string
			for _, secret := range []string{one, two} {
				key, err := tenant.payer.Resolve(t.Context(), secret)
				if err != nil {
					t.Fatal(err)
				}
				all, err := tenant.books.Payments(t.Context(), key, "", 100, "")
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range all {
					tasks = append(tasks, p.Task)
				}
			}
			if got := strings.Join(tasks, " "); got != " agent-crawl-0 agent-crawl-1" {
				t.Errorf("booked as %q", got)
			}
			all, err := os.ReadFile(logged)
			if err != nil || !strings.Contains(string(all), "handled request") || strings.Contains(string(all), one) || strings.Contains(string(all), two) {
				t.Errorf("keys in the log: %v", err)
			}
		})
	}
}

// A key that the operator's variables choose is spent by every client, so it needs a budget; in places that are logged
// no key is looked for.
func TestPlacesOfKeys(t *testing.T) {
	s := newSite(t)
	options := func(text string) string {
		s.route = "purser_upstream {\n\t\t\tto http://127.0.0.1:1\n\t\t\t" + text + "\n\t\t}"
		return s.caddyfile()
	}
	for _, good := range []string{"key {http.request.header.X-Agent}", "key {http.vars.key}", "key {http.auth.user.id}", "task a-{vars.x}-{env.HOME}"} {
		t.Setenv("HOME", "b")
		if err := validate(options(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for text, want := range map[string]string{
		"key {http.request.uri.query.key}": "a key comes from a header, a variable or a login", "key {http.request.cookie.key}": "a key comes from",
		"key {http.request.header.X}{env.HOME}": "write a reference", "key a{http.request.header.X}": "write a reference",
		"key {http.request.header.X}\nkey_file /x": "key_file is set as well", "task {http.vars.x}{env.PURSER_TEST_NOTHING}": "empty or not set",
		"key {tls.x}": "is nothing that is known",
	} {
		if err := validate(options(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	named := replaceOnce(t, options("key {http.request.header.X-Agent}"), s.route, "invoke paid")
	named = replaceOnce(t, named, "http://:", "&(paid) {\n\t"+s.route+"\n}\nhttp://:")
	if err := validate(named); err == nil || !strings.Contains(err.Error(), "in a named route") {
		t.Errorf("a named route: %v", err)
	}
	s.bind = "0.0.0.0"
	if err := load(t, options("key {http.vars.key}")); err == nil || !strings.Contains(err.Error(), "would spend with key {http.vars.key}") {
		t.Errorf("without a budget: %v", err)
	}
	mustLoad(t, options("key {http.request.header.X-Agent}"))
}
