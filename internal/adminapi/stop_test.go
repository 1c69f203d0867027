package adminapi_test

import (
	"os/user"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
)

const shop = "https://api.example.com/report"

// operatorName is the name that commands give the operator.
func operatorName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return pay.Operator(u.Username).ID
}

func TestPauseAndResumeEverything(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.buys(k, 5, shop)
	w.run("status", "!paused")
	w.fails(map[string]string{"pause": "--reason"})
	w.run("pause --reason moving", "paused since", "by operator "+operatorName()+": moving")
	if got := w.rule(k, 6, shop); got != "paused" {
		t.Errorf("while everything is paused: %q", got)
	}
	w.run("status", "moving")
	if got := ran[cli.Overview](w, "status"); !got.OK || got.Paused == nil || got.Paused.Reason != "moving" {
		t.Errorf("%+v", got)
	}
	if got := ran[adminapi.PauseState](w, "resume"); got.Paused != nil {
		t.Errorf("%+v", got)
	}
	w.buys(k, 6, shop)
	list := ran[adminapi.Audit](w, "audit").Audit
	if len(list) < 2 || list[0].Action != pay.ActionResumeAll || list[1].Action != pay.ActionPauseAll ||
		list[1].By != operatorName() {
		t.Errorf("%+v", list)
	}
	// A request that does not say who it is for is an operator's all the same.
	w.answers(request{"POST", "/pause", `{"reason":"by hand"}`, 200, `"by":"operator"`})
	for _, bad := range []string{
		`{"reason":""}`, `{"reason":" "}`, `{"reason":"a\nb"}`,
		`{"reason":"` + strings.Repeat("x", 501) + `"}`, `{"why":"x"}`,
	} {
		w.answers(request{"POST", "/pause", bad, 400, ""})
	}
}

func TestKeysPauseAHost(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.run("keys pause "+k.ID+" --host API.example.com. --reason thieves", "host api.example.com", "paused since", "thieves", "pays")
	if got := w.rule(k, 6, shop); got != pay.RuleHostPaused {
		t.Errorf("the paused host: %q", got)
	}
	w.buys(k, 7, "https://other.example.com/report")
	w.run("limits "+k.ID, "host api.example.com", "thieves")
	w.fails(map[string]string{"keys resume " + k.ID + " --host :80": "host"})
	if got := ran[adminapi.Key](w, "keys resume "+k.ID+" --host api.example.com"); got.Paused != nil || got.PausedHosts != nil {
		t.Errorf("%+v", got)
	}
	w.buys(k, 8, shop)
	if list := ran[adminapi.Audit](w, "audit").Audit; list[0].Action != "key.resume" || list[1].Action != "key.pause" || !strings.Contains(string(list[1].New), "thieves") {
		t.Errorf("%+v", list)
	}
}

func TestKeysPauseResumeRevoke(t *testing.T) {
	w := newWorld(t)
	made, other := ran[adminapi.CreatedKey](w, "keys create --label research"), ran[adminapi.CreatedKey](w,
		"keys create --label other")
	k := pay.Key{ID: made.ID}
	w.buys(k, 5, shop)
	w.run("keys pause research --reason dear", "dear", made.ID)
	if got := w.rule(k, 6, shop); got != "paused" {
		t.Errorf("paused: %q", got)
	}
	w.buys(pay.Key{ID: other.ID}, 6, shop)
	w.run("keys", "paused", "pays")
	w.run("limits research", "paused since")
	if got := ran[adminapi.Key](w, "keys resume research"); got.Paused != nil {
		t.Errorf("%+v", got)
	}
	w.buys(k, 7, shop)

	// Without a word, nothing is revoked.
	for _, answer := range []string{"", "no\n", "y\n"} {
		o := clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + w.socket}, Stdin: strings.NewReader(answer)}.Run(t,
			"keys", "revoke", "research")
		if o.Status == 0 || !strings.Contains(o.Stdout+o.Stderr, "for ever?") || !strings.Contains(o.Stdout+o.Stderr,
			"nothing was revoked") {
			t.Errorf("%q: %+v", answer, o)
		}
	}
	w.buys(k, 8, shop)
	if got := ran[adminapi.Key](w, "keys revoke research --yes"); got.Revoked.IsZero() || got.ID != made.ID {
		t.Errorf("%+v", got)
	}
	if _, err := w.Payer.Resolve(t.Context(), made.Key); pay.Code(err) != pay.CodeKeyRevoked &&
		pay.Code(err) != pay.CodeKeyNotFound {
		t.Errorf("revoked: %v", err)
	}
	w.fails(map[string]string{
		"keys pause research": "revoked", "keys resume research": "revoked", "wallets create --key " + made.ID: "revoked",
		"keys revoke " + made.Key + " --yes": "is an API key itself",
	})
	// The operator still sees key and payments.
	w.run("keys", "revoked")
	if text := w.run("payments --key " + made.ID); strings.Count(text, "settled") != 3 {
		t.Errorf("%s", text)
	}
	// The audit has what was done, and nothing secret.
	w.run("audit --key "+made.ID, "key.create", "wallet.create", "key.pause", "key.resume", "key.revoke",
		"operator "+operatorName(), "dear", "!pk_", "!"+other.ID)
}

func TestAudit(t *testing.T) {
	w := newWorld(t)
	made := ran[adminapi.CreatedKey](w, "keys create --label rese\x1b[31march")
	for _, budget := range []string{"5", "5", "4"} { // the second changes nothing
		w.run("limits " + made.ID + " --daily-budget " + budget)
	}
	list := ran[adminapi.Audit](w, "audit --since 1d").Audit
	if len(list) != 5 || string(list[0].Old) != `{"policy":{"daily_budget":"5000000"}}` ||
		string(list[0].New) != `{"policy":{"daily_budget":"4000000"}}` ||
		list[0].KeyID != made.ID || list[0].Kind != pay.ActorOperator || list[0].By != operatorName() || list[0].At.IsZero() {
		t.Errorf("%+v", list)
	}
	if text := w.run("audit --limit 1", "policy (daily 5) policy (daily 4)"); strings.Count(text, "\n") != 2 {
		t.Errorf("%s", text)
	}
	if text := w.run("audit --since 2020-01-01 --until 2020-01-02"); strings.Count(text, "\n") != 1 {
		t.Errorf("%s", text)
	}
	w.run("audit", "!"+made.Key)
	w.fails(map[string]string{"audit --key nobody": "no key has the id", "audit --since yesterday": "--since"})
	w.answers(request{"GET", "/audit?before=x", "", 400, ""})
}
