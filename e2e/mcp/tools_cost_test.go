package mcp

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mcpshop"
)

// An operator sees which tools cost what, and which tool a decline was for, in commands and on the dashboard.
func TestWhichToolsCostWhat(t *testing.T) {
	t.Parallel()
	a := newAgent(t, env.sharedPurser(t))
	_, shop := openShop(t, mcpshop.Options{Sessions: true})
	at := named(t, shop)
	c, city := connect(t, a.proxied(), at), newCity()
	for range 2 {
		if got := c.ask(t, "tools/call", forCity(city)); !strings.Contains(got.Body, "sunny in "+city) {
			t.Fatalf("%+v", got)
		}
	}
	a.requireBooks(t, env.Money.PayTo, 2)
	tool := "mcp://" + strings.TrimPrefix(at, "http://") + "/tool/" + mcpshop.Tool
	key := t.Name()
	if rows := strings.Fields(a.Must(t, "spend", "--by", "tool", "--key", key, "--csv")); len(rows) != 2 || !strings.HasPrefix(rows[1], tool+",,") || !strings.Contains(rows[1], ",2,1.0000,0,0") {
		t.Errorf("%q", rows)
	}
	a.Must(t, "keys", "pause", key)
	if got := c.ask(t, "tools/call", forCity(newCity())); !strings.Contains(got.Body, "purser did not pay") {
		t.Fatalf("%+v", got)
	}
	process.Eventually(t, 20*time.Second, func() string {
		if out := a.Must(t, "declined", "--host", tool, "--key", key); !strings.Contains(out, tool) {
			return out
		}
		return ""
	})

	by := operatorOf(t, a.Purser)
	of := url.Values{"host": {tool}}.Encode()
	for path, want := range map[string]string{
		"/dashboard/spend?by=tool&" + of: `">` + tool + `</a>`,
		"/dashboard/payments?" + of:      "<strong>2 payments</strong>",
		"/dashboard/declined?" + of:      "<strong>1 request</strong>",
	} {
		if got, err := process.Ask(t.Context(), by, "GET", a.URL(path), ""); err != nil || got.Status != http.StatusOK || !strings.Contains(got.Body, want) {
			t.Errorf("%s: %v, %d, no %q in %s", path, err, got.Status, want, got.Body)
		}
	}
}

// operatorOf signs in to the dashboard by the link that the operator's command prints.
func operatorOf(t testing.TB, p *process.Purser) *http.Client {
	t.Helper()
	var link struct{ URL string }
	if err := json.Unmarshal([]byte(p.Must(t, "dashboard", "--json")), &link); err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	by := process.Client(nil, nil)
	by.Jar = jar
	at, secret, _ := strings.Cut(link.URL, "#")
	r, err := http.NewRequestWithContext(t.Context(), "POST", at, strings.NewReader(url.Values{"link": {secret}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK || res.Request.URL.Path != "/dashboard/" {
		t.Fatalf("%d at %s", res.StatusCode, res.Request.URL.Path)
	}
	return by
}
