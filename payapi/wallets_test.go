package payapi_test

import (
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/signer"
)

func TestWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.newKey(), w.newKey()
	if a := w.call("GET", "/wallets/me", key, nil).is(200, ""); a.raw != `{"wallets":[]}`+"\n" {
		t.Error(a.raw)
	}
	first := w.call("POST", "/wallets", key, `{"network":"base"}`).is(201, "")
	second := w.call("POST", "/wallets", key, nil).is(201, "")
	for _, a := range []answer{first, second} {
		a.want("network", "base")
		if uuid.Validate(a.text("id")) != nil || !strings.HasPrefix(a.text("wallet_id"), "local_") ||
			!regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`).MatchString(a.text("address")) || len(a.body) != 4 {
			t.Error(a.raw)
		}
	}
	list := w.call("GET", "/wallets/me", key, nil).is(200, "").list("wallets")
	if len(list) != 2 || list[0]["id"] != first.text("id") || list[1]["address"] != second.text("address") {
		t.Errorf("listed %v", list)
	}
	if got := w.call("GET", "/wallets/me", other, nil).is(200, "").list("wallets"); len(got) != 0 {
		t.Errorf("another key sees %v", got)
	}
	path := "/wallets/" + first.text("id")
	w.call("DELETE", path, other, nil).is(404, "Wallet not found")
	w.call("DELETE", "/wallets/"+uuid.NewString(), key, nil).is(404, "Wallet not found")
	for _, id := range []string{"nonsense", "%00", "{" + first.text("id") + "}", strings.Repeat("x", 40_000)} {
		w.call("DELETE", "/wallets/"+id, key, nil).is(404, "Wallet not found")
	}
	w.call("DELETE", "/wallets/me", key, nil).is(404, "Wallet not found")
	if a := w.call("DELETE", path, key, nil).is(204, ""); a.raw != "" || a.header.Get("Content-Type") != "" {
		t.Errorf("204 with %q, %q", a.raw, a.header.Get("Content-Type"))
	}
	w.call("DELETE", path, key, nil).is(404, "Wallet not found")
	if list := w.call("GET", "/wallets/me", key, nil).list("wallets"); len(list) != 1 || list[0]["id"] != second.text("id") {
		t.Errorf("after deleting: %v", list)
	}
}

// A key sees the wallets that are shared with it, and deletes none of them. A key of the operator deletes
// not even its own.
func TestSharedWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator, secret, err := w.books.CreateKey(t.Context(), books.KeyRequest{Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	made := w.call("POST", "/wallets", secret, nil).is(201, "")
	path := "/wallets/" + made.text("id")
	if a := w.call("DELETE", path, secret, nil).is(403, "Not allowed for this key"); a.text("detail") == "" {
		t.Error(a.raw)
	}
	other := w.newKey()
	k, err := w.books.KeyBySecret(t.Context(), other)
	if err == nil {
		err = w.books.ShareWallet(t.Context(), made.text("id"), k.ID)
	}
	if err != nil || k.ID == operator.ID {
		t.Fatal(err)
	}
	own := w.call("POST", "/wallets", other, nil).is(201, "")
	list := w.call("GET", "/wallets/me", other, nil).is(200, "").list("wallets")
	if len(list) != 2 || list[0]["id"] != made.text("id") || list[1]["id"] != own.text("id") {
		t.Errorf("listed %v", list)
	}
	w.call("DELETE", path, other, nil).is(404, "Wallet not found")
}

func TestCreateWalletRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for body, want := range map[string]string{
		`{"network":"solana"}`:       "Unsupported network solana",
		`{"network":"BASE"}`:         "Unsupported network BASE",
		`{"network":"eip155:8453"}`:  "Unsupported network eip155:8453",
		`{"network":"base-sepolia"}`: "Unsupported network base-sepolia",
		`{"network":8453}`:           "Invalid JSON body",
	} {
		if a := w.call("POST", "/wallets", key, body); a.status != 400 || a.text("error") != want {
			t.Errorf("%s: %d %s", body, a.status, a.raw)
		}
	}
	w.call("POST", "/wallets", key, `{"network":null}`).is(201, "").want("network", "base")
}

func TestUnclaimedWalletLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	var last string
	for range 100 {
		last = w.call("POST", "/wallets", key, nil).is(201, "").text("id")
	}
	w.call("POST", "/wallets", key, nil).is(429, "Wallet limit reached for your plan").want("upgradeUrl", w.url+"/dashboard")
	w.call("DELETE", "/wallets/"+last, key, nil).is(204, "")
	w.call("POST", "/wallets", key, nil).is(201, "")
}

// A deleted wallet's row and key stay, so a loop that makes and deletes wallets is slowed down. The
// largest plan can be used up at once, and deleting is not bounded.
func TestWalletRate(t *testing.T) {
	t.Parallel()
	var later atomic.Int64 // turns come back with time, which stands still otherwise
	w := newWorld(t, func(s *setup) {
		s.api.KeyRate = 0
		s.api.Clock = func() time.Time { return time.Date(2026, 11, 15, 12, 0, int(later.Load()), 0, time.UTC) }
	})
	key, other := w.newKey(), w.newKey()
	var made []string
	for range 300 {
		id := w.call("POST", "/wallets", key, nil).is(201, "").text("id")
		w.call("DELETE", "/wallets/"+id, key, nil).is(204, "")
		made = append(made, id)
	}
	last := w.call("POST", "/wallets", key, nil).is(429, "Too many requests").want("upgradeUrl", w.url+"/dashboard")
	if got := last.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	for _, id := range made { // the reason for the bound
		if secret, err := w.store.WalletSecret(t.Context(), id); err != nil || secret == nil {
			t.Fatalf("the key of deleted wallet %s is gone: %v", id, err)
		}
	}
	w.call("POST", "/wallets", other, nil).is(429, "Too many requests") // another key changes nothing
	w.call("POST", "/wallets", other, "\r").is(400, "Invalid JSON body")
	w.call("GET", "/wallets/me", key, nil).is(200, "")
	w.call("POST", "/api-keys", "", nil).is(201, "")
	later.Add(1) // one turn comes back every second
	w.call("POST", "/wallets", other, nil).is(201, "")
	w.call("POST", "/wallets", other, nil).is(429, "Too many requests")
}

func TestWalletsWithoutProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Wallets = signer.None{} })
	key := w.newKey()
	made := w.call("POST", "/wallets", key, nil).is(201, "").want("address", nil)
	if _, there := made.body["address"]; !there || !strings.HasPrefix(made.text("wallet_id"), "purser_") {
		t.Error(made.raw)
	}
	a := w.call("POST", "/v1/pay", key, order(1)).is(402, "Payment verification failed").want("payment", nil)
	if !strings.Contains(a.text("detail"), "no wallet provider is configured") {
		t.Error(a.raw)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for name, header := range map[string][]string{
		"missing": nil, "empty": {"X-Api-Key", ""}, "unknown": {"X-Api-Key", "pk_unknown_key"}, "malformed": {"X-Api-Key", "pk_ \tx"},
		"twice": {"X-Api-Key", key, "X-Api-Key", key}, "list": {"X-Api-Key", key + ", " + key},
		"prefix": {"X-Api-Key", key[:len(key)-1]}, "long": {"X-Api-Key", strings.Repeat("k", 5000)},
		"bearer": {"Authorization", "Bearer " + key},
	} {
		for _, route := range []string{
			"GET /wallets/me", "POST /wallets", "DELETE /wallets/x", "POST /v1/pay", "GET /v1/spend",
			"GET /v1/payments", "GET /v1/payments/x", "POST /v1/payments/x/receipt",
		} {
			method, path, _ := strings.Cut(route, " ")
			a := w.call(method, path, "", nil, header...)
			if a.status != 401 || a.text("error") != "API key not resolved" {
				t.Errorf("%s, %s: %d %s", name, route, a.status, a.raw)
			}
		}
	}
}
