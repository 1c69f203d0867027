package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// One click from the printed address leads to a chart of the payments, the key, and its funded
// wallet. It works again with later sandboxes on the same data.
func TestDashboard(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for run := 1; run <= 2; run++ {
		p := launch(t, nil, "-json", "-port", "0", "-data", data)
		a := p.about(t)
		if got := get(t, a.Proxy, a.Seller+"/weather"); got != 200 {
			t.Fatalf("paying: %d", got)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		read := func(resp *http.Response, err error) (*url.URL, string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %v %s", resp.Request.URL, resp.Status, err, text)
			}
			return resp.Request.URL, string(text)
		}
		button, page := read(c.Get(a.Dashboard))
		if !strings.Contains(page, "<button") || button.Path != "/authorize" {
			t.Fatalf("%s: %s", button, page)
		}
		at, overview := read(c.PostForm(button.String(), url.Values{"answer": {"yes"}}))
		if at.String() != a.Dashboard || !strings.Contains(overview, "<svg") || !strings.Contains(overview, "0.01") {
			t.Errorf("%s: %s", at, overview)
		}
		if _, keys := read(c.Get(a.Dashboard + "keys")); strings.Count(keys, ">sandbox<") == 0 {
			t.Errorf("run %d: the key is not there: %s", run, keys)
		}
		if _, wallets := read(c.Get(a.Dashboard + "wallets")); !strings.Contains(wallets, a.Wallet[:8]+"…") { // pages abbreviate addresses
			t.Errorf("run %d: the wallet is not there: %s", run, wallets)
		}
		p.signal(t, terminate)
		p.exits(t, 0)
	}
}
