package caddymodule

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/pay"
)

var writeAdminJSON = flag.Bool("write-admin-json", false, "write testdata/admin.txt anew: only for a change of the operator's API")

// Other programs read the operator's API, so no answer changes by a byte: testdata/admin.txt has
// each of them, with what differs in every run under a name.
func TestAdminJSON(t *testing.T) {
	t.Setenv("PURSER_KEY", "pk_deployment-secret")
	fac := newStandIn(t)
	s := newSite(t)
	s.app = "facilitator http {\n\t\t\turl " + fac.URL + "\n\t\t}"
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ := adminSite(t, s)

	var record strings.Builder
	names := newNames(s.dir, fac.URL, s.url(), Version())
	ask := func(method, path, body string) string {
		t.Helper()
		code, text := adminSend(t, socket, method, path, "application/json", body)
		fmt.Fprintf(&record, "%s\n%d %s\n", names.of(strings.TrimSpace(method+" "+path+" "+body)), code, names.of(text))
		return text
	}
	field := func(text, name string) string {
		t.Helper()
		var members map[string]any
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		value, _ := members[name].(string)
		return cmp.Or(value, "no "+name)
	}

	if _, config := adminCall(t, socket, "GET", "/config/"); !strings.Contains(config, "purser_api") || strings.Contains(config, "secret") {
		t.Errorf("configuration: %s", config)
	}
	ask("GET", "/purser/status", "")
	ask("PUT", "/purser/status", "")
	for _, list := range []string{"keys", "wallets", "spend", "organizations", "payments", "reconcile", "rpc", "rotation"} {
		ask("GET", "/purser/"+list, "")
	}
	exec := ask("POST", "/purser/exec", `{}`)
	ask("POST", "/purser/keys", `{"label":`)
	ask("POST", "/purser/keys", `{"labels":"crawler"}`)
	made := ask("POST", "/purser/keys", `{"label":"crawler","policy":{"max_payment":"5000","daily_budget":"off","per_minute":60,"price_guard":3,"doors":["api","proxy"],`+
		`"allow_hosts":["*.example.com"],"deny_hosts":["bad.example.com"],"allow_payees":["0x209693Bc6afc0C5328bA36FaF03C514EF312287C"],`+
		`"deny_payees":["0x1111111111111111111111111111111111111111"],"hosts":{"api.example.com":{"max_payment":"4000"}},"tasks":{"*":{"monthly_budget":"9000"}}}}`)
	key := "/purser/keys/" + field(made, "id")
	paid := mustCall(t, 200, "POST", s.url()+"/v1/pay", field(made, "key"), payBody(1500, "https://api.example.com/v2?token=t0ken"))
	names.of(fmt.Sprint(paid["payment"]))
	eventually(t, "the payment's lease is released", func() bool {
		home := serving().home
		p, err := home.store.Payment(t.Context(), paid["payment"].(map[string]any)["id"].(string))
		return err == nil && p.Lease.Owner == ""
	})
	ask("GET", "/purser/tail", "")
	ask("GET", "/purser/tail?after=0", "")
	ask("GET", key, "")
	ask("PATCH", key+"/policy", `{"max_payment":"6000","add_deny_hosts":["worse.example.com"]}`)
	ask("PATCH", key+"/policy", `{"max_payment":"-1"}`)
	ask("PUT", key+"/policy", `{"daily_budget":"7000"}`)
	ask("POST", key+"/wallets", `{"network":"base-sepolia"}`)
	ask("POST", key+"/wallets", `{"network":"base"}`)
	ask("POST", key+"/pause", `{"reason":"holiday"}`)
	ask("POST", key+"/resume", `{}`)
	ask("POST", key+"/revoke", `{}`)
	ask("POST", key+"/resume", `{}`)
	ask("GET", "/purser/keys/00000000-0000-7000-8000-000000000000", "")
	ask("GET", "/purser/keys?limit=2", "")
	ask("GET", "/purser/keys?limit=0", "")
	ask("GET", "/purser/wallets?key="+field(made, "id"), "")
	ask("GET", "/purser/spend", "")
	ask("GET", "/purser/spend?before=nothing", "")

	client := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"client"}`)["key"].(string)
	org := ask("POST", "/purser/organizations", `{"issuer":"https://idp.example.com","subject":"olga","name":"Olga","email":"olga@example.com"}`)
	var enrolled struct{ Organization struct{ ID string } }
	if err := json.Unmarshal([]byte(org), &enrolled); err != nil {
		t.Fatal(err)
	}
	ask("PUT", "/purser/organizations/"+enrolled.Organization.ID+"/plan", `{"plan":"AGENCY"}`)
	ask("PUT", "/purser/organizations/"+enrolled.Organization.ID+"/plan", `{"plan":"GOLD"}`)
	ask("PUT", "/purser/organizations/unknown/plan", `{"plan":"AGENCY"}`)
	ask("POST", "/purser/organizations/"+enrolled.Organization.ID+"/keys", `{"key":"`+client+`"}`)
	ask("POST", "/purser/organizations/"+enrolled.Organization.ID+"/keys", `{"key":"`+client+`"}`)
	ask("GET", "/purser/organizations", "")

	ids := journaled(t, time.Hour, time.Hour, 0)
	ask("GET", "/purser/payments", "")
	ask("GET", "/purser/payments?state=settled", "")
	ask("GET", "/purser/archive", "")
	ask("GET", "/purser/archive?before=2020-01-01", "")
	ask("GET", "/purser/archive?before=soon", "")
	ask("POST", "/purser/archive", "{}")
	ask("GET", "/purser/payments?state=lost", "")
	ask("GET", "/purser/payments/"+paid["payment"].(map[string]any)["id"].(string), "")
	ask("GET", "/purser/payments/"+ids[2], "")
	ask("GET", "/purser/payments/nobody", "")
	ask("POST", "/purser/payments/"+ids[0]+"/resolve", `{"as":"void","reason":"the seller says so","by":"ann"}`)
	ask("POST", "/purser/payments/"+ids[0]+"/resolve", `{"as":"void","reason":"x"}`)
	ask("POST", "/purser/payments/"+ids[1]+"/resolve", `{"as":"settled","reason":"on the explorer","transaction":"0x`+strings.Repeat("ab", 32)+`"}`)
	ask("POST", "/purser/payments/"+ids[2]+"/resolve", `{"as":"void","reason":"x"}`)

	home := serving().home
	kept := pay.ChainBlock{Number: 42, Hash: "0x" + strings.Repeat("2a", 32), Time: time.Now().UTC()}
	if err := home.store.KeepSafeBlock(t.Context(), "base", nil, kept); err != nil {
		t.Fatal(err)
	}
	ask("GET", "/purser/rpc", "")
	ask("POST", "/purser/rpc/trust", `{"network":"base"}`)
	ask("POST", "/purser/rpc/trust", `{"network":"polygon"}`)
	ask("POST", "/purser/pause", `{}`)
	ask("POST", "/purser/pause", `{"reason":"audit"}`)
	ask("GET", "/purser/status", "")
	ask("POST", "/purser/resume", `{}`)
	ask("GET", "/purser/approvals", "")
	ask("GET", "/purser/approvals?state=maybe", "")
	ask("GET", "/purser/approvals/nobody", "")
	ask("POST", "/purser/approvals/nobody", `{"answer":"approved","raise_limit":true}`)
	ask("GET", "/purser/notices?limit=1", "")
	ask("GET", "/purser/notices?before=now", "")
	ask("GET", "/purser/webhooks", "")
	ask("POST", "/purser/webhooks/test", `{}`)
	ask("POST", "/purser/webhooks/nowhere/replay", `{"from":1}`)
	ask("POST", "/purser/webhooks/nowhere/replay", `{}`)
	ask("GET", "/purser/audit", "")
	ask("GET", "/purser/audit?limit=1&key="+field(exec, "key_id"), "")
	ask("POST", "/purser/check", `{}`)
	ask("POST", "/purser/reconcile", `{"accept_risk":true}`)
	code, backup := adminSend(t, socket, "POST", "/purser/backup", "application/json", `{}`)
	if code != 200 {
		t.Fatalf("%d %s", code, backup)
	}

	// And with the backup in the place of the store.
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "purser.db"), []byte(backup), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, _ = adminSite(t, s)
	eventually(t, "it is known that there is no RPC", func() bool {
		_, text := adminCall(t, socket, "GET", "/purser/reconcile")
		return strings.Contains(text, "needs_operator")
	})
	ask("GET", "/purser/reconcile", "")
	ask("POST", "/purser/reconcile", `{"accept_risk":true,"by":"ann"}`)
	ask("GET", "/purser/status", "")

	const golden = "testdata/admin.txt"
	if *writeAdminJSON {
		if err := os.WriteFile(golden, []byte(record.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.SplitAfter(record.String(), "\n"), strings.SplitAfter(string(text), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s:%d\n%swas\n%s", golden, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, and were %d", len(got), len(want))
	}
}

// names gives what differs in every run a name, the same one wherever it comes again.
type names struct {
	known   *strings.Replacer
	pairs   []string
	numbers map[string]string
	counts  map[string]int
}

func newNames(dir, facilitator, url, version string) *names {
	n := &names{numbers: map[string]string{}, counts: map[string]int{}}
	n.call(dir, "<dir>")
	n.call(facilitator, "<facilitator>")
	n.call(url, "<url>")
	n.call(fmt.Sprintf("%q", version), `"<version>"`)
	n.call(fmt.Sprintf(`"pid":%d,`, os.Getpid()), `"pid":1,`)
	return n
}

func (n *names) call(value, name string) {
	n.pairs = append(n.pairs, value, name)
	n.known = strings.NewReplacer(n.pairs...)
}

var (
	certificate = regexp.MustCompile(`-----BEGIN CERTIFICATE-----[^"]*`)
	varying     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-fA-F]{64}|0x[0-9a-fA-F]{40}|pk_[A-Za-z0-9_-]{20,}`)
	moment      = regexp.MustCompile(`20\d\d-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?Z)?)?`)
	file        = regexp.MustCompile(`"(schema|size)":\d+`)
	month       = regexp.MustCompile(`20\d\d-\d\d"`)
)

func (n *names) of(text string) string {
	text = n.known.Replace(strings.TrimSpace(text))
	text = certificate.ReplaceAllString(text, "<certificate>")
	text = varying.ReplaceAllStringFunc(text, func(value string) string {
		if value == "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" {
			return value
		}
		if n.numbers[value] == "" {
			kind := map[bool]string{true: "id", false: fmt.Sprintf("%.2s%d", value, len(value))}[value[8] == '-' && value[0] != 'p']
			n.counts[kind]++
			n.numbers[value] = fmt.Sprintf("<%s %d>", kind, n.counts[kind])
		}
		return n.numbers[value]
	})
	text = moment.ReplaceAllStringFunc(text, func(value string) string {
		return "<" + strings.TrimRight(strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' {
				return -1
			}
			return c
		}, value), ".Z") + ">"
	})
	text = file.ReplaceAllString(text, `"$1":<number>`)
	return month.ReplaceAllString(text, `<month>"`)
}
