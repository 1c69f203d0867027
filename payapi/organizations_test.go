package payapi_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// An organization's limits hold at every door. The same payer serves the REST API and the calls of
// the dashboard.

const (
	keyLimit    = "API key limit reached for your plan"
	walletLimit = "Wallet limit reached for your plan"
	quotaText   = "Payment limit reached for your plan this month"
)

// little is a table of plans with little room.
var little = pay.Plans{
	pay.PlanFree:      {Keys: 2, Wallets: 2, Payments: 2},
	pay.PlanDeveloper: {Keys: 3, Wallets: 3, Payments: 3},
}

func withPlans(s *setup) { s.pay.Plans = little }

// signedIn returns a new account and the secret of its first key.
func (w *world) signedIn(subject string) (pay.Account, string) {
	w.t.Helper()
	a, _, err := w.books.SignIn(w.t.Context(), pay.Identity{Issuer: "https://id.example.com", Subject: subject})
	if err != nil {
		w.t.Fatal(err)
	}
	keys, err := w.books.KeysIn(w.t.Context(), books.OfOrganization(a.OrganizationID))
	if err != nil || len(keys) != 1 {
		w.t.Fatalf("%d keys, %v", len(keys), err)
	}
	secret, err := w.books.RevealKey(w.t.Context(), books.OfOrganization(a.OrganizationID), keys[0].ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, secret
}

// claim calls POST /api-keys for an organization.
func (w *world) claim(org string) answer {
	w.t.Helper()
	return w.call("POST", "/api-keys", "", map[string]any{"organization_id": org}, "X-Internal-Secret", internalSecret)
}

// buys pays for a new order.
func (w *world) buys(key string) answer {
	w.t.Helper()
	return w.call("POST", "/v1/pay", key, w.purchase())
}

var purchases atomic.Int64

func (w *world) purchase() map[string]any {
	return map[string]any{
		"paymentRequiredHeader": v2(requirementV2(nil)), "requestUrl": fmt.Sprintf("https://api.example.com/%d", purchases.Add(1)),
	}
}

// uses checks the usage of an organization.
func (w *world) uses(org string, keys, wallets, payments int) {
	w.t.Helper()
	u, err := w.books.Usage(w.t.Context(), org)
	if err != nil || u.Keys != keys || u.Wallets != wallets || u.Payments != payments {
		w.t.Fatalf("%+v, %v; want %d keys, %d wallets, %d payments", u, err, keys, wallets, payments)
	}
}

func (w *world) fails(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Fatalf("error %v, want %v", err, want)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// At both doors each limit admits exactly its number, and refuses the next.
func TestPlanLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPlans)
	ctx := t.Context()
	a, first := w.signedIn("ada")
	org := a.OrganizationID
	stranger := w.newKey()
	w.uses(org, 1, 0, 0)

	second := w.claim(org).is(201, "").text("key")
	full := func(keys int) {
		t.Helper()
		w.claim(org).is(429, keyLimit).want("upgradeUrl", w.url+"/dashboard")
		_, _, err := w.books.CreateKey(ctx, books.KeyRequest{OrganizationID: org})
		w.fails(err, pay.ErrKeyLimit)
		_, err = w.books.LinkKey(ctx, org, stranger)
		w.fails(err, pay.ErrKeyLimit)
		u, err := w.books.Usage(ctx, org)
		if err != nil || u.Keys != keys {
			t.Fatalf("%+v, %v", u, err)
		}
	}
	full(2)

	w.call("POST", "/wallets", first, nil).is(201, "")
	key, err := w.payer.Resolve(ctx, second)
	w.must(err)
	_, err = w.books.CreateWallet(ctx, key, "base")
	w.must(err)
	noRoom := func(wallets int) {
		t.Helper()
		w.call("POST", "/wallets", first, nil).is(429, walletLimit).want("upgradeUrl", w.url+"/dashboard")
		w.call("POST", "/wallets", second, nil).is(429, walletLimit)
		_, err := w.books.CreateWallet(ctx, key, "base")
		w.fails(err, pay.ErrWalletLimit)
		list, err := w.books.WalletsIn(ctx, books.OfOrganization(org))
		if err != nil || len(list) != wallets {
			t.Fatalf("%d wallets, %v", len(list), err)
		}
	}
	noRoom(2)

	w.buys(first).is(200, "")
	w.buys(second).is(200, "")
	used := func(payments int) {
		t.Helper()
		for _, key := range []string{first, second} {
			w.buys(key).is(429, quotaText).want("upgradeUrl", w.url+"/dashboard")
		}
		u, err := w.books.Usage(ctx, org)
		if err != nil || u.Payments != payments || u.Plan.Payments != payments {
			t.Fatalf("%+v, %v", u, err)
		}
	}
	used(2)

	// A better plan has room for one more of each, and not for two.
	_, err = w.books.SetPlan(ctx, org, "developer")
	w.must(err)
	_, err = w.books.LinkKey(ctx, org, stranger)
	w.must(err)
	stranger = w.newKey()
	full(3)
	w.call("POST", "/wallets", first, nil).is(201, "")
	noRoom(3)
	w.buys(second).is(200, "")
	used(3)

	// Going back to a smaller plan takes nothing away and admits nothing new.
	_, err = w.books.SetPlan(ctx, org, pay.PlanFree)
	w.must(err)
	full(3)
	noRoom(3)
	w.buys(first).is(429, quotaText)
	u, err := w.books.Usage(ctx, org)
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	if err != nil || u.Payments != 3 || u.Plan != (pay.Plan{Name: "FREE", Price: "0", Keys: 2, Wallets: 2, Payments: 2}) ||
		!u.Month.Equal(month) || !u.Resets.Equal(month.AddDate(0, 1, 0)) {
		t.Fatalf("%+v, %v", u, err)
	}
	w.clock.advance(16 * 24 * time.Hour) // December
	w.buys(first).is(200, "")
	w.buys(first).is(200, "")
	w.buys(first).is(429, quotaText)
	w.uses(org, 3, 3, 2)
}

// A linked key brings no places along, and does not free the organization's places. Each payment
// takes one place, where it was counted first.
func TestLinkingInTheMiddleOfAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPlans)
	ctx := t.Context()
	a, first := w.signedIn("ada")
	org := a.OrganizationID
	w.call("POST", "/wallets", first, nil).is(201, "")
	w.buys(first).is(200, "")
	w.uses(org, 1, 1, 1)

	own := w.payingKey()
	w.call("POST", "/wallets", own, nil).is(201, "")
	w.call("POST", "/wallets", own, nil).is(201, "")
	w.buys(own).is(200, "")
	w.buys(own).is(200, "")
	w.buys(own).is(429, quotaText) // as many as on the free plan
	k, err := w.books.LinkKey(ctx, org, own)
	w.must(err)
	w.uses(org, 2, 4, 1)
	w.buys(own).is(200, "")
	w.buys(own).is(429, quotaText)
	w.buys(first).is(429, quotaText)
	w.uses(org, 2, 4, 2)
	before, err := w.store.Counter(ctx, pay.PlaceCounter("key/"+k.ID, w.clock.now()))
	if err != nil || before.String() != "2" {
		t.Fatalf("%s places of the key are taken, %v", before, err)
	}

	// Its wallets stay and go on paying. There is no room for another one.
	list := w.call("GET", "/wallets/me", own, nil).is(200, "").list("wallets")
	if len(list) != 3 {
		t.Fatalf("%d wallets", len(list))
	}
	w.call("POST", "/wallets", own, nil).is(429, walletLimit)
	for range 2 { // three are left where two are allowed
		id, _ := list[0]["id"].(string)
		w.call("DELETE", "/wallets/"+id, own, nil).is(204, "")
		w.call("POST", "/wallets", own, nil).is(429, walletLimit)
		list = list[1:]
	}
	id, _ := list[0]["id"].(string)
	w.call("DELETE", "/wallets/"+id, own, nil).is(204, "")
	w.call("POST", "/wallets", own, nil).is(201, "")
	w.uses(org, 2, 2, 2)

	_, err = w.books.LinkKey(ctx, org, own)
	w.fails(err, pay.ErrKeyLinked)
	other, _ := w.signedIn("bob")
	_, err = w.books.LinkKey(ctx, other.OrganizationID, own)
	w.fails(err, pay.ErrKeyClaimed)
	for _, secret := range []string{"", "pk_unknown-key", "short", strings.Repeat("x", 300), own + " ", "pk_\x00"} {
		_, err = w.books.LinkKey(ctx, other.OrganizationID, secret)
		w.fails(err, pay.ErrKeyNotFound)
	}
}

// Organizations cannot see each other's things.
func TestOrganizationsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a, secret := w.signedIn("ada")
	b, _ := w.signedIn("bob")
	key, err := w.payer.Resolve(ctx, secret)
	w.must(err)
	wallet, err := w.books.CreateWallet(ctx, key, "base")
	w.must(err)
	_, err = w.books.KeyIn(ctx, books.OfOrganization(a.OrganizationID), key.ID)
	w.must(err)
	_, err = w.books.WalletIn(ctx, books.OfOrganization(a.OrganizationID), wallet.ID)
	w.must(err)
	unclaimed, err := w.payer.Resolve(ctx, w.payingKey())
	w.must(err)
	theirs, err := w.books.ListWallets(ctx, unclaimed)
	w.must(err)
	for _, org := range []string{b.OrganizationID, "", "org_", "org_unknown"} {
		for _, id := range []string{key.ID, unclaimed.ID, "", "unknown"} {
			_, err = w.books.KeyIn(ctx, books.OfOrganization(org), id)
			w.fails(err, pay.ErrKeyNotFound)
			_, err = w.books.RevealKey(ctx, books.OfOrganization(org), id)
			w.fails(err, pay.ErrKeyNotFound)
		}
		for _, id := range []string{wallet.ID, theirs[0].ID, "", "unknown"} {
			_, err = w.books.WalletIn(ctx, books.OfOrganization(org), id)
			w.fails(err, pay.ErrWalletNotFound)
		}
	}
	w.must(w.books.DeleteWallet(ctx, key, wallet.ID))
	_, err = w.books.WalletIn(ctx, books.OfOrganization(a.OrganizationID), wallet.ID)
	w.fails(err, pay.ErrWalletNotFound)

	logs := w.logs.String()
	if !strings.Contains(logs, "API key revealed") || !strings.Contains(logs, key.ID) {
		t.Error("nobody is told that a key was shown")
	}
	if strings.Contains(logs, secret) {
		t.Error("the log has the key")
	}
}
