package caddymodule

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/operatorkeys"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

const paidURL = "https://api.example.com/report"

// order asks for a payment of an amount of its own at REST and says how that went.
func order(t *testing.T, s *site, key string, amount int) string {
	t.Helper()
	code, answer, err := call(t.Context(), "POST", s.url()+"/v1/pay", key, payBody(amount, paidURL))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(code, " ", orEmpty(answer["rule"]), orEmpty(answer["error"])))
}

func orEmpty(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v, " ")
}

// reload starts the site anew, as after a restart of the process.
func (s *site) reload(t *testing.T, socket, log string) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	s.port = freePort(t) // another program may have taken the one that was given back
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600")
	mustLoad(t, replaceOnce(t, text, "level WARN", "level DEBUG\n\t\toutput file "+log))
}

const pausedAnswer = "402 paused Payment refused by policy"

func TestPauseAndResumeEverything(t *testing.T) {
	s, socket := bookSite(t)
	key := newKey(t, s.url())
	mustCall(t, 201, "POST", s.url()+"/wallets", key, "")
	if got := order(t, s, key, 5); got != "200" {
		t.Fatal(got)
	}
	if text := told(t, socket, "status"); strings.Contains(text, "paused") {
		t.Errorf("%s", text)
	}
	o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, "pause")
	said(t, o, 1, "", "--reason")
	text := told(t, socket, "pause", "--reason", "wallets are moved")
	if !strings.Contains(text, "paused since") || !strings.Contains(text, "by operator "+operatorName()+": wallets are moved") {
		t.Errorf("%s", text)
	}
	for range 2 {
		if got := order(t, s, key, 6); got != pausedAnswer {
			t.Errorf("while everything is paused: %s", got)
		}
		if text := told(t, socket, "status"); !strings.Contains(text, "wallets are moved") {
			t.Errorf("%s", text)
		}
		if got := decode[adminapi.Status](t, told(t, socket, "status", "--json")); !got.OK || got.Paused == nil || got.Paused.Reason != "wallets are moved" {
			t.Errorf("%+v", got)
		}
		if v := gauge(t, "purser_paused"); v != 1 {
			t.Errorf("purser_paused is %v", v)
		}
		s.reload(t, socket, filepath.Join(t.TempDir(), "log")) // it survives
	}
	if got := decode[adminapi.PauseState](t, told(t, socket, "resume", "--json")); got.Paused != nil {
		t.Errorf("%+v", got)
	}
	if got := order(t, s, key, 6); got != "200" {
		t.Errorf("after the pause: %s", got)
	}
	if v := gauge(t, "purser_paused"); v != 0 {
		t.Errorf("purser_paused is %v", v)
	}
	list := decode[adminapi.Audit](t, told(t, socket, "audit", "--json")).Audit
	if len(list) != 2 || list[0].Action != pay.ActionResumeAll || list[1].Action != pay.ActionPauseAll || list[1].By != operatorName() {
		t.Errorf("%+v", list)
	}
}

// gauge reads a metric without labels.
func gauge(t *testing.T, name string) float64 {
	t.Helper()
	now := caddy.ActiveContext()
	families, err := now.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestKeysPauseResumeRevoke(t *testing.T) {
	s, socket := bookSite(t)
	made := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "research", "--json"))
	other := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "other", "--json"))
	if got := order(t, s, made.Key, 5); got != "200" {
		t.Fatal(got)
	}
	if text := told(t, socket, "keys", "pause", "research", "--reason", "too dear"); !strings.Contains(text, "too dear") || !strings.Contains(text, made.ID) {
		t.Errorf("%s", text)
	}
	s.reload(t, socket, filepath.Join(t.TempDir(), "log"))
	if got := order(t, s, made.Key, 6); got != pausedAnswer {
		t.Errorf("paused: %s", got)
	}
	if got := order(t, s, other.Key, 6); got != "200" {
		t.Errorf("another key: %s", got)
	}
	if text := told(t, socket, "keys"); !strings.Contains(text, "paused") || !strings.Contains(text, "pays") {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "limits", "research"); !strings.Contains(text, "paused since") {
		t.Errorf("%s", text)
	}
	if k := decode[adminapi.Key](t, told(t, socket, "keys", "resume", "research", "--json")); k.Paused != nil {
		t.Errorf("%+v", k)
	}
	if got := order(t, s, made.Key, 7); got != "200" {
		t.Errorf("resumed: %s", got)
	}

	// Without a word, nothing is revoked.
	for _, answer := range []string{"", "no\n", "y\n"} {
		c := exec.CommandContext(t.Context(), os.Args[0], "keys", "revoke", "research")
		c.Dir, c.Env, c.Stdin = t.TempDir(), append(os.Environ(), asCommand+"=1", "PURSER_ADMIN=unix/"+socket), strings.NewReader(answer)
		if text, err := c.CombinedOutput(); err == nil || !strings.Contains(string(text), "for ever?") || !strings.Contains(string(text), "nothing was revoked") {
			t.Errorf("%q: %v, %s", answer, err, text)
		}
	}
	if got := order(t, s, made.Key, 7); got != "200" {
		t.Errorf("not revoked: %s", got)
	}
	if k := decode[adminapi.Key](t, told(t, socket, "keys", "revoke", "research", "--yes", "--json")); k.Revoked.IsZero() || k.ID != made.ID {
		t.Errorf("%+v", k)
	}
	s.reload(t, socket, filepath.Join(t.TempDir(), "log"))
	if got := order(t, s, made.Key, 8); got != "401 API key not resolved" {
		t.Errorf("revoked: %s", got)
	}
	for _, args := range []string{"keys pause research", "keys resume research"} {
		said(t, clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, strings.Fields(args)...), 1, "", "revoked")
	}
	// The operator still sees key and payments.
	if text := told(t, socket, "keys"); !strings.Contains(text, "revoked") {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "payments", "--key", made.ID); strings.Count(text, "settled") != 3 {
		t.Errorf("%s", text)
	}
	said(t, clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, "wallets", "create", "--key", made.ID), 1, "", "revoked")
	said(t, clitest.Run(t, nil, "keys", "revoke", made.Key, "--yes"), 1, "", "is an API key itself")

	// What was done, and nothing secret.
	text := told(t, socket, "audit", "--key", made.ID)
	for _, want := range []string{"key.create", "wallet.create", "key.pause", "key.resume", "key.revoke", "operator " + operatorName(), "too dear"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the audit: %s", want, text)
		}
	}
	if strings.Contains(text, "pk_") || strings.Contains(text, other.ID) {
		t.Errorf("%s", text)
	}
}

func TestAuditCommand(t *testing.T) {
	_, socket := bookSite(t)
	made := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "rese\x1b[31march", "--json"))
	told(t, socket, "limits", made.ID, "--daily-budget", "5")
	told(t, socket, "limits", made.ID, "--daily-budget", "5") // changes nothing
	told(t, socket, "limits", made.ID, "--daily-budget", "4")
	list := decode[adminapi.Audit](t, told(t, socket, "audit", "--json", "--since", "1d")).Audit
	if len(list) != 4 || string(list[0].Old) != `{"policy":{"daily_budget":"5000000"}}` || string(list[0].New) != `{"policy":{"daily_budget":"4000000"}}` ||
		list[0].KeyID != made.ID || list[0].Kind != pay.ActorOperator || list[0].By != operatorName() || list[0].At.IsZero() {
		t.Errorf("%+v", list)
	}
	if text := told(t, socket, "audit", "--limit", "1"); strings.Count(text, "\n") != 2 || !strings.Contains(text, `"daily_budget":"4000000"`) {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "audit", "--since", "2020-01-01", "--until", "2020-01-02"); strings.Count(text, "\n") != 1 {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "audit"); strings.Contains(text, made.Key) || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	for _, c := range []struct{ want, args string }{
		{"no key has the id", "audit --key nobody"},
		{"--since", "audit --since yesterday"},
	} {
		said(t, clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, strings.Fields(c.args)...), 1, "", c.want)
	}
	if code, text := adminCall(t, socket, "GET", "/purser/audit?before=x"); code != 400 {
		t.Errorf("%d %s", code, text)
	}
	// A request that does not say who it is for is an operator's all the same.
	if code, text := adminSend(t, socket, "POST", "/purser/pause", "application/json", `{"reason":"by hand"}`); code != 200 || !strings.Contains(text, `"by":"operator"`) {
		t.Errorf("%d %s", code, text)
	}
	for _, bad := range []string{`{"reason":""}`, `{"reason":" "}`, `{"reason":"a\nb"}`, `{"reason":"` + strings.Repeat("x", 501) + `"}`, `{"why":"x"}`} {
		if code, text := adminSend(t, socket, "POST", "/purser/pause", "application/json", bad); code != 400 {
			t.Errorf("%.40s: %d %s", bad, code, text)
		}
	}
}

// A start with another PURSER_KEY offers to revoke the one before, and does not do it.
func TestReplacedDeploymentKey(t *testing.T) {
	s := newSite(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	start := func(key string) (log string) {
		t.Helper()
		t.Setenv("PURSER_KEY", key)
		log = filepath.Join(t.TempDir(), "log")
		s.reload(t, socket, log)
		return log
	}
	idOf := func(label string) (ids []string) {
		for _, k := range decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys {
			if k.Label == label {
				ids = append(ids, k.ID)
			}
		}
		return ids
	}
	offered := func(log string) bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "purser keys revoke ")
	}
	for range 2 {
		if offered(start("pk_deployment-1")) {
			t.Error("something is offered although nothing was replaced")
		}
	}
	first := idOf("deployment")[0]
	log := start("pk_deployment-2")
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "purser keys revoke "+first) || strings.Contains(string(text), "pk_deployment") {
		t.Errorf("%v, %s", err, text)
	}
	if text := told(t, socket, "status"); !strings.Contains(text, "purser keys revoke "+first) || strings.Contains(text, "pk_") {
		t.Errorf("%s", text)
	}
	if got := decode[adminapi.Status](t, told(t, socket, "status", "--json")).Replaced; len(got) != 1 || got[0].ID != first || got[0].Command != "purser keys revoke "+first {
		t.Errorf("%+v", got)
	}
	mustCall(t, 200, "GET", s.url()+"/wallets/me", "pk_deployment-1", "") // not revoked by itself
	// Back again: now the second one is the earlier one.
	start("pk_deployment-1")
	if got := decode[adminapi.Status](t, told(t, socket, "status", "--json")).Replaced; len(got) != 1 || got[0].ID == first {
		t.Errorf("%+v", got)
	}
	start("pk_deployment-2")
	told(t, socket, "keys", "revoke", first, "--yes")
	if text := told(t, socket, "status"); strings.Contains(text, "revoke") {
		t.Errorf("%s", text)
	}
	if offered(start("pk_deployment-2")) {
		t.Error("a revoked key is offered")
	}
	mustCall(t, 401, "GET", s.url()+"/wallets/me", "pk_deployment-1", "")

	// With a revoked one purser starts, says so, and serves all other keys.
	log = start("pk_deployment-1")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "is a key that was revoked") || strings.Contains(string(text), "pk_deployment") {
		t.Errorf("%v, %s", err, text)
	}
	mustCall(t, 401, "GET", s.url()+"/wallets/me", "pk_deployment-1", "")
	mustCall(t, 200, "GET", s.url()+"/wallets/me", "pk_deployment-2", "")

	// What a start makes is in the audit too.
	list := decode[adminapi.Audit](t, told(t, socket, "audit", "--key", first, "--json")).Audit
	if len(list) != 3 || list[0].Action != pay.ActionKeyRevoke || list[1].Action != pay.ActionWalletCreate || list[2].Action != pay.ActionKeyCreate ||
		list[2].Kind != pay.ActorConfiguration {
		t.Errorf("%+v", list)
	}
}

// The sidecar's clients have no key: what it does not pay for passes, with the reason.
func TestSidecarWithStoppedKey(t *testing.T) {
	v := newVendor(t)
	side := shippedSidecar(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	t.Setenv("PURSER_ADMIN", "unix/"+socket+"|0600")
	t.Setenv("PURSER_UPSTREAM", v.URL)
	t.Setenv("PURSER_KEY", "pk_deployment")
	mustLoad(t, shipped(t))
	ask := func(path string) (int, string) {
		t.Helper()
		resp, _ := do(t, newRequest(t, "GET", side+path, nil))
		return resp.StatusCode, resp.Header.Get(proxy.HeaderDeclined)
	}
	if code, declined := ask("/1"); code != 200 {
		t.Fatalf("%d %s", code, declined)
	}
	id := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys[0].ID
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "pause", id}, "402 paused"},
		{[]string{"keys", "resume", id}, "200 "},
		{[]string{"pause", "--reason", "x"}, "402 paused"},
		{[]string{"resume"}, "200 "},
		{[]string{"keys", "revoke", id, "--yes"}, "402 key-revoked"},
	} {
		told(t, socket, c.args...)
		code, declined := ask("/" + url.PathEscape(fmt.Sprint(c.args)))
		if got := fmt.Sprint(code, " ", declined); got != c.want {
			t.Errorf("after %v: %s, want %s", c.args, got, c.want)
		}
	}
}

// The exec key can be stopped as well, and is not made anew under its own secret.
func TestStoppedExecKey(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, _ := adminSite(t, s)
	if code, text := adminCall(t, socket, "POST", "/purser/exec"); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	told(t, socket, "keys", "revoke", "exec", "--yes")
	if code, text := adminCall(t, socket, "POST", "/purser/exec"); code != 409 || !strings.Contains(text, "exec.key") {
		t.Errorf("%d %s", code, text)
	}
	if text := told(t, socket, "limits", "exec"); !strings.Contains(text, "revoked since") {
		t.Errorf("%s", text)
	}
	if err := os.Remove(filepath.Join(s.dir, operatorkeys.ExecFile)); err != nil {
		t.Fatal(err)
	}
	if code, text := adminCall(t, socket, "POST", "/purser/exec"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
}

// operatorName is the name that commands give the operator.
func operatorName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return pay.Operator(u.Username).ID
}
