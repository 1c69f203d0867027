package dashboard

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// fill writes a history of payments into the store of a purser, which is stopped for that time.
func (h *house) fill(payments int, keys []string, flags ...string) {
	h.t.Helper()
	if err := h.purser.Stop(syscall.SIGTERM); err != nil {
		h.t.Fatalf("stop purser: %v", err)
	}
	began := time.Now()
	args := slices.Concat(flags, []string{h.purser.Data, strconv.Itoa(payments)}, keys)
	if out, err := exec.CommandContext(h.t.Context(), process.Build(h.t, "fill", "./e2e/dashboard/fill"), args...).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	h.t.Logf("%d payments of %d keys written in %s", payments, len(keys), time.Since(began).Round(time.Millisecond))
	h.startPurser()
}

// TestPages looks at every page as people do: what axe-core says of it, what it transfers, whether it keeps its own
// policy and fits its window, the keyboard; and takes pictures. See pages.mjs.
func TestPages(t *testing.T) {
	needBrowser(t)
	h := newHouse(t, "PURSER_APPROVAL_WAIT=0s")
	ada := h.signIn("ada")
	agent, err := h.newKey("research <i>agent</i> with a name that is rather long for a table")
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/keys/link", "key", agent.Key).is(t, 200, "Key linked")
	own, _ := ada.newKey("nightly")
	keys := ada.ids("/dashboard/keys", "keys")
	if len(keys) != 3 {
		t.Fatalf("keys %v", keys)
	}
	made := ada.post("/dashboard/wallets", "key", own, "network", "base")
	made.is(t, 200, "Wallet created")
	h.fill(2500, keys)
	for _, task := range []string{"nightly", "research"} {
		if err := h.buy(agent.Key, task, h.world.SellerURL()+"/weather"); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"/weather", "/weather?again"} {
		if err := h.unpaid(agent.Key, "research", h.world.SellerURL()+host, "max-amount", "Purser-Max-Amount", "0.000001"); err != nil {
			t.Fatal(err)
		}
	}
	h.purser.Must(h.t, "limits", "research <i>agent</i> with a name that is rather long for a table", "--require-approval-above", "0.001")
	for _, n := range []string{"1", "2", "3"} {
		if err := h.unpaid(agent.Key, "research", h.world.SellerURL()+"/weather?held="+n, "approval-needed"); err != nil {
			t.Fatal(err)
		}
	}
	held := ada.ids("/dashboard/approvals", "approvals")
	if len(held) != 3 {
		t.Fatalf("approvals %v", held)
	}
	wallets, payments := ada.ids("/dashboard/wallets", "wallets"), ada.ids("/dashboard/payments", "payments")
	if len(wallets) != 2 || len(payments) < 50 {
		t.Fatalf("%d wallets and %d payments", len(wallets), len(payments))
	}
	visit := map[string]string{
		"overview": "/dashboard/", "overview-90": "/dashboard/?range=90-days",
		"overview-days": "/dashboard/?from=2026-01-30&to=2026-02-02", "overview-hosts": "/dashboard/?range=this-month&by=host", "overview-keys": "/dashboard/?by=key",
		"overview-wrong": "/dashboard/?from=x", "keys": "/dashboard/keys", "key": "/dashboard/keys/" + keys[1], "wallets": "/dashboard/wallets",
		"wallet": "/dashboard/wallets/" + wallets[0], "wallet-delete": "/dashboard/wallets/" + wallets[0] + "/delete", "spend": "/dashboard/spend",
		"wallet-fund": "/dashboard/wallets/" + wallets[0] + "?fund=12.5", "wallet-fund-wrong": "/dashboard/wallets/" + wallets[0] + "?fund=x",
		"wallet-withdraw": "/dashboard/wallets/" + wallets[0] + "/withdraw",
		"spend-filtered":  "/dashboard/spend?task=task-2&host=api-0.example.com", "spend-none": "/dashboard/spend?host=nobody.example.com",
		"spend-wrong": "/dashboard/spend?task=%3Cb%3E&from=x", "payments": "/dashboard/payments", "payments-disputed": "/dashboard/payments?state=disputed",
		"payment": "/dashboard/payments/" + payments[0], "settings": "/dashboard/settings", "nothing": "/dashboard/nothing",
		"key-paused": "/dashboard/keys/" + own, "audit": "/dashboard/audit",
		"approvals": "/dashboard/approvals", "approvals-denied": "/dashboard/approvals?state=denied", "approval": "/dashboard/approvals/" + held[0],
		"payments-search": "/dashboard/payments?q=0x" + strings.Repeat("0", 64),
		"declined":        "/dashboard/declined", "declined-none": "/dashboard/declined?host=nobody.example.com", "payments-filtered": "/dashboard/payments?host=api-0.example.com&range=30-days",
		"limits": "/dashboard/keys/" + keys[1] + "/limits", "key-reissue": "/dashboard/keys/" + keys[1] + "/reissue", "key-revoke": "/dashboard/keys/" + keys[1] + "/revoke",
	}
	ada.post("/dashboard/keys/"+own+"/pause").is(t, 200, "Key paused")
	for _, id := range ada.ids("/dashboard/payments?state=disputed", "payments") {
		visit["payment-disputed"] = "/dashboard/payments/" + id
	}
	if visit["payment-disputed"] == "" {
		t.Fatal("no payment is disputed")
	}
	unset := newHouse(t, "PURSER_OIDC_ISSUER=", "PURSER_OIDC_CLIENT_ID=", "PURSER_OIDC_CLIENT_SECRET=")
	drive(t, "pages.mjs", nil, "BASE", h.url(""), "VISIT", text(t, visit),
		"EMPTY", text(t, map[string]string{
			"overview": "/dashboard/", "keys": "/dashboard/keys", "wallets": "/dashboard/wallets", "spend": "/dashboard/spend", "payments": "/dashboard/payments", "settings": "/dashboard/settings", "declined": "/dashboard/declined", "approvals": "/dashboard/approvals",
		}),
		"NOTICES", text(t, map[string][]any{
			"signed-out": {"/dashboard/sign-in?out=everywhere", 200}, "over": {"/dashboard/callback?state=x&code=y", 400}, "setup": {unset.url("/dashboard/"), 200}, "link": {unset.url("/dashboard/link"), 200},
		}))
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
