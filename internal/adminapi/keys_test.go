package adminapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

const (
	payee    = `"0x209693Bc6afc0C5328bA36FaF03C514EF312287C"`
	mistyped = `"0x209693Bc6afc0C5328bA36FaF03C514EF312287D"`
)

// policies sends policies, and compares what is set then, or what the refusal says.
func (w *world) policies(path string, steps [][3]string) {
	w.t.Helper()
	for _, step := range steps {
		method, body, want := step[0], step[1], step[2]
		status, text := w.send(method, path+"/policy", "application/json", body)
		var key struct {
			Policy json.RawMessage `json:"policy"`
		}
		_ = json.Unmarshal([]byte(text), &key)
		if set := status == 200; set && !strings.EqualFold(string(key.Policy), want) || !set && (status != 400 ||
			!strings.Contains(text, want)) {
			w.t.Errorf("%s %s: %d %s, want %s", method, body, status, text, want)
		}
	}
}

// Policies are set, replaced and changed in part. A field that is not known is refused, at every
// depth: what it was meant to
// limit would be without limit.
func TestPolicies(t *testing.T) {
	w := newWorld(t)
	path := "/keys/" + w.key("research").ID
	w.policies(path, [][3]string{
		{"PUT", `{"max_payment":"5"}`, `{"max_payment":"5"}`},
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
		{"PUT", `{"max_paiment":"5"}`, "max_paiment"},
		{"PUT", `{"MAX_PAYMENT":"5"}`, "MAX_PAYMENT"},
		{"PUT", `{"allow_payees":[` + mistyped + `]}`, "mistyped"},
		{"PATCH", `{"deny_payees":[` + mistyped + `]}`, "mistyped"},
		{"PUT", `{"hosts":{"a.example":{"MAX_PAYMENT":"5"}}}`, "MAX_PAYMENT"},
		{"PUT", `{"tasks":{"Nightly":{"max_payment":"1","Max_payment":"5"}}}`, "Max_payment"},
		{"PUT", `{"Hosts":{"a.example":{"max_payment":"5"}}}`, "Hosts"},
		{"PUT", `{"ho\u017fts":{"a.example":{"max_payment":"5"}}}`, "unknown field"},
		{"PATCH", `{"hosts":{"a.example":{"MAX_PAYMENT":"5"}}}`, "MAX_PAYMENT"},
		{"PATCH", `{"hosts":{"hosts":{"MAX_PAYMENT":"5"}}}`, "MAX_PAYMENT"},
		{"PATCH", `{"hosts":{"a.example":{"weekly":"1"}}}`, "weekly"},
		{"PATCH", `{"DAILY_BUDGET":null}`, "DAILY_BUDGET"},
		{"PUT", `{"max_payment":0.5}`, "policy"},
		{"PUT", `{"max_payment":"-5"}`, "policy"},
		{"PUT", `{"doors":["window"]}`, "window"},
		{"PUT", `{} {}`, "more than one"},
		{"PUT", `[]`, "policy"},
		{"PUT", ``, "body"},
		{"PATCH", `{"per_minute":-1}`, "per_minute"},
		{"PATCH", `5`, "policy"},

		// In an incident one host more is denied, and none that was denied before is allowed again.
		{"PATCH", `{"add_deny_hosts":["a.example"]}`, `{"deny_hosts":["a.example"]}`},
		{
			"PATCH", `{"add_deny_hosts":["a.example","b.example","b.example"],"max_payment":"5"}`,
			`{"max_payment":"5","deny_hosts":["a.example","b.example"]}`,
		},
		{
			"PATCH", `{"deny_hosts":["b.example"],"add_deny_hosts":["c.example"]}`,
			`{"max_payment":"5","deny_hosts":["b.example","c.example"]}`,
		},
		{"PATCH", `{"add_deny_hosts":[]}`, "add_deny_hosts"},
		{"PATCH", `{"add_deny_hosts":null}`, "add_deny_hosts"},
		{"PATCH", `{"add_deny_hosts":"d.example"}`, "add_deny_hosts"},
		{"PATCH", `{"add_deny_hosts":[null]}`, "deny_hosts"},
		{"PATCH", `{"add_deny_hosts":["https://d.example"]}`, "deny_hosts"},
		{"PATCH", `{"add_deny_payees":["0x1"]}`, "policy"},
		{"PATCH", `{"add_deny_hosts":["d.example"],"weekly":"1"}`, "weekly"},
		{"PATCH", `{"add_deny_host":["d.example"]}`, "add_deny_host"},
		{"PUT", `{"add_deny_hosts":["d.example"]}`, "add_deny_hosts"}, // a whole policy has no additions
		// A list that is not there allows all: one with a single entry would allow nothing else.
		{"PATCH", `{"add_allow_hosts":["d.example"]}`, "no such list of its own"},
		{"PATCH", `{"add_allow_payees":[` + payee + `]}`, "no such list of its own"},
		{"PATCH", `{}`, `{"max_payment":"5","deny_hosts":["b.example","c.example"]}`},
		{
			"PATCH", `{"add_deny_payees":[` + payee + `]}`,
			`{"max_payment":"5","deny_hosts":["b.example","c.example"],"deny_payees":[` + payee + `]}`,
		},
		{
			"PATCH", `{"deny_payees":null,"deny_hosts":null,"allow_hosts":["x.example"],"add_allow_hosts":["y.example"]}`,
			`{"max_payment":"5","allow_hosts":["x.example","y.example"]}`,
		},
	})

	// Changes at the same time are all kept.
	const n = 16
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			w.answers(request{"PATCH", path + "/policy", fmt.Sprintf(`{"add_deny_hosts":["h%d.example"],"hosts":{"h%[1]d.example":{"daily_budget":"1"}}}`, i), 200, ""})
		})
	}
	calls.Wait()
	w.run("limits research --add-deny-host shady.example --add-allow-host z.example")
	if got := get[adminapi.Key](w, path).Policy; len(got.DenyHosts) != n+1 || len(got.AllowHosts) != 3 ||
		len(got.Hosts) != n {
		t.Errorf("%+v", got)
	}
	w.fails(map[string]string{
		"limits research --add-deny-host default": "", "limits research --add-deny-host=": "",
		"limits research --add-deny-host a.example --reset": "", "limits research --add-allow-payee x": "",
	})
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	w.answers(request{"GET", "/keys", "", 200, `{"keys":[]}` + "\n"})
	w.run("keys", "KEY LABEL STATE PARENT ORGANIZATION MADE (UTC) LAST USED (UTC) OWN LIMITS\n")
	made := ran[adminapi.CreatedKey](w, "keys create --label res\x1b[31mearch --daily-budget 5 --door proxy")
	if !strings.HasPrefix(made.Key, "pk_") || made.Address == nil || made.Network != "base" {
		t.Errorf("%+v", made)
	}
	if text := w.run("keys create --label plain --wallet new", "it is not shown again", "address 0x"); strings.Count(text, "pk_") != 1 {
		t.Errorf("%s", text)
	}
	w.answers(request{"POST", "/keys", `{"label":"third","wallet":"new","policy":{"max_payment":"5"}}`, 201, `"label":"third"`})
	if text := w.run("keys", "daily:5,doors:proxy", "!pk_"); strings.Count(text, "\n") != 4 {
		t.Errorf("%s", text)
	}
	list := ran[adminapi.Keys](w, "keys --address unix/"+w.socket).Keys
	if len(list) != 3 || list[0].ID != made.ID || list[0].Policy == nil || list[1].Policy != nil || !list[2].Operator ||
		list[2].InForce["proxy"].MaxPayment.String() != "5" || list[2].InForce["api"].DailyBudget.String() != "10000000" {
		t.Errorf("%+v", list)
	}
	page := get[adminapi.Keys](w, "/keys?limit=2")
	if len(page.Keys) != 2 || page.Next != list[1].ID {
		t.Errorf("%+v", page)
	}
	if page = get[adminapi.Keys](w, "/keys?limit=2&after="+page.Next); len(page.Keys) != 1 || page.Next != "" {
		t.Errorf("%+v", page)
	}

	// Wallets.
	w.run("wallets create --key " + made.ID)
	all, own := ran[adminapi.Wallets](w, "wallets").Wallets, ran[adminapi.Wallets](w, "wallets --key "+made.ID).Wallets
	if len(all) != 4 || len(own) != 2 || own[0].Balance != nil || !strings.Contains(own[0].Unknown, "PURSER_RPC_URL") ||
		*own[0].Address != *made.Address {
		t.Errorf("%+v, %+v", all, own)
	}
	w.run("wallets --key "+made.ID, *made.Address, "unknown: no RPC")
	if o := w.command("wallets --limit 2"); strings.Count(o.Stdout, "\n") != 3 || !strings.Contains(o.Stderr,
		"there are more") {
		t.Errorf("%+v", o)
	}
	key, err := w.Books.Key(t.Context(), made.ID)
	w.must(err)
	w.must(w.Books.DeleteWallet(t.Context(), key, own[0].ID))
	// Deleted ones are not shown, whether or not the page has room for others.
	if left := ran[adminapi.Wallets](w, "wallets").Wallets; len(left) != 3 || left[0].ID == own[0].ID {
		t.Errorf("%+v", left)
	}
	if first := get[adminapi.Wallets](w, "/wallets?limit=1"); first.Next != own[0].ID || len(first.Wallets) != 0 {
		t.Errorf("%+v", first)
	}

	w.fails(map[string]string{
		"wallets --key nobody": "no key has the id",
		"wallets create":       "whose wallet?",
		"wallets create --key " + made.ID + " --network moon": "not one that this purser pays on",
		"wallets create --key nobody":                         "no key has the id",
		"keys create --network moon":                          "not one that this purser pays on",
		"keys create --daily-budget lots":                     "--daily-budget",
		"keys create --label " + strings.Repeat("x", 201):     "200 characters",
		"keys --admin unix//nowhere.sock":                     "no answer from purser's admin endpoint",
	})
	w.answers(
		request{"PUT", "/keys/none/policy", `{}`, 404, "none"},
		request{"GET", "/keys/none", ``, 404, "none"},
		request{"DELETE", "/keys/" + made.ID, ``, 405, "method"},
		request{"DELETE", "/keys", ``, 405, "method"},
		request{"POST", "/keys/" + made.ID + "/policy", `{}`, 405, "method"},
		request{"GET", "/exec", ``, 405, "method"},
		request{"GET", "/backup", ``, 405, "method"},
		request{"POST", "/status", ``, 405, "method"},
		request{"GET", "/keys?limit=0", ``, 400, "limit"},
		request{"GET", "/keys?limit=x", ``, 400, "limit"},
		request{"POST", "/keys", `{"label":`, 400, "body"},
		request{"POST", "/keys", `{"Label":"x"}`, 400, "Label"},
		request{"POST", "/keys", `{"labels":"x"}`, 400, "labels"},
		request{"POST", "/keys", `{} {}`, 400, "more than one"},
		request{"POST", "/keys", `{"network":"moon"}`, 400, "moon"},
		request{"POST", "/keys", `{"policy":{"per_minute":-1}}`, 400, "per_minute"},
		request{"POST", "/keys", `{"policy":{"tasks":{"*":{"DAILY_BUDGET":"1"}}}}`, 400, "DAILY_BUDGET"},
		request{"POST", "/keys", `{"label":"` + strings.Repeat("x", 201) + `"}`, 400, "label"},
		request{"POST", "/keys", `{"label":"` + strings.Repeat("x", adminapi.MaxBody) + `"}`, 413, "body"},
		request{"GET", "/keys/a%2Fb", "", 404, ""},
		request{"GET", "/keys/%2E%2E", "", 404, ""},
		request{"PUT", "/keys/a%2Fb/policy", "null", 404, ""},
		request{"GET", "/payments/a%2Fb%2Fresolve", "", 404, ""},
		request{"POST", "/payments/%00/resolve", `{"as":"void","reason":"x"}`, 404, ""},
	)
	// A page in a browser can send these types without being asked, so none is taken.
	for _, path := range []string{"/keys", "/backup", "/payments/x/resolve", "/exec"} {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			if status, text := w.send("POST", path, kind, `{}`); status != 415 {
				t.Errorf("%s, %q: %d %s", path, kind, status, text)
			}
		}
	}
	if page := get[adminapi.Keys](w, "/keys"); len(page.Keys) != 3 {
		t.Errorf("refused requests made keys: %+v", page)
	}
	if strings.Contains(w.log.String(), made.Key) {
		t.Errorf("%s", w.log.String())
	}
}

// A key is found by its id before all, and by less only if that cannot be another one.
func TestFindKeys(t *testing.T) {
	w := newWorld(t)
	made := func(label string) string {
		k, _, err := w.Books.CreateKey(t.Context(), books.KeyRequest{Label: label})
		w.must(err)
		return k.ID
	}
	find := strings.NewReplacer(" ", "%20", "/", "%2F")
	is := func(name, id string) {
		t.Helper()
		w.answers(request{"GET", "/keys/" + find.Replace(name), "", 200, `{"id":"` + id + `"`})
	}
	not := func(name string, want int, parts ...string) {
		t.Helper()
		for _, part := range append(parts, "") {
			w.answers(request{"GET", "/keys/" + find.Replace(name), "", want, part})
		}
	}
	first := made("research")
	is("research", first)
	is(first[:8], first)
	is(strings.ToUpper(first[:20]), first)
	not(first[:7], 404, first[:7])
	not("Research", 404)

	second := made("a/b c")
	is("a/b c", second)
	// Ids of one minute begin alike; these are of two at most.
	one, other := first, second
	if !strings.HasPrefix(other, one[:8]) {
		one, other = second, made("third")
	}
	not(one[:8], 409, one, other, "whole id")
	is(first[:len(first)-1], first)

	// A client labels a key with the id of another, with a part of it, or as another is.
	hostile := made(first)
	is(first, first)
	is(hostile, hostile)
	tail := made(first[:30])
	not(first[:30], 409, first, tail)
	copied := made("research")
	not("research", 409, first, copied)
	absent := "0199" + strings.Repeat("0", 4) + "-0000-7000-8000-000000000000"
	squatter := made(absent)
	not(absent, 404)
	is(squatter, squatter)
	// "exec" names the exec key, whichever key has that label.
	made("exec")
	not("exec", 404, "no exec key yet")

	// Everything that takes a key does so, and refuses before it does anything.
	for _, line := range []string{
		"spend --key KEY", "payments --key KEY", "wallets --key KEY",
		"wallets create --key KEY", "limits KEY --max-payment 0.1",
	} {
		w.fails(map[string]string{strings.Replace(line, "KEY", "research", 1): "research"})
		w.run(strings.Replace(line, "KEY", first[:35], 1))
	}
	w.fails(map[string]string{"limits nobody --max-payment 0.1": "nobody"})
	for id, limited := range map[string]bool{first: true, copied: false} {
		if got := get[adminapi.Key](w, "/keys/"+id); (got.Policy != nil) != limited {
			t.Errorf("%+v", got)
		}
	}
}

// All who ask for the exec key at once get the same one. It stays off REST, where the shipped
// limits do not hold, unless the
// operator names its doors. It can be stopped as well, and is not made anew under its own secret.
func TestExecKey(t *testing.T) {
	w := newWorld(t)
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := w.Keys.Exec(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	access, err := w.Keys.Exec(t.Context())
	w.must(err)
	k, secret := access.Key, access.Secret
	if keys, err := w.Books.Keys(t.Context(), "", 10); err != nil || len(keys) != 1 || keys[0].ID != k.ID ||
		keys[0].Label != "exec" {
		t.Errorf("%+v, %v", keys, err)
	}
	if got := w.rule(k, 1, "https://api.example.com/"); got != "doors" {
		t.Errorf("it pays on REST: %q", got)
	}
	w.policies("/keys/exec", [][3]string{
		{"PUT", `{"max_payment":"1"}`, `{"max_payment":"1","doors":["proxy"]}`},
		{"PATCH", `{"doors":null}`, `{"max_payment":"1","doors":["proxy"]}`},
		{"PATCH", `{"doors":["api","proxy"]}`, `{"max_payment":"1","doors":["api","proxy"]}`},
		{"PUT", `null`, `{"doors":["proxy"]}`},
	})
	_, text := w.send("POST", "/exec", "application/json", "{}")
	made := decode[adminapi.Exec](w, text)
	if made.Key != secret || made.Address == nil || made.Balance != nil || made.Proxy != "" || made.CA != "" ||
		!strings.Contains(text, `"balance":null`) {
		t.Errorf("%s", text)
	}
	w.answers(request{"POST", "/exec", "{}", 200, text})
	w.answers(request{"GET", "/keys/exec", "", 200, `{"id":"` + k.ID + `","label":"exec"`})
	w.run("keys revoke exec --yes")
	w.answers(request{"POST", "/exec", "{}", 409, "keys create --exec"})
	w.run("limits exec", "revoked since")
	if strings.Contains(w.log.String(), made.Key) || !strings.Contains(w.log.String(), k.ID) {
		t.Errorf("%s", w.log.String())
	}

	// Another one has the same wallet, and is made on demand only.
	w.answers(request{"POST", "/keys", `{"exec":true,"label":"mine"}`, 400, "takes no label"})
	w.answers(request{"POST", "/keys", `{"exec":true}`, 201, *made.Address})
	w.answers(request{"POST", "/keys", `{"exec":true}`, 409, "keys reissue exec"})
	_, text = w.send("POST", "/exec", "application/json", "{}")
	if next := decode[adminapi.Exec](w, text); next.KeyID == k.ID || next.Key == secret || *next.Address != *made.Address {
		t.Errorf("%+v", next)
	}
	_, text = w.send("POST", "/keys/exec/reissue", "application/json", "{}")
	reissued := decode[adminapi.ReissuedKey](w, text)
	w.answers(request{"POST", "/exec", "{}", 200, reissued.Key})
}

// A child is made with a parent for good. It draws from the parent's wallets and shows whose budgets it shares; what it
// spends shows at both.
func TestFamily(t *testing.T) {
	w := newWorld(t)
	parent := ran[adminapi.CreatedKey](w, "keys create --label research --daily-budget 5 --wallet new")
	child := ran[adminapi.CreatedKey](w, "keys create --label worker --parent research --daily-budget 3")
	own := ran[adminapi.CreatedKey](w, "keys create --label loner --parent "+parent.ID[:13]+" --wallet new")
	if !child.Lent || child.Wallet != parent.Wallet || own.Wallet == parent.Wallet {
		t.Errorf("%+v\n%+v\n%+v", parent, child, own)
	}
	w.buys(pay.Key{ID: child.ID}, 1_000_000, "https://api.example.com/1")
	w.run("keys show worker", "parent research ("+parent.ID+")", "!child ")
	w.run("keys show research", "child worker ("+child.ID+")", "child loner ("+own.ID+")", "!parent ")
	w.run("keys list", "PARENT", parent.ID[:8])
	w.run("limits worker", "parent research", "shared: daily-budget 1 of 5 spent, 4 left", "left today 2 at")
	w.run("limits research", "left today 4 at the proxy", "child worker")
	w.run("limits research --daily-budget 1.5", "left today 0.5", "child worker")
	if got := w.rule(pay.Key{ID: child.ID}, 600_000, "https://api.example.com/2"); got != "daily-budget" {
		t.Errorf("refused by %q", got)
	}
	w.run("keys revoke worker --yes")
	w.run("keys show research", "child worker ("+child.ID+"), revoked")
	w.run("keys pause research --reason lunch")
	if got := w.rule(pay.Key{ID: own.ID}, 1, "https://api.example.com/3"); got != pay.RulePaused {
		t.Errorf("refused by %q", got)
	}
	w.run("audit", "parent "+parent.ID)
	w.fails(map[string]string{
		"keys create --parent worker":                          "revoked",
		"keys create --parent loner":                           "two generations",
		"keys create --parent nobody":                          `no key has the id or label "nobody"`,
		"keys create --parent research --network base-sepolia": "not one that this purser pays on",
		"keys create --parent research --exec":                 "takes no label, wallet or limits",
	})
}

// The child of an organization's key is one of the organization, and its plan bounds it.
func TestFamilyOfAnOrganization(t *testing.T) {
	w := newWorld(t)
	k, _, err := w.Books.CreateKey(t.Context(), books.KeyRequest{OrganizationID: "acme"})
	w.must(err)
	_, err = w.Books.CreateWallet(t.Context(), k, "base")
	w.must(err)
	made := ran[adminapi.CreatedKey](w, "keys create --label worker --parent "+k.ID)
	child := must(w.Books.Key(t.Context(), made.ID))
	if child.OrganizationID != "acme" || child.Operator || child.Parent != k.ID || !made.Lent {
		t.Errorf("%+v, %+v", child, made)
	}
}
