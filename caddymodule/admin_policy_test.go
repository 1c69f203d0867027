package caddymodule

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// In an incident one host more is denied, and none that was denied before is allowed again.
func TestAdditionsKeepWhatIsThere(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	key := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"label":"research"}`)["id"].(string)
	path := "/purser/keys/" + key + "/policy"
	const payee = `"0x209693Bc6afc0C5328bA36FaF03C514EF312287C"`
	const now = `{"max_payment":"5","deny_hosts":["b.example","c.example"]}`
	for _, step := range []struct {
		body string
		code int
		want string // the policy afterwards, or what the refusal says
	}{
		{`{"add_deny_hosts":["a.example"]}`, 200, `{"deny_hosts":["a.example"]}`},
		{`{"add_deny_hosts":["a.example","b.example","b.example"],"max_payment":"5"}`, 200, `{"max_payment":"5","deny_hosts":["a.example","b.example"]}`},
		{`{"deny_hosts":["b.example"],"add_deny_hosts":["c.example"]}`, 200, now},
		{`{"add_deny_hosts":[]}`, 400, "add_deny_hosts"},
		{`{"add_deny_hosts":null}`, 400, "add_deny_hosts"},
		{`{"add_deny_hosts":"d.example"}`, 400, "add_deny_hosts"},
		{`{"add_deny_hosts":[null]}`, 400, "deny_hosts"},
		{`{"add_deny_hosts":["https://d.example"]}`, 400, "deny_hosts"},
		{`{"add_deny_payees":["0x1"]}`, 400, "policy"},
		{`{"add_deny_hosts":["d.example"],"weekly":"1"}`, 400, "weekly"},
		{`{"add_deny_host":["d.example"]}`, 400, "add_deny_host"},
		// A list that is not there allows all: one with a single entry would allow nothing else.
		{`{"add_allow_hosts":["d.example"]}`, 400, "no such list of its own"},
		{`{"add_allow_payees":[` + payee + `]}`, 400, "no such list of its own"},
		{`{}`, 200, now},
		{`{"add_deny_payees":[` + payee + `]}`, 200, strings.TrimSuffix(now, "}") + `,"deny_payees":[` + payee + `]}`},
		{`{"deny_payees":null,"deny_hosts":null,"allow_hosts":["x.example"],"add_allow_hosts":["y.example"]}`, 200, `{"max_payment":"5","allow_hosts":["x.example","y.example"]}`},
	} {
		code, text := adminSend(t, socket, "PATCH", path, "application/json", step.body)
		if code != step.code || code == 200 && !strings.EqualFold(policyOf(t, text), step.want) || code != 200 && !strings.Contains(text, step.want) {
			t.Errorf("%s: %d %s", step.body, code, text)
		}
	}
	// A whole policy has no additions.
	if code, text := adminSend(t, socket, "PUT", path, "application/json", `{"add_deny_hosts":["d.example"]}`); code != 400 || !strings.Contains(text, "add_deny_hosts") {
		t.Errorf("%d %s", code, text)
	}

	// Of additions at the same time, none is lost.
	const n = 16
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			body := fmt.Sprintf(`{"add_deny_hosts":["h%d.example"]}`, i)
			if code, text := adminSend(t, socket, "PATCH", path, "application/json", body); code != 200 {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	calls.Wait()
	_, text := adminCall(t, socket, "GET", "/purser/keys/"+key)
	if got := decode[adminapi.Key](t, text); len(got.Policy.DenyHosts) != n {
		t.Errorf("%s", text)
	}

	told(t, socket, "limits", "research", "--add-deny-host", "shady.example", "--add-allow-host", "z.example")
	_, text = adminCall(t, socket, "GET", "/purser/keys/"+key)
	if got := decode[adminapi.Key](t, text).Policy; len(got.DenyHosts) != n+1 || len(got.AllowHosts) != 3 {
		t.Errorf("%s", text)
	}
	for _, args := range []string{
		"--add-deny-host default", "--add-deny-host=", "--add-deny-host a.example --reset", "--add-allow-payee x",
	} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, append([]string{"limits", "research"}, strings.Fields(args)...)...)
		if o.Status != 1 || o.Stdout != "" || strings.Count(o.Stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q, %q", args, o.Status, o.Stdout, o.Stderr)
		}
	}
}
