package caddymodule

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
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

// told is what a command prints; it must succeed.
func told(t *testing.T, socket string, args ...string) string {
	t.Helper()
	o := command(t, []string{"PURSER_ADMIN=unix/" + socket}, args...)
	if o.status() != 0 {
		t.Fatalf("%v: %s, %s%s", args, o.state, o.stdout, o.stderr)
	}
	return o.stdout
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
		o := command(t, []string{"PURSER_ADMIN=unix/" + socket}, strings.Fields(c.args)...)
		if o.status() != 1 || !strings.Contains(o.stderr, c.want) || o.stdout != "" {
			t.Errorf("%.60s: %s, %q, %q", c.args, o.state, o.stdout, o.stderr)
		}
	}
}

// An RPC that does not answer keeps nobody waiting.
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

// siteURL is where the running site is.
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
		o := command(t, []string{"PURSER_ADMIN=unix/" + socket}, append([]string{"spend"}, strings.Fields(c.args)...)...)
		if o.status() != 1 || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: %s, %q", c.args, o.state, o.stderr)
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

// A list of many pages is printed whole, and one that goes in circles is not followed.
func TestListingPages(t *testing.T) {
	t.Parallel()
	last := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := len(r.URL.Query().Get("after"))
		next := fmt.Sprintf(`,"next":%q`, strings.Repeat("x", min(n+1, 5)))
		if n == last {
			next = ""
		}
		fmt.Fprintf(w, `{"things":[{"n":%d},{"n":%d}]%s}`, 2*n, 2*n+1, next)
	}))
	defer server.Close()
	client, err := newAdminClient(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c := new(cobra.Command)
	c.SetContext(t.Context())
	c.SetErr(io.Discard)
	type thing struct{ N int }
	l := listing[thing]{
		path: "/things", page: 2, name: "things", cursor: "after", heads: []string{"N"}, fields: []string{"n"},
		cells: func(v thing) []string { return []string{fmt.Sprint(v.N)} }, values: func(v thing) []string { return []string{fmt.Sprint(v.N)} },
	}
	for form, want := range map[int]string{
		asTable: "N\n0\n1\n2\n3\n4\n5\n6\n7\n",
		asCSV:   "n\n0\n1\n2\n3\n4\n5\n6\n7\n",
		asJSON:  `{"things":[{"n":0},{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6},{"n":7}],"more":1}`,
	} {
		l.ask = url.Values{}
		var b strings.Builder
		c.SetOut(&b)
		if err := l.print(c, client, form, func() map[string]any { return map[string]any{"more": 1} }); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if form == asJSON {
			var whole any
			if err := json.Unmarshal([]byte(got), &whole); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
			got = strings.NewReplacer("\n", "", " ", "").Replace(got)
		}
		if got != want {
			t.Errorf("form %d: %q", form, got)
		}
	}
	last = 99
	l.ask = url.Values{}
	c.SetOut(io.Discard)
	if err := l.print(c, client, asTable, nil); err == nil || !strings.Contains(err.Error(), "does not go on") {
		t.Errorf("a list in circles: %v", err)
	}
}

func TestReadDay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 1, 0, 0, 0, time.FixedZone("", 7200)) // the 21st in UTC
	for text, want := range map[string]string{
		"": "", "all": "", "0d": "2026-11-21", "7d": "2026-11-14", "2026-11-01": "2026-11-01",
		"-1d": "!", "d": "!", "2026-13-01": "!", "7": "!", "99999999d": "!",
	} {
		got, err := readDay(text, now)
		if (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
