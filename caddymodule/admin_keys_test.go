package caddymodule

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/adminapi"
)

// adminSite loads a site with an admin endpoint on a socket, and a log of everything.
func adminSite(t *testing.T, s *site) (socket, log string) {
	t.Helper()
	socket, log = filepath.Join(t.TempDir(), "admin.sock"), filepath.Join(t.TempDir(), "log")
	text := replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600")
	mustLoad(t, replaceOnce(t, text, "level WARN", "level DEBUG\n\t\toutput file "+log))
	return socket, log
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// policyOf is a key's policy as it is answered.
func policyOf(t *testing.T, text string) string {
	t.Helper()
	var key struct {
		Policy json.RawMessage `json:"policy"`
	}
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(key.Policy)
}

func TestAdminExec(t *testing.T) {
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	socket, log := adminSite(t, s)
	if code, text := adminCall(t, socket, "GET", "/purser/keys/exec"); code != 404 || !strings.Contains(text, "no exec key yet") {
		t.Errorf("before it is made: %d %s", code, text)
	}
	code, text := adminCall(t, socket, "POST", "/purser/exec")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	got := decode[adminapi.Exec](t, text)
	if got.Address == nil || !strings.HasPrefix(*got.Address, "0x") || got.Balance != nil || got.Network != "base" || got.Proxy != s.url() ||
		!strings.HasPrefix(got.CA, "-----BEGIN CERTIFICATE") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(text, `"balance":null`) {
		t.Errorf("%s", text)
	}
	if _, again := adminCall(t, socket, "POST", "/purser/exec"); again != text {
		t.Errorf("%s, then %s", text, again)
	}
	code, text = adminCall(t, socket, "GET", "/purser/keys/exec")
	if key := decode[adminapi.Key](t, text); code != 200 || key.ID != got.KeyID || key.Label != "exec" || strings.Contains(text, got.Key) {
		t.Errorf("%d %s", code, text)
	}
	_ = caddy.Stop()
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), got.Key) || !strings.Contains(string(text), got.KeyID) {
		t.Errorf("%v: %s", err, text)
	}
}

// With a proxy on no TCP address, and without interception.
func TestAdminExecWithoutProxy(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	code, text := adminCall(t, socket, "POST", "/purser/exec")
	if got := decode[adminapi.Exec](t, text); code != 200 || got.Proxy != "" || got.CA != "" {
		t.Errorf("%d %s", code, text)
	}
}

func TestAdminKeys(t *testing.T) {
	s := newSite(t)
	socket, log := adminSite(t, s)
	send := func(method, path, body string) (int, string) {
		t.Helper()
		return adminSend(t, socket, method, path, "application/json", body)
	}
	if code, text := adminCall(t, socket, "GET", "/purser/keys"); code != 200 || text != `{"keys":[]}`+"\n" {
		t.Errorf("%d %s", code, text)
	}
	var made []adminapi.CreatedKey
	for i := range 3 {
		code, text := send("POST", "/purser/keys", fmt.Sprintf(`{"label":"k%d","policy":{"max_payment":"5"}}`, i))
		if code != 201 {
			t.Fatalf("%d %s", code, text)
		}
		k := decode[adminapi.CreatedKey](t, text)
		if k.Network != "base" || k.Address == nil || k.Label != fmt.Sprintf("k%d", i) {
			t.Errorf("%s", text)
		}
		mustCall(t, 200, "GET", s.url()+"/wallets/me", k.Key, "")
		made = append(made, k)
	}
	code, text := adminCall(t, socket, "GET", "/purser/keys?limit=2")
	page := decode[adminapi.Keys](t, text)
	if code != 200 || len(page.Keys) != 2 || page.Keys[0].ID != made[0].ID || page.Next != made[1].ID {
		t.Errorf("%d %s", code, text)
	}
	_, text = adminCall(t, socket, "GET", "/purser/keys?limit=2&after="+page.Next)
	if page := decode[adminapi.Keys](t, text); len(page.Keys) != 1 || page.Keys[0].ID != made[2].ID || page.Next != "" {
		t.Errorf("%s", text)
	}

	path := "/purser/keys/" + made[0].ID
	_, text = adminCall(t, socket, "GET", path)
	key := decode[adminapi.Key](t, text)
	if key.InForce["proxy"].MaxPayment.String() != "5" || key.InForce["proxy"].DailyBudget.String() != "10000000" ||
		key.InForce["api"].DailyBudget.String() != "10000000" || !key.Operator {
		t.Errorf("%s", text)
	}
	for _, step := range []struct{ method, body, want string }{
		{
			"PATCH", `{"daily_budget":"off","hosts":{"a.example":{"max_payment":"1","daily_budget":"2"}}}`,
			`{"max_payment":"5","daily_budget":"off","hosts":{"a.example":{"max_payment":"1","daily_budget":"2"}}}`,
		},
		{
			"PATCH", `{"max_payment":null,"hosts":{"a.example":{"daily_budget":null},"b.example":{"max_payment":"off"}},"doors":["proxy"]}`,
			`{"daily_budget":"off","doors":["proxy"],"hosts":{"a.example":{"max_payment":"1"},"b.example":{"max_payment":"off"}}}`,
		},
		{"PATCH", `{"hosts":{"a.example":null}}`, `{"daily_budget":"off","doors":["proxy"],"hosts":{"b.example":{"max_payment":"off"}}}`},
		{"PATCH", `{"hosts":null,"doors":null}`, `{"daily_budget":"off"}`},
		{"PUT", `{"per_minute":3}`, `{"per_minute":3}`},
		{
			"PUT", `{"hosts":{"a.example:8080":{"max_payment":"1"}},"tasks":{"Nightly-2":{"max_payment":"2"}}}`,
			`{"hosts":{"a.example:8080":{"max_payment":"1"}},"tasks":{"Nightly-2":{"max_payment":"2"}}}`,
		},
		{"PUT", `null`, `null`},
		{"PATCH", `{"price_guard":2}`, `{"price_guard":2}`},
		{"PATCH", `null`, `null`},
	} {
		code, text := send(step.method, path+"/policy", step.body)
		if code != 200 || policyOf(t, text) != step.want {
			t.Errorf("%s %s: %d %s, want %s", step.method, step.body, code, text, step.want)
		}
	}

	for _, c := range []struct {
		method, path, body string
		want               int
		text               string
	}{
		{"PUT", path + "/policy", `{"max_paiment":"5"}`, 400, "max_paiment"},
		{"PUT", path + "/policy", `{"MAX_PAYMENT":"5"}`, 400, "MAX_PAYMENT"},
		{"PUT", path + "/policy", `{"allow_payees":["0x209693Bc6afc0C5328bA36FaF03C514EF312287D"]}`, 400, "mistyped"},
		{"PATCH", path + "/policy", `{"deny_payees":["0x209693Bc6afc0C5328bA36FaF03C514EF312287D"]}`, 400, "mistyped"},
		{"PUT", path + "/policy", `{"hosts":{"a.example":{"MAX_PAYMENT":"5"}}}`, 400, "MAX_PAYMENT"},
		{"PUT", path + "/policy", `{"tasks":{"Nightly":{"max_payment":"1","Max_payment":"5"}}}`, 400, "Max_payment"},
		{"PUT", path + "/policy", `{"Hosts":{"a.example":{"max_payment":"5"}}}`, 400, "Hosts"},
		{"PUT", path + "/policy", `{"ho\u017fts":{"a.example":{"max_payment":"5"}}}`, 400, "unknown field"},
		{"PATCH", path + "/policy", `{"hosts":{"a.example":{"MAX_PAYMENT":"5"}}}`, 400, "MAX_PAYMENT"},
		{"PATCH", path + "/policy", `{"hosts":{"hosts":{"MAX_PAYMENT":"5"}}}`, 400, "MAX_PAYMENT"},
		{"PATCH", path + "/policy", `{"DAILY_BUDGET":null}`, 400, "DAILY_BUDGET"},
		{"POST", "/purser/keys", `{"Label":"x"}`, 400, "Label"},
		{"POST", "/purser/keys", `{"policy":{"tasks":{"*":{"DAILY_BUDGET":"1"}}}}`, 400, "DAILY_BUDGET"},
		{"PUT", path + "/policy", `{"max_payment":0.5}`, 400, "policy"},
		{"PUT", path + "/policy", `{"max_payment":"-5"}`, 400, "policy"},
		{"PUT", path + "/policy", `{"doors":["window"]}`, 400, "window"},
		{"PUT", path + "/policy", `{} {}`, 400, "more than one"},
		{"PUT", path + "/policy", `[]`, 400, "policy"},
		{"PUT", path + "/policy", ``, 400, "body"},
		{"PATCH", path + "/policy", `{"per_minute":-1}`, 400, "per_minute"},
		{"PATCH", path + "/policy", `{"hosts":{"a.example":{"weekly":"1"}}}`, 400, "weekly"},
		{"PATCH", path + "/policy", `5`, 400, "policy"},
		{"POST", path + "/policy", `{}`, 405, "method"},
		{"PUT", "/purser/keys/none/policy", `{}`, 404, "none"},
		{"GET", "/purser/keys/none", ``, 404, "none"},
		{"DELETE", path, ``, 405, "method"},
		{"GET", "/purser/exec", ``, 405, "method"},
		{"GET", "/purser/keys?limit=0", ``, 400, "limit"},
		{"GET", "/purser/keys?limit=x", ``, 400, "limit"},
		{"POST", "/purser/keys", `{"labels":"x"}`, 400, "labels"},
		{"POST", "/purser/keys", `{"network":"moon"}`, 400, "moon"},
		{"POST", "/purser/keys", `{"policy":{"per_minute":-1}}`, 400, "per_minute"},
		{"POST", "/purser/keys", `{"label":"` + strings.Repeat("x", 201) + `"}`, 400, "label"},
	} {
		code, text := send(c.method, c.path, c.body)
		if code != c.want || !strings.Contains(text, c.text) || !strings.Contains(text, `"error"`) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, text)
		}
	}
	// What a page in a browser can send without being asked is not taken.
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		if code, text := adminSend(t, socket, "POST", "/purser/keys", kind, `{}`); code != 415 {
			t.Errorf("%q: %d %s", kind, code, text)
		}
	}
	_, text = adminCall(t, socket, "GET", "/purser/keys")
	if page := decode[adminapi.Keys](t, text); len(page.Keys) != 3 {
		t.Errorf("refused requests made keys: %s", text)
	}
	_ = caddy.Stop()
	logged, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range made {
		if strings.Contains(string(logged), k.Key) {
			t.Errorf("a secret was logged: %s", logged)
		}
	}
}

// Of changes at the same time, none is lost.
func TestAdminPatchesTogether(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	const n = 16
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			body := fmt.Sprintf(`{"hosts":{"h%d.example":{"daily_budget":"1"}}}`, i)
			if code, text := adminSend(t, socket, "PATCH", "/purser/keys/exec/policy", "application/json", body); code != 200 {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	calls.Wait()
	_, text := adminCall(t, socket, "GET", "/purser/keys/exec")
	if key := decode[adminapi.Key](t, text); len(key.Policy.Hosts) != n || len(key.Policy.Doors) != 1 {
		t.Errorf("%s", text)
	}
	_, text = adminCall(t, socket, "GET", "/purser/keys")
	if page := decode[adminapi.Keys](t, text); len(page.Keys) != 1 {
		t.Errorf("%s", text)
	}
}

// The exec key stays off REST, where the shipped limits do not hold, unless the operator names
// its doors.
func TestAdminExecKeyKeepsItsDoor(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	for _, step := range []struct{ method, body, want string }{
		{"PUT", `{"max_payment":"1"}`, `{"max_payment":"1","doors":["proxy"]}`},
		{"PATCH", `{"doors":null}`, `{"max_payment":"1","doors":["proxy"]}`},
		{"PATCH", `{"doors":["api","proxy"]}`, `{"max_payment":"1","doors":["api","proxy"]}`},
		{"PUT", `null`, `{"doors":["proxy"]}`},
	} {
		code, text := adminSend(t, socket, step.method, "/purser/keys/exec/policy", "application/json", step.body)
		if code != 200 || policyOf(t, text) != step.want {
			t.Errorf("%s %s: %d %s", step.method, step.body, code, text)
		}
	}
}

func TestAdminBeforeTheStart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	mustLoad(t, "{\n\tadmin unix/"+socket+"|0600\n\tpersist_config off\n\tlog default {\n\t\tlevel ERROR\n\t\toutput discard\n\t}\n}\n")
	for method, path := range map[string]string{"POST": "/purser/exec", "GET": "/purser/keys"} {
		if code, text := adminCall(t, socket, method, path); code != 503 || !strings.Contains(text, "not started") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
