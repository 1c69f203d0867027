package caddymodule

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// bookSite is a running purser whose facilitator settles everything.
func bookSite(t *testing.T) (s *site, socket string) {
	t.Helper()
	s = newSite(t)
	s.app = "facilitator http {\n\t\t\turl " + newStandIn(t).URL + "\n\t\t}"
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ = adminSite(t, s)
	return s, socket
}

// told runs a command that must succeed, and returns what it prints.
func told(t *testing.T, socket string, args ...string) string {
	t.Helper()
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, args...)
	if o.Status != 0 {
		t.Fatalf("%v: %d, %s%s", args, o.Status, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

func TestKeysAndWallets(t *testing.T) {
	_, socket := bookSite(t)
	if text := told(t, socket, "keys"); strings.TrimSpace(text) != "KEY  LABEL  STATE  ORGANIZATION  MADE  OWN LIMITS" {
		t.Errorf("%q", text)
	}
	if text := told(t, socket, "keys", "--json"); decode[adminapi.Keys](t, text).Keys == nil {
		t.Errorf("%q", text)
	}
	made := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "res\x1b[31mearch", "--daily-budget", "5", "--door", "proxy", "--json"))
	if !strings.HasPrefix(made.Key, "pk_") || made.Address == nil {
		t.Errorf("%+v", made)
	}
	text := told(t, socket, "keys", "create", "--label", "plain")
	if strings.Count(text, "pk_") != 1 || !strings.Contains(text, "it is not shown again") || !strings.Contains(text, "address  0x") {
		t.Errorf("%s", text)
	}
	text = told(t, socket, "keys")
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, "daily:5,doors:proxy") || strings.Contains(text, "pk_") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	list := decode[adminapi.Keys](t, told(t, socket, "keys", "--json", "--address", "unix/"+socket)).Keys
	if len(list) != 2 || list[0].ID != made.ID || list[0].Policy == nil || list[1].Policy != nil {
		t.Errorf("%+v", list)
	}

	told(t, socket, "wallets", "create", "--key", made.ID)
	all := decode[adminapi.Wallets](t, told(t, socket, "wallets", "--json")).Wallets
	own := decode[adminapi.Wallets](t, told(t, socket, "wallets", "--json", "--key", made.ID)).Wallets
	if len(all) != 3 || len(own) != 2 || own[0].Balance != nil || !strings.Contains(own[0].Unknown, "PURSER_RPC_URL") || *own[0].Address != *made.Address {
		t.Errorf("%+v, %+v", all, own)
	}
	if text := told(t, socket, "wallets", "--key", made.ID); !strings.Contains(text, *made.Address) || !strings.Contains(text, "unknown: no RPC") {
		t.Errorf("%s", text)
	}
	// Deleted ones are not shown, whether or not the page has room for others.
	mustCall(t, 204, "DELETE", siteURL(t, socket)+"/wallets/"+own[0].ID, made.Key, "")
	if left := decode[adminapi.Wallets](t, told(t, socket, "wallets", "--json")).Wallets; len(left) != 3 || left[0].ID == own[0].ID { // one is of the exec key
		t.Errorf("%+v", left)
	}
	code, text := adminCall(t, socket, "GET", "/purser/wallets?limit=1")
	first := decode[adminapi.Wallets](t, text)
	if code != 200 || first.Next != own[0].ID || len(first.Wallets) != 0 {
		t.Errorf("%d %s", code, text)
	}

	for _, c := range []struct{ want, args string }{
		{"no key has the id", "wallets --key nobody"},
		{"whose wallet?", "wallets create"},
		{"not one that this purser pays on", "wallets create --key " + made.ID + " --network moon"},
		{"no key has the id", "wallets create --key nobody"},
		{"not one that this purser pays on", "keys create --network moon"},
		{"--daily-budget", "keys create --daily-budget lots"},
		{"200 characters", "keys create --label " + strings.Repeat("x", 201)},
		{"no answer from purser's admin endpoint", "keys --admin unix//nowhere.sock"},
	} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, strings.Fields(c.args)...)
		if o.Status != 1 || !strings.Contains(o.Stderr, c.want) || o.Stdout != "" {
			t.Errorf("%.60s: %d, %q, %q", c.args, o.Status, o.Stdout, o.Stderr)
		}
	}
}

// An RPC that does not answer does not keep a list waiting.
func TestWalletsWithoutAnswer(t *testing.T) {
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hang.Close()
	s := newSite(t)
	s.app = "rpc_url " + hang.URL + "/s3cret"
	socket, _ := adminSite(t, s)
	for range 3 {
		newKey(t, s.url())
	}
	var text string
	for tries := 0; tries < 3 && strings.Count(text, "unknown: the RPC did not") != 3; tries++ { // a busy machine may spoil some
		text = told(t, socket, "wallets")
	}
	if strings.Count(text, "unknown: the RPC did not") != 3 || strings.Contains(text, "s3cret") {
		t.Errorf("%s", text)
	}
}

// siteURL returns the URL of the running site.
func siteURL(t *testing.T, socket string) string {
	t.Helper()
	_, text := adminCall(t, socket, "POST", "/purser/exec")
	return decode[adminapi.Exec](t, text).Proxy
}

func TestSpendCommand(t *testing.T) {
	s, socket := bookSite(t)
	one, two := newKey(t, s.url()), newKey(t, s.url())
	for i, key := range []string{one, two, one} {
		mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(1000*(i+1), fmt.Sprintf("https://api%d.example.com/x?token=t0ken", i)))
	}
	keys := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys

	text := told(t, socket, "spend")
	if strings.Count(text, "\n") != 5 || !strings.Contains(text, "3 events, 0.006 USDC since ") || strings.Contains(text, "t0ken") ||
		strings.Index(text, "0.003") > strings.Index(text, "0.002") {
		t.Errorf("%s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(told(t, socket, "spend", "--csv", "--since", "all"))).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][1] != "amount" || rows[1][1] != "0.003" || rows[3][7] != "https://api0.example.com/x" ||
		!strings.HasPrefix(rows[1][10], "0x") {
		t.Errorf("%v, %q", err, rows)
	}
	type spent struct {
		Spend []adminapi.SpendEvent `json:"spend"`
		Count int                   `json:"count"`
		Total string                `json:"total"`
	}
	for args, want := range map[string]int{
		"--since 7d": 3, "--since 0d": 3, "--since 2020-01-01 --until 2020-02-01": 0, "--key " + keys[0].ID: 2, "--key " + keys[1].ID: 1,
		"--host api1.example.com": 1, "--host https://api1.example.com": 1, "--host other.example.com": 0, "--task nightly": 0,
	} {
		got := decode[spent](t, told(t, socket, append([]string{"spend", "--json"}, strings.Fields(args)...)...))
		if len(got.Spend) != want || got.Count != want || got.Spend == nil || want == 3 && got.Total != "6000" {
			t.Errorf("%s: %+v", args, got)
		}
	}

	// Page by page it is the same list.
	var ids []string
	for next := ""; ; {
		code, text := adminCall(t, socket, "GET", "/purser/spend?limit=1&before="+url.QueryEscape(next))
		page := decode[adminapi.Spend](t, text)
		if code != 200 || len(page.Spend) > 1 || len(ids) > 3 {
			t.Fatalf("%d %s", code, text)
		}
		for _, e := range page.Spend {
			ids = append(ids, e.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(ids) != 3 || ids[0] != rows[1][13] || ids[2] != rows[3][13] {
		t.Errorf("%v", ids)
	}

	for _, c := range []struct{ want, args string }{
		{"--since", "--since yesterday"},
		{"--until", "--until -3d"},
		{"not both", "--json --csv"},
		{"no key has the id", "--key nobody"},
		{"1 to 64 characters", "--task a/b"},
	} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, append([]string{"spend"}, strings.Fields(c.args)...)...)
		if o.Status != 1 || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%s: %d, %q", c.args, o.Status, o.Stderr)
		}
	}
	for path, want := range map[string]int{
		"limit=0": 400, "limit=501": 400, "since=1": 400, "before=x": 400, "before=" + url.QueryEscape(".nothing"): 404, "key=" + keys[0].ID + "&before=x": 404,
	} {
		if code, text := adminCall(t, socket, "GET", "/purser/spend?"+path); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
