package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// operator is the actor of the admin endpoint.
func (w *world) operator() (by pay.Actor) { return pay.Operator("ann-the-operator") }

// pays reports whether a key gets a new payment, and the rule that prevents it.
func (p *person) pays(at string) string {
	p.t.Helper()
	_, err := p.try(p.key, at, "", "10000")
	if refused, ok := errors.AsType[*pay.PolicyError](err); ok {
		return refused.Rule
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return ""
}

func TestPausingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	path := "/dashboard/keys/" + ada.key.ID
	ada.get(path).is(200, "Pause key", "Revoke key").without("Resume key", "<strong>Paused")
	ada.get(path + "/pause").is(http.StatusNotFound) // a link must not pause a key
	ada.post(path + "/pause").to(path)
	ada.get(path).is(200, "Key paused.", "<strong>Paused</strong>", "Resume key").without("Pause key")
	ada.get("/dashboard/keys").is(200, `<span class="badge play">paused</span>`)
	if rule := ada.pays("https://api.example.com/1"); rule != "paused" {
		t.Fatalf("a paused key is refused by %q", rule)
	}
	ada.post(path + "/resume").to(path)
	ada.get(path).is(200, "Key resumed.", "Pause key").without("<strong>Paused")
	if rule := ada.pays("https://api.example.com/2"); rule != "" {
		t.Fatalf("a resumed key is refused by %q", rule)
	}

	// An account cannot resume a key that the operator has paused.
	if _, err := w.books.StopKey(pay.WithActor(t.Context(), w.operator()), ada.key.ID, pay.KeyStop{Do: pay.StopPause, Reason: "pays too much"}); err != nil {
		t.Fatal(err)
	}
	ada.get(path).is(200, "pays too much", "Only the operator can resume it").without("Resume key", "ann-the-operator")
	ada.post(path+"/resume").is(http.StatusConflict, "Paused by the operator")
	ada.post(path + "/pause").to(path)
	ada.post(path + "/resume").is(http.StatusConflict)
	if rule := ada.pays("https://api.example.com/3"); rule != "paused" {
		t.Fatalf("a key that the operator has paused is refused by %q", rule)
	}
}

// A host that purser has paused for a key stands on the page of the key. A person who may change the key lets it on again.
func TestResumingAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	w.wallet(ada.key, 5_000_000)
	path := "/dashboard/keys/" + ada.key.ID
	ada.get(path).is(200).without("nothing</strong> since")
	for host, by := range map[string]pay.Actor{"api.example.com": {Kind: pay.ActorPurser}, "bad.example.com:8443": w.operator()} {
		if _, err := w.books.StopKey(pay.WithActor(t.Context(), by), ada.key.ID, pay.KeyStop{Do: pay.StopPause, Host: host, Reason: "gave <nothing>"}); err != nil {
			t.Fatal(err)
		}
	}
	ada.get(path).is(200, "Pays api.example.com nothing</strong>", "gave &lt;nothing&gt;", "Pay this host again", "Pays bad.example.com:8443 nothing</strong>", "Only the operator can resume it")
	if rule := ada.pays("https://api.example.com/1"); rule != pay.RuleHostPaused {
		t.Fatalf("a paused host is refused by %q", rule)
	}
	if rule := ada.pays("https://other.example.com/1"); rule != "" {
		t.Fatalf("another host is refused by %q", rule)
	}
	eve.post(path+"/resume", "host", "api.example.com").is(http.StatusNotFound)
	ada.post(path+"/resume", "host", "bad.example.com:8443").is(http.StatusConflict)
	ada.post(path+"/resume", "host", "not a host").is(http.StatusBadRequest)
	ada.post(path+"/resume", "host", "api.example.com").to(path)
	ada.get(path).is(200, "Host resumed.").without("Pays api.example.com nothing")
	if rule := ada.pays("https://api.example.com/1"); rule != "" {
		t.Fatalf("a resumed host is refused by %q", rule)
	}
	ada.get("/dashboard/audit?key="+ada.key.ID).is(200, "api.example.com")
}

func TestRevokingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	payment := w.buy(ada.key, "https://api.example.com/report", "", "10000")
	path := "/dashboard/keys/" + ada.key.ID
	again := "/dashboard/sign-in?again=1&return=" + strings.ReplaceAll(path+"/revoke", "/", "%2F")
	for _, auth := range []time.Time{{}, w.clock.now().Add(-15 * time.Minute)} {
		ada.auth = auth
		ada.get(path + "/revoke").to(again)
		ada.post(path + "/revoke").to(again)
	}
	ada.auth = w.clock.now().Add(-4 * time.Minute)
	ada.post(path + "/reveal").to(path)
	secret := shownKey.FindString(ada.get(path).is(200).body)
	ada.get(path+"/revoke").is(200, "Revoke this key?", "Money stays", "Keep it")
	if k, err := w.payer.Resolve(t.Context(), secret); err != nil || k.Revoked() {
		t.Fatalf("asking has revoked it: %v", err)
	}
	ada.post(path + "/revoke").to(path)
	if _, err := w.payer.Resolve(t.Context(), secret); !errors.Is(err, pay.ErrKeyNotFound) {
		t.Fatalf("a revoked key resolves: %v", err)
	}
	ada.get(path).is(200, "Key revoked.", "<strong>Revoked</strong>").without("Pause key", "Reveal key", "Revoke key", "Use it")
	ada.get(path + "/revoke").to(path)
	ada.post(path+"/pause").is(http.StatusConflict, "This key is revoked")
	ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusConflict)
	ada.get("/dashboard/keys").is(200, `<span class="badge">revoked</span>`, "0 of 3 of your plan")
	ada.get("/dashboard/payments/" + payment.ID).is(200)
	for range 3 {
		ada.post("/dashboard/keys", "label", "another").is(http.StatusSeeOther)
	}
	ada.post("/dashboard/keys", "label", "one too many").is(http.StatusTooManyRequests, "Revoke a key")
}

func TestPausingEverythingIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	if _, err := w.books.PauseAll(pay.WithActor(t.Context(), w.operator()), "wallets are moved"); err != nil {
		t.Fatal(err)
	}
	ada.get("/dashboard/").is(200, "The operator paused all new payments", "wallets are moved").without("ann-the-operator")
	if rule := ada.pays("https://api.example.com/"); rule != "paused" {
		t.Fatalf("refused by %q", rule)
	}
	ada.get("/dashboard/audit").is(200).without("wallets are moved") // it concerns all organizations
}

func TestChangesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	operator := pay.WithActor(t.Context(), w.operator())
	loose, secret, err := w.books.CreateKey(operator, books.KeyRequest{Label: "made before it was linked"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.books.SetPolicy(operator, loose.ID, &policy.Policy{DailyBudget: policy.CapOf(money.New(11_000_000))}); err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/keys/link", "key", secret).is(http.StatusSeeOther)
	ada.post("/dashboard/keys/" + loose.ID + "/pause").is(http.StatusSeeOther)
	created := ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusSeeOther).header.Get("Location")
	ada.post(created + "/delete").is(http.StatusSeeOther)
	if _, err := w.books.SetPlan(operator, ada.account.OrganizationID, pay.PlanAgency); err != nil {
		t.Fatal(err)
	}
	if _, err := w.books.SetPolicy(operator, ada.key.ID, &policy.Policy{DailyBudget: policy.CapOf(money.New(7_000_000))}); err != nil {
		t.Fatal(err)
	}
	page := ada.get("/dashboard/audit").is(200, "Key created", "First key", "Key linked", "Key paused", "Wallet created", "Wallet deleted", "Plan changed",
		"plan AGENCY", "Limits set", "policy (daily budget 7 USDC)", ">you<", ">the operator<")
	page.without(secret, "ann-the-operator", "11000000")
	ada.get("/dashboard/audit?key="+loose.ID).is(200, "Key linked", "Key paused").without("Wallet created", "11000000")
	ada.get("/dashboard/audit?key=" + ada.key.ID + "&before=x").is(http.StatusNotFound)
	eve.get("/dashboard/audit").is(200, "Key created").without("Key linked", ada.key.ID, loose.ID, ada.account.ID)
	eve.get("/dashboard/audit?key=" + loose.ID).is(http.StatusNotFound)
	ada.get("/dashboard/settings").is(200, `href="/dashboard/audit"`)

	// Page by page.
	for i := range 101 {
		if _, err := w.books.StopKey(operator, ada.key.ID, pay.KeyStop{Do: pay.StopPause, Reason: fmt.Sprint("again ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	first := ada.get("/dashboard/audit").is(200, "Older changes")
	first.without("Key linked")
	_, next, _ := strings.Cut(first.body, `<a href="/dashboard/audit?before=`)
	next, _, _ = strings.Cut(next, `"`)
	ada.get("/dashboard/audit?before="+next).is(200, "Key linked", "Key created").without("Older changes")
}
