package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

func TestWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.get("/dashboard/wallets").is(200, "No wallet yet", ada.key.ID)
	path := ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusSeeOther).header.Get("Location")
	list, err := w.books.WalletsIn(t.Context(), books.OfOrganization(ada.account.OrganizationID))
	if err != nil || len(list) != 1 || path != "/dashboard/wallets/"+list[0].ID {
		t.Fatalf("wallets: %v, %v, %s", list, err, path)
	}
	address := list[0].Address.String()
	w.chain.fund(*list[0].Address, 1_500_000)
	ada.get(path).is(200, address, `<svg class="qr"`, "Send <strong>USDC on Base</strong>", "needs no ETH")
	ada.get(path+"?balance=now").is(200, `<p class="balance"><span class="amount">1.5 `) // without scripts
	ada.get("/dashboard/wallets").is(200, `hx-get="`+path+`/balance"`)
	ada.get(path+"/balance", "HX-Request", "true").is(200, "1<span", ">.5<", "USDC").without("<html")
	ada.get(path+"/balance?large=1", "HX-Request", "true").is(200, "On the chain, as of").without("<html")
	ada.get(path + "/balance").to(path + "?balance=now")
	ada.post("/dashboard/wallets", "key", ada.key.ID, "network", "solana").is(http.StatusBadRequest, "Unsupported network solana")
}

func TestPlayMoneySaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pages.PlayMoney = true })
	ada := w.person("ada")
	wallet := w.wallet(ada.key, 0)
	ada.get("/dashboard/wallets/"+wallet.ID).is(200, "This is play money", "play money</span>").without("Send <strong>USDC on Base")
}

func TestBalancesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*setup)
		chain  func(*ledger)
		why    string
	}{
		"no RPC":       {func(s *setup) { s.mute = true }, func(*ledger) {}, "PURSER_RPC_URL"},
		"a broken one": {func(*setup) {}, func(l *ledger) { l.down = true }, "does not answer"},
		"a slow one":   {func(*setup) {}, func(l *ledger) { l.slow = time.Minute }, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.change)
			ada := w.person("ada")
			wallet := w.wallet(ada.key, 1_000_000)
			w.chain.set(c.chain)
			path := "/dashboard/wallets/" + wallet.ID
			began := time.Now()
			for _, page := range []string{path, "/dashboard/wallets", "/dashboard/"} {
				ada.get(page).is(200)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("pages waited %s for the chain", took)
			}
			began = time.Now()
			ada.get(path+"?balance=now").is(200, "unknown", c.why)
			ada.get(path+"/delete").is(200, "Its balance is not known", "Type the last 6")
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("pages that ask waited %s", took)
			}
			ada.post(path+"/delete").is(http.StatusUnprocessableEntity, "Nothing was deleted")
			address := wallet.Address.String()
			ada.post(path+"/delete", "confirm", address[len(address)-6:]).to("/dashboard/wallets")
		})
	}
}

func TestDeletingAWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	empty, full := w.wallet(ada.key, 0), w.wallet(ada.key, 2_500_001)
	address := full.Address.String()
	path := "/dashboard/wallets/" + full.ID
	ada.get(path+"/delete").is(200, "It holds", ">2.500001 <", address, "Type the last 6").without("no other wallet")
	for _, typed := range []string{"", "123456", address[2:8], "<script>alert(1)</script>"} {
		ada.post(path+"/delete", "confirm", typed).is(http.StatusUnprocessableEntity, "Nothing was deleted", `aria-invalid="true"`).without("<script>alert")
	}
	ada.post(path+"/delete", "confirm", " "+strings.ToLower(address[len(address)-6:])).to("/dashboard/wallets")
	ada.get("/dashboard/wallets").is(200, "Wallet deleted.").without(full.ID)
	ada.get(path).is(http.StatusNotFound)
	ada.post(path+"/delete", "confirm", address).is(http.StatusNotFound)

	// The wallet is funded between the page and the POST.
	path = "/dashboard/wallets/" + empty.ID
	ada.get(path+"/delete").is(200, "It is empty", "no other wallet").without("Type the last")
	w.clock.advance(time.Minute) // balances are cached for seconds
	w.chain.fund(*empty.Address, 7)
	ada.post(path+"/delete").is(http.StatusUnprocessableEntity, "It holds", ">0.000007 <")
	w.clock.advance(time.Minute)
	w.chain.fund(*empty.Address, 0)
	ada.post(path + "/delete").to("/dashboard/wallets")
}

func TestThePlanIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	for range 3 {
		ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusSeeOther)
		ada.post("/dashboard/keys", "label", "x") // the first key is there
	}
	_, loose, err := w.books.CreateKey(t.Context(), books.KeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusTooManyRequests, "Wallet limit reached for your plan", upgradeURL)
	ada.post("/dashboard/keys", "label", "x").is(http.StatusTooManyRequests, "API key limit reached for your plan", upgradeURL)
	ada.post("/dashboard/keys/link", "key", loose).is(http.StatusTooManyRequests, "API key limit reached for your plan", upgradeURL).without(loose)
	for _, path := range []string{"/dashboard/keys", "/dashboard/wallets"} {
		ada.get(path).is(200, "3 of 3 of your plan", "all in use", upgradeURL)
	}
	if _, err := w.books.SetPlan(t.Context(), ada.account.OrganizationID, pay.PlanDeveloper); err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusSeeOther)
	ada.get("/dashboard/settings").is(200, "Developer", `<span class="badge">yours</span>`, "$20", "10,000", upgradeURL)
}
