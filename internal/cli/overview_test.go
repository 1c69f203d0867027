package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// overviewStandIn answers as the admin endpoint of a purser with an empty wallet, and a payment that an
// operator must look at.
func overviewStandIn(t *testing.T) string {
	t.Helper()
	const address = "0x62b51c917B002eFA1473d369E343FBb5Ff193F4c"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := map[string]string{
			"/purser/status": `{"ok":true,"version":"v1","pid":7,"since":"2026-11-23T00:00:00Z","store":{"kind":"bolt","path":"/p/purser.db","world":"0x1"},
				"health":{"store":"ok","facilitator":"none","rpc":"ok","rpc_2":"none","clock":"ok","network":"base","wallets":"local","signer":"none"},
				"troubles":[{"code":"wallet-empty","effect":"soon","says":"A wallet is empty: that of key poor, ` + address + ` on Base","means":"Requests of its keys that cost money are refused.","do":"Send USDC to it, on this network.","since":"2026-11-23T00:00:00Z"},
					{"code":"unresolved","effect":"look","says":"1 payment is unresolved","means":"It stays reserved.","do":"Look it up: purser payments --state unresolved."}],
				"declined_last_hour":{"daily-budget":3,"hosts":7,"a":1,"b":1,"c":1,"d":1}}`,
			"/config/": `{"apps":{"http":{"servers":{"a":{"listen":["127.0.0.1:8402"],"routes":[{"handle":[
				{"handler":"purser_proxy"},{"handler":"purser_api"},{"handler":"purser_dashboard"}]}]}}}}}`,
			"/purser/wallets": `{"wallets":[{"id":"1","key_id":"k","key_label":"rich","operator":true,"network":"base","address":"0x1","balance":"5000000","code":"a delegation to 0x2 (EIP-7702)"},
				{"id":"2","key_id":"k2","key_label":"poor","operator":true,"network":"base","address":"` + address + `","balance":"0"},
				{"id":"3","key_id":"k3","key_label":"exec","network":"base","address":"0x3","balance":"0"}]}`,
			"/purser/keys": `{"keys":[{"id":"k","label":"little","today":{"spent":"10000","left":null}},{"id":"k2","label":"much","today":{"spent":"2000000","left":"8000000"}}]}`,
			"/purser/payments": map[string]string{
				"open": `{"payments":[{"id":"0199a"},{"id":"0199b"}],"next":"0199b"}`, "unresolved": `{"payments":[{"id":"0199b"}]}`,
			}[r.URL.Query().Get("state")],
		}[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return "--admin=" + strings.TrimPrefix(s.URL, "http://")
}

func TestStatusIsOneScreen(t *testing.T) {
	t.Parallel()
	admin := overviewStandIn(t)
	o := clitest.Run(t, nil, "status", admin)
	for _, want := range []string{
		"purser         v1, up ", "proxy, REST    http://127.0.0.1:8402\n", "dashboard      http://127.0.0.1:8402/dashboard\n", "store, RPC, clock ok; no facilitator",
		"wallets        0x62b51c917B002eFA1473d369E343FBb5Ff193F4c  base  0 USDC  poor\n", "today          much spent 2 USDC, 8 left\n               little spent 0.01 USDC, no daily budget\n",
		"5 USDC, cannot pay: it has a delegation to 0x2 (EIP-7702)  rich\n",
		"more than 2: purser payments --state open", "hosts 7, daily-budget 3, a 1, b 1, c 1, and 1 other reasons in the last hour",
		"trouble        will stop payments, since ",
		"               A wallet is empty: that of key poor, 0x62b51c917B002eFA1473d369E343FBb5Ff193F4c\n               on Base. Requests of its keys that cost money are refused.\n               → Send USDC to it, on this network.\n",
		"               → Look it up: purser payments --state unresolved.\n",
	} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("%q is not in\n%s%s", want, o.Stdout, o.Stderr)
		}
	}
	if strings.Contains(o.Stdout, "to 0x3") {
		t.Errorf("a stranger's wallet is to be funded:\n%s", o.Stdout)
	}
	lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
	if o.Status != 2 || len(lines) > 24 {
		t.Errorf("%d, %d lines", o.Status, len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	var all struct {
		OK        bool
		Open      int      `json:"open_payments"`
		Do        []string `json:"do"`
		Keys      []struct{ ID, Spent string }
		Addresses struct{ Dashboard []string }
	}
	if o := clitest.Run(t, nil, "status", "--json", admin); json.Unmarshal([]byte(o.Stdout), &all) != nil || !all.OK || all.Open != 2 || len(all.Do) != 2 ||
		all.Keys[0].ID != "k2" || len(all.Addresses.Dashboard) != 1 {
		t.Errorf("%+v in %s", all, o.Stdout)
	}
	for _, enough := range []string{"--ready", "--alive"} {
		if o := clitest.Run(t, nil, "status", "--quiet", enough, admin); o.Status != 0 || o.Stdout+o.Stderr != "" {
			t.Errorf("%s: %+v", enough, o)
		}
	}
	if o := clitest.Run(t, nil, "status", "--quiet", admin); o.Status != 2 || o.Stdout != "" || !strings.Contains(o.Stderr, "A wallet is empty") {
		t.Errorf("%+v", o)
	}
}
