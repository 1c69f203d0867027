package adminapi_test

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// Payments, wallets and organizations are found by the beginning of an id, if that fits one.
func TestFindByBeginning(t *testing.T) {
	w := newWorld(t)
	k, other := w.key("research"), w.key("ci")
	first, second := w.buys(k, 10_000, "https://api.example.com/1"), w.buys(other, 20_000, "https://api.example.com/2")
	differ := 0
	for first[differ] == second[differ] {
		differ++
	}
	short := first[:differ+1]
	if len(short) < 9 {
		t.Skip("a minute ended between the two payments, so the beginnings of their ids differ")
	}
	for name, id := range map[string]string{short: first, strings.ToUpper(short): first, second[:35]: second, second: second} {
		if got := ran[adminapi.Story](w, "payments show "+name); got.ID != id || got.KeyLabel == "" {
			t.Errorf("%s: %+v", name, got.Payment)
		}
	}
	wallets := ran[adminapi.Wallets](w, "wallets").Wallets
	if len(wallets) != 2 || wallets[0].KeyLabel != "research" {
		t.Fatalf("%+v", wallets)
	}
	w.fails(map[string]string{
		"payments show " + first[:differ]:                                   "fits several payments: give the whole id of " + second + " (0.02 USDC for api.example.com, settled) or " + first,
		"payments show " + first[:7]:                                        "the first 8 characters or more",
		"payments show 0199zzzz":                                            "no payment has the id",
		"payments resolve " + first[:differ] + " --as void --reason x":      "fits several payments",
		"payments show " + first[:len(first)-1] + "z":                       "no payment has the id",
		"payments show 00000000-0000-7000-8000-000000000000":                "no payment has the id",
		"wallets cancel " + wallets[0].ID + " " + first[:differ] + " --yes": "fits several payments",
	})

	address := *wallets[0].Address
	for _, name := range []string{address, address[:10], strings.ToLower(address[:12])} {
		if got := get[adminapi.Wallet](w, "/wallets/"+name); got.ID != wallets[0].ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w.fails(map[string]string{
		"wallets authorizations " + wallets[0].ID[:9]: "fits several wallets",
		"wallets authorizations " + address[:7]:       "no wallet has the id or address",
	})

	org := sent[adminapi.PreparedAccount](w, "POST", "/organizations", `{"issuer":"https://idp.example","subject":"o","name":"Olga","email":"o@example.com"}`).Organization
	bare := strings.TrimPrefix(org.ID, "org_")
	for _, name := range []string{org.ID, org.ID[:20], bare[:13]} {
		if got := ran[adminapi.Organization](w, "organizations plan "+name+" agency"); got.ID != org.ID || got.Plan != pay.PlanName("AGENCY") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w.fails(map[string]string{"organizations plan org_0199 agency": "no organization has the id"})
}

// sent sends a request that must succeed.
func sent[T any](w *world, method, path, body string) T {
	w.t.Helper()
	status, text := w.send(method, path, "application/json", body)
	if status >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return decode[T](w, text)
}
