package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// A reissued key shows its new secret once. The old one has ended, and limits and wallets stay.
func TestReissuingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	path := "/dashboard/keys/" + ada.key.ID
	old, err := w.books.RevealKey(t.Context(), books.OfOrganization(ada.account.OrganizationID), ada.key.ID)
	if err != nil {
		t.Fatal(err)
	}
	ada.get(path+"/reissue").is(200, "stops working at once", "For a day")
	ada.post(path + "/reissue").to(path)
	secret := shownKey.FindString(ada.get(path).is(200, "Key reissued", "Your new key").body)
	if k, err := w.payer.Resolve(t.Context(), secret); err != nil || k.ID != ada.key.ID || secret == old {
		t.Fatalf("the new secret finds %v, %v", k, err)
	}
	if _, err := w.payer.Resolve(t.Context(), old); err == nil {
		t.Error("the old secret still pays")
	}
	ada.get(path).is(200).without(secret)
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{KeyID: ada.key.ID, Limit: 1})
	if err != nil || entries[0].Action != pay.ActionKeyReissue || entries[0].By.ID != ada.account.ID {
		t.Errorf("the audit: %+v, %v", entries, err)
	}
}

// With an overlap both secrets work, the pages say until when, and the old one can be ended early.
func TestReissuingAKeyWithAnOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	path := "/dashboard/keys/" + ada.key.ID
	old, err := w.books.RevealKey(t.Context(), books.OfOrganization(ada.account.OrganizationID), ada.key.ID)
	if err != nil {
		t.Fatal(err)
	}
	ada.post(path+"/reissue", "overlap", "soon").is(http.StatusBadRequest)
	ada.post(path+"/reissue", "overlap", "24h").to(path)
	ada.get(path).is(200, "works for a while yet", "The old secret works", "End the old secret now")
	ada.get("/dashboard/keys").is(200, "2 secrets")
	ada.get(path+"/reissue").is(200, "The secret before it")
	if k, err := w.payer.Resolve(t.Context(), old); err != nil || k.ID != ada.key.ID {
		t.Fatalf("the old secret finds %v, %v", k, err)
	}
	ada.post(path + "/end-overlap").to(path)
	ada.get(path).is(200, "The old secret has ended").without("The old secret works")
	ada.get("/dashboard/keys").is(200).without("2 secrets")
	if _, err := w.payer.Resolve(t.Context(), old); !errors.Is(err, pay.ErrKeyNotFound) {
		t.Errorf("the old secret still works: %v", err)
	}
}

func TestPausingWithAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	path := "/dashboard/keys/" + ada.key.ID
	ada.post(path+"/pause", "reason", " the agent <loops> ").to(path)
	ada.get(path).is(200, "the agent &lt;loops&gt;")
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Paused == nil || k.Paused.Reason != "the agent <loops>" {
		t.Errorf("paused: %+v", k.Paused)
	}
	ada.post(path+"/pause", "reason", strings.Repeat("x", 3000)).is(http.StatusBadRequest)
}

// A key is made with its limits and its wallet in one step.
func TestANewKeyHasLimitsAndAWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	path := ada.post("/dashboard/keys", "label", "agent", "wallet", "own", "max_payment", "0.05", "daily_budget", "2").is(http.StatusSeeOther).header.Get("Location")
	k, err := w.books.Key(t.Context(), path[len("/dashboard/keys/"):])
	if err != nil || k.Policy == nil || k.Policy.MaxPayment.String() != "50000" || k.Policy.DailyBudget.String() != "2000000" {
		t.Fatalf("made %+v, %v", k, err)
	}
	if wallets, err := w.books.ListWallets(t.Context(), k); err != nil || len(wallets) != 1 || wallets[0].KeyID != k.ID {
		t.Errorf("its wallets: %v, %v", wallets, err)
	}
	ada.post("/dashboard/keys", "label", "wrong", "max_payment", "x").is(http.StatusUnprocessableEntity, "not an amount", `value="wrong"`)
	ada.auth = w.clock.now().Add(-16 * time.Minute)
	// More than the configured limit needs a fresh sign-in, and the form comes back.
	to := ada.post("/dashboard/keys", "label", "dear", "wallet", "none", "max_payment", "7").is(http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(to, "/dashboard/sign-in?again=1") {
		t.Fatalf("leads to %s", to)
	}
	ada.get("/dashboard/keys?label=dear&max_payment=7").is(200, `value="dear"`, `value="7"`)
	if keys, _ := w.books.KeysIn(t.Context(), books.OfOrganization(ada.account.OrganizationID)); len(keys) != 2 {
		t.Errorf("%d keys", len(keys))
	}
	ada.auth = w.clock.now()
	ada.post("/dashboard/keys", "label", "dear", "wallet", "none", "max_payment", "7").is(http.StatusSeeOther)
	op := w.operates()
	path = op.post("/dashboard/keys", "label", "ops", "wallet", "shared").is(http.StatusSeeOther).header.Get("Location")
	if k, _ = w.books.Key(t.Context(), path[len("/dashboard/keys/"):]); !k.Operator || k.Claimed() {
		t.Errorf("the operator's key: %+v", k)
	}
}

var (
	rowKey   = regexp.MustCompile(`<th scope="row"><a class="wrap" href="/dashboard/keys/([0-9a-f-]{36})"`)
	nextPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)
)

// brokenWallets makes no wallet.
type brokenWallets struct{ pay.Wallets }

func (brokenWallets) Create(context.Context, string, string) (pay.ProvidedWallet, error) {
	return pay.ProvidedWallet{}, errors.New("the provider is down")
}

// Where no wallet can be made, no key is left that could not pay.
func TestNoKeyIsLeftWithoutItsWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.wallets = func(own pay.Wallets) pay.Wallets { return brokenWallets{own} } })
	for _, p := range []*person{w.person("ada"), w.operates()} {
		if got := p.post("/dashboard/keys", "label", "orphan", "wallet", "own"); got.status < 500 {
			t.Errorf("answered %d", got.status)
		}
		keys, err := w.books.KeysIn(t.Context(), books.OfOperator())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if k.Label == "orphan" && !k.Revoked() {
				t.Errorf("%s is left", k.ID)
			}
		}
	}
}

// Bars say in words what is used and what of it is reserved, and when they start again.
func TestBudgetBars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.clock.set(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	w.wallet(ada.key, 50_000_000)
	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, &policy.Policy{DailyBudget: policy.CapOf(money.New(2_000_000))}); err != nil {
		t.Fatal(err)
	}
	w.buy(ada.key, "https://api.example.com/1", "", "1500000")
	w.chain.set(func(l *ledger) { l.unclear = true })
	_, _ = w.try(ada.key, "https://api.example.com/2", "", "200000")
	for path, parts := range map[string][]string{
		"/dashboard/keys":               {"1.70 of 2.00", "85 % used, 0.20 of it reserved", "gauge-warn", "no limit"},
		"/dashboard/keys/" + ada.key.ID: {"1.70 of 2.00", "0.30 USDC left", "Starts again at 00:00 UTC.", "Starts again on 1 December, 00:00 UTC."},
	} {
		ada.get(path).is(200, parts...)
	}
}

// The operator's lists have 100 rows a page, whatever strangers make.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.operates()
	for i := range 205 {
		if _, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: fmt.Sprintf("stranger %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	seen, pages := map[string]bool{}, 0
	for path := "/dashboard/keys"; path != ""; pages++ {
		page := op.get(path).is(200).body
		found := rowKey.FindAllStringSubmatch(page, -1)
		for _, id := range found {
			if seen[id[1]] {
				t.Errorf("%s is on two pages", id[1])
			}
			seen[id[1]] = true
		}
		if len(found) > 100 || pages > 5 {
			t.Fatalf("%d rows on page %d", len(found), pages)
		}
		path = ""
		if next := nextPage.FindStringSubmatch(page); next != nil {
			path = next[1]
		}
	}
	if len(seen) != 205 || pages != 3 {
		t.Errorf("%d keys on %d pages", len(seen), pages)
	}
	op.get("/dashboard/keys?after=x").is(http.StatusNotFound)
}
