package adminapi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestLimits(t *testing.T) {
	w := newWorld(t)
	id := w.key("tab\there").ID
	w.run("limits", id+" tab�here 1 10 0 10 - 0 of 3000 - all")
	w.run("limits "+id+" --max-payment 0.5 --host a.example=daily:2", "LIMIT OWN AT PROXY AT TRANSPORT AT API\n",
		"max payment 0.5 0.5 0.5 0.5\n",
		"daily budget - 10 10 -\n", "host a.example daily:2 daily:2")
	w.run("limits "+id+" --daily-budget off", "max payment 0.5 0.5", "daily budget off off", "host a.example daily:2")
	w.run("limits", id+" tab�here 0.5 off 0 - - 0 of 3000 - all hosts")
	file := filepath.Join(t.TempDir(), "policy.json")
	w.must(os.WriteFile(file, []byte(`{"monthly_budget":"7000000"}`), 0o600))
	w.run("limits "+id+" --json "+file, "!daily:2", "monthly budget 7 7")
	w.run("limits "+id+" --reset", "monthly budget - -")
	w.run("limits exec --per-minute 3", "per minute 3 3", "doors proxy")
	w.run("limits --help", "--max-payment 0.5")
	w.run("__complete limits ''", "exec\n", id)
	w.fails(map[string]string{
		"limits --max-payment 1": "", "limits --reset": "", "limits " + id + " --reset --max-payment 1": "",
		"limits " + id + " --json " + file + " --reset": "",
		"limits " + id + " --json /nowhere":             "", "limits " + id + " --json " + os.Args[0]: "",
		"limits " + id + " --door window":          "",
		"limits " + id + " --allow-host https://a": "", "limits none": `no key has the id or label "none"`,
		"limits --nonsense": "--nonsense",
	})

	// Rows of lists, hosts and tasks are there when a policy has set them.
	text := w.run("limits "+id+" --host a.example=daily:1 --task nightly=daily:1 --deny-host b.example",
		"\nmax payment ", "\nmonthly budget ", "\ndoors ", "\ndenied hosts ", "\nhost a.example ", "\ntask nightly ",
		"!allowed hosts", "!denied payees")
	text += w.run("limits "+id+" --host a.example=daily:default --task nightly=default --deny-host default",
		"!allowed payees")
	for _, row := range []string{"denied hosts", "host a.example", "task nightly"} {
		if strings.Count(text, row) != 1 {
			t.Errorf("%q in %s", row, text)
		}
	}
}

// A raise holds at once, is shown until its end, outlives changes of the lasting limits, and ends by itself or by --for off.
func TestRaise(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.behind.Store(int64(48 * time.Hour))
	limits := "limits " + k.ID
	w.run(limits+" --daily-budget 5", "daily budget 5 5", "!raised")
	w.run(limits+" --daily-budget 20 --max-payment 7 --for 2h", "raised max:7,daily:20 until ", "daily budget 5 20 20 20", "max payment - 7 7 7", "left today 20")
	w.run("limits", "7 20 ", "raised")
	w.buys(k, 6_000_000, "https://api.example.com/1")
	w.run(limits+" --daily-budget 6", "raised max:7,daily:20 until ", "daily budget 6 20")
	w.run(limits+" --reset", "!raised")
	w.run(limits + " --daily-budget 6 --task nightly=daily:1")
	w.run(limits+" --per-minute 100 --for 1h", "raised per-minute:100", "task nightly daily:1")
	w.run(limits+" --daily-budget 20 --for 1h", "raised daily:20", "!per-minute:100") // the second one takes the place of the first
	w.run(limits+" --for off", "!raised", "daily budget 6 6", "task nightly daily:1")
	if got := w.rule(k, 1_000_000, "https://api.example.com/2"); got != "daily-budget" {
		t.Errorf("after --for off: %q", got)
	}
	w.run(limits+" --daily-budget 20 --for 90m", "raised daily:20")
	w.behind.Add(-int64(90*time.Minute + time.Second))
	w.run(limits, "!raised", "daily budget 6 6")
	w.run("limits", " 6 ", "!raised")
	w.run(limits+" --price-guard 3", "!raised", "price guard 3")
	w.run("audit", "raise (daily 20, until ")
	for body, want := range map[string]string{
		`{"raise":{"daily_budget":"1","for":"2 hours"}}`:                           "raise.for",
		`{"raise":{"daily_budget":"1","for":"9000h"}}`:                             "raise.for",
		`{"raise":{"daily_budget":"1"}}`:                                           "raise.until: missing",
		`{"raise":{"for":"1h"}}`:                                                   "it raises no limit",
		`{"raise":{"daily_budget":"0","for":"1h"}}`:                                "raise.daily_budget",
		`{"raise":{"doors":["api"],"for":"1h"}}`:                                   "doors",
		`{"raise":{"daily_budget":"1","until":"2020-01-01T00:00:00Z"}}`:            "has passed",
		`{"raise":{"daily_budget":"1","until":"2999-01-01T00:00:00Z"}}`:            "from now",
		`{"raise":{"daily_budget":"1","for":"1h","until":"2999-01-01T00:00:00Z"}}`: "either",
	} {
		if status, answer := w.send("PATCH", "/keys/"+k.ID+"/policy", "application/json", body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// A total is counted from when it is set. Other changes leave its beginning, and a restart begins anew.
func TestTotals(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.behind.Store(int64(48 * time.Hour))
	limits := "limits " + k.ID
	rule := func(amount int, path string) string {
		_, err := w.pays(k, pay.SettlePayer, "nightly", amount, "https://api.example.com/"+path)
		refused, _ := errors.AsType[*pay.PolicyError](err)
		if refused == nil {
			w.must(err)
			return ""
		}
		return refused.Rule
	}
	since := func() string { return get[adminapi.Key](w, "/keys/"+k.ID).Totals[0].Begin.Format(time.RFC3339) }
	rule(10_000, "1")
	w.run(limits+" --task nightly=total:5,until:+4h", "total of task nightly 0 of 5 spent, 5 left; counted since ", ", until ", "task nightly total:5,until:")
	begun := since()
	if got := rule(5_000_001, "2"); got != "task-total" {
		t.Errorf("above the total: %q", got)
	}
	if got := rule(4_000_000, "3"); got != "" {
		t.Error(got)
	}
	w.behind.Add(-int64(2 * time.Minute))
	w.run(limits+" --daily-budget 20", "4 of 5 spent, 1 left", "!restart")
	w.run(limits+" --task nightly=total:5,until:+5h", "4 of 5 spent, 1 left")
	w.run(limits+" --task nightly=total:6", "4 of 6 spent, 2 left", ", until ")
	w.run(limits+" --task nightly=until:off", "4 of 6 spent, 2 left", "!until:")
	if since() != begun {
		t.Errorf("it began at %s, and at %s before", since(), begun)
	}
	w.run(limits+" --task nightly=restart", "0 of 6 spent, 6 left")
	if since() == begun {
		t.Error("it did not begin anew")
	}
	w.fails(map[string]string{
		limits + " --task nightly=restart":                    "in the next one",
		limits + " --task crawl=until:18:00":                  "tasks[crawl].total.amount",
		limits + " --task nightly=until:2026-01-01T00:00:00Z": "has passed",
	})
	w.run(limits + " --task nightly=until:+48h")
	w.behind.Store(-int64(49 * time.Hour))
	w.run(limits+" --monthly-budget 20", "0 of 6 spent, 6 left", ", ended at ")
	if got := rule(1, "4"); got != "task-ended" {
		t.Errorf("after the end: %q", got)
	}
	w.run(limits+" --task nightly=total:off", "!total of task", "!ended")
}

// The list tells what a key spent today, and what that leaves. A budget that is set during its day
// or month counts from the beginning.
func TestToday(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	if today := ran[adminapi.Keys](w, "keys").Keys[0].Today; today == nil || today.Spent != "0" || today.Left == nil ||
		*today.Left != "10000000" {
		t.Errorf("before anything was spent: %+v", today)
	}
	w.buys(k, 5_000_000, "https://api.example.com/x")
	limits := "limits " + k.ID
	w.run(limits+" --daily-budget 4", "spent today 5\n", "left today 0 at the proxy")
	for rule, set := range map[string]string{
		"daily-budget":   limits + " --daily-budget 4",
		"monthly-budget": limits + " --daily-budget off --monthly-budget 4",
	} {
		w.run(set)
		if got := w.rule(k, 2_500_000, "https://api.example.com/2"); got != rule {
			t.Errorf("%s: refused by %q", set, got)
		}
	}
	w.run(limits+" --daily-budget 7.5 --monthly-budget 7.5", "left today 2.5 at the proxy") // just what is left
	if got := w.rule(k, 2_500_000, "https://api.example.com/2"); got != "" {
		t.Error(got)
	}
	w.run("limits", "MAX DAILY SPENT LEFT MONTHLY", " 1 7.5 7.5 0 7.5 ")
	w.run(limits+" --daily-budget off --monthly-budget off", "spent today 7.5\n", "!left today")
	if today := get[adminapi.Key](w, "/keys/"+k.ID).Today; today == nil || today.Spent != "7500000" || today.Left != nil {
		t.Errorf("%+v", today)
	}
	// Budgets of hosts and tasks likewise: 0.01 USDC was spent on each.
	for _, limit := range []string{
		"--host api.example.com:443=daily:0.015", "--host api.example.com=daily:0.015",
		"--host api.example.com=monthly:0.015",
		"--task crawl=daily:0.015", "--task crawl=monthly:0.015", "--task *=daily:0.015", "--task *=monthly:0.015",
	} {
		k := w.key("")
		buy := func(path string) error {
			_, err := w.pays(k, pay.SettlePayer, "crawl", 10_000, "https://api.example.com/"+path)
			return err
		}
		w.must(buy("1"))
		w.run("limits " + k.ID + " --allow-payee 0x" + strings.Repeat("1", 40) + " " + limit)
		refused, is := errors.AsType[*pay.PolicyError](buy("2"))
		if !is || !strings.HasSuffix(refused.Rule, "ly-budget") {
			t.Errorf("%s: %v", limit, refused)
		}
		w.run("limits " + k.ID + " " + strings.Replace(limit, "0.015", "0.02", 1))
		w.must(buy("3"))
	}
	// A list without it does not compute it.
	if _, text := w.send("GET", "/keys", "", ""); strings.Contains(text, "today") {
		t.Errorf("%s", text)
	}
}

// Plans are for keys that clients make with POST /api-keys. Keys that the operator has made pay without a monthly
// quota, and the quota of the others is shown beside their budgets.
func TestOperatorsKeysHaveNoQuota(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Plans = pay.Plans{pay.PlanFree: {Keys: 1, Wallets: 1, Payments: 1}} })
	own, plain := pay.Key{ID: ran[adminapi.CreatedKey](w, "keys create --label research").ID}, w.key("test")
	for _, path := range []string{"1", "2", "3"} {
		w.buys(own, 1000, "https://api.example.com/"+path)
	}
	w.buys(plain, 1000, "https://api.example.com/1")
	if got := w.rule(plain, 1000, "https://api.example.com/2"); !strings.Contains(got,
		"payment limit reached for this month") {
		t.Errorf("got %q", got)
	}
	for _, k := range ran[adminapi.Keys](w, "keys").Keys {
		if k.ID == own.ID && k.Quota != nil || k.ID == plain.ID && (k.Quota == nil || k.Quota.Used != "1" ||
			k.Quota.Most != "1") {
			t.Errorf("%s: %+v", k.Label, k.Quota)
		}
	}
	w.run("limits test", "payments this month 1 of 1, then none until ")
	w.run("limits "+own.ID, "!payments this month")
}

// Organizations are listed with what they use, moved to plans, prepared for a person, and given keys.
func TestOrganizations(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Plans = pay.Plans{pay.PlanFree: {Keys: 2}} })
	const ada = `{"issuer":"https://i.example","subject":"1","name":"Ada","email":"ada@example.com"}`
	_, text := w.send("POST", "/organizations", "application/json", ada)
	first := decode[adminapi.PreparedAccount](w, text)
	_, text = w.send("POST", "/organizations", "application/json", ada)
	if again := decode[adminapi.PreparedAccount](w, text); first.Organization.ID == "" || first.Account != again.Account {
		t.Fatalf("%+v, %+v", first, again)
	}
	org := "/organizations/" + first.Organization.ID
	secret := func() string { return `{"key":"` + w.secret() + `"}` }
	key, full := secret(), secret()
	w.answers(
		request{"POST", org + "/keys", key, 200, ""},
		request{"POST", org + "/keys", key, 409, "already"},
		request{"POST", "/organizations/org_none/keys", full, 404, "no organization has the id"},
		request{"POST", org + "/keys", `{"key":"pk_nobody_has_this"}`, 404, "key not found"},
		request{"POST", org + "/keys", full, 409, "limit reached"},
		request{"POST", "/organizations", `{"subject":"1"}`, 400, "iss"},
		request{"POST", "/organizations", `{"sub":"1"}`, 400, "unknown field"},
	)
	w.run("organizations", first.Organization.ID, "2 of 2", "free")
	w.run("organizations plan "+first.Organization.ID+" Developer", "developer", "2 of 10")
	w.answers(request{"POST", org + "/keys", full, 200, ""})
	if page := ran[adminapi.Organizations](w, "organizations --limit 1"); len(page.Organizations) != 1 ||
		page.Organizations[0].Keys.Used != 3 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	w.fails(map[string]string{
		"organizations plan org_none agency":                 "no organization has the id",
		"organizations plan " + first.Organization.ID + " x": "unknown plan",
		"organizations --limit 0":                            "--limit", "organizations x": "takes no arguments but list or plan",
	})
}

// hangs is an RPC that does not answer.
type hangs struct{ pay.Chain }

func (hangs) Identify(ctx context.Context, _ x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	<-ctx.Done()
	return pay.ChainIdentity{}, ctx.Err()
}

// An RPC that does not answer does not keep a list waiting.
func TestWalletsWithoutAnswer(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Chain = hangs{} })
	for range 3 {
		w.key("")
	}
	began := time.Now()
	if text := w.run("wallets"); strings.Count(text, "unknown: the RPC did not") != 3 {
		t.Errorf("after %s: %s", time.Since(began), text)
	}
}

// The operator sees the block that the RPC is held against, and gets out if it is not the chain's.
func TestRPCTrust(t *testing.T) {
	w := newWorld(t)
	w.run("rpc", "taken on trust")
	seen := pay.ChainBlock{Number: 42, Hash: "0x" + strings.Repeat("ab", 32), Time: time.Date(2026, 11, 20, 12, 0, 0, 0,
		time.UTC)}
	w.must(w.store.KeepSafeBlock(t.Context(), "base", nil, seen))
	got := ran[adminapi.RPCStatus](w, "rpc")
	if len(got.Blocks) != 1 || got.Blocks[0] != (adminapi.SafeBlock{
		Network: "base", Number: seen.Number,
		Hash: seen.Hash, Time: seen.Time,
	}) || got.RPC != "none" {
		t.Errorf("%+v", got)
	}
	w.run("rpc", "block 42 of 2026-11-20T12:00:00Z, "+seen.Hash)
	w.fails(map[string]string{"rpc trust polygon": "polygon"})
	w.run("rpc trust base", "taken on trust")
	if b, err := w.store.SafeBlock(t.Context(), "base"); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
}
