package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

func TestRunway(t *testing.T) {
	t.Parallel()
	spent := func(amount, corrected uint64) pay.Sum {
		return pay.Sum{Count: 1, Amount: money.New(amount), Corrected: money.New(corrected)}
	}
	for _, c := range []struct {
		have uint64
		sum  pay.Sum
		days int
		want string
	}{
		{10_000_000, spent(7_000_000, 0), 7, "lasts about 10 days"},
		{10_000_000, spent(8_000_000, 1_000_000), 7, "lasts about 10 days"},
		{10_000_000, spent(7_000_001, 0), 7, "lasts about 9 days"},
		{10_000_000, spent(2_000_000, 0), 2, "lasts about 10 days"},
		{1_000_000, spent(7_000_000, 0), 7, "lasts about 1 day"},
		{999_999, spent(7_000_000, 0), 7, "lasts less than a day"},
		{0, spent(7_000_000, 0), 7, "nothing left"},
		{10_000_000, pay.Sum{}, 7, "no spending in the last week"},
		{10_000_000, spent(5, 5), 7, "no spending in the last week"},
		{10_000_000, spent(5, 6), 7, "no spending in the last week"},
		{10_000_000, spent(5, 0), 0, "how long it lasts is known tomorrow"},
		{2_000_000_000, spent(7_000_000, 0), 7, "lasts about 5 years"},
		{1 << 63, spent(1, 0), 7, "lasts more than 100 years"},
	} {
		if got := dashboard.RunwayText(money.New(c.have), c.sum, c.days); got != c.want {
			t.Errorf("%d by %v of %d days: %q, want %q", c.have, c.sum, c.days, got, c.want)
		}
	}
}

func TestWalletsTellSpendAndRunway(t *testing.T) {
	t.Parallel()
	mark := money.New(5_000_000)
	w := newWorld(t, func(s *setup) { s.pages.LowBalance = &mark })
	w.clock.set(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	ada := w.person("ada")
	wallet := w.wallet(ada.key, 6_000_000)
	path := "/dashboard/wallets/" + wallet.ID
	ada.get(path+"/balance", "HX-Request", "true").is(200, "how long it lasts is known tomorrow").without("low balance")
	w.buy(ada.key, "https://api.example.com/a", "", "300000")
	w.clock.advance(25 * 24 * time.Hour)
	for i := range 7 { // from 26 November to 2 December
		w.buy(ada.key, "https://api.example.com/b", "", fmt.Sprint(100_000+i))
		w.clock.advance(24 * time.Hour)
	}
	w.buy(ada.key, "https://api.example.com/today", "", "50000")
	ada.get(path).is(200, "Today so far</dt><dd><span class=\"amount\">0.05 ", "7 complete days</dt><dd><span class=\"amount\">0.700021 ", "7 payments",
		"30 complete days</dt><dd><span class=\"amount\">0.700021 ", "Pays for", ada.key.ID)
	w.clock.advance(-3 * 24 * time.Hour) // 30 November
	ada.get("/dashboard/wallets").is(200, `data-label="In 30 days" class="num"><span class="amount">0<span class="frac">.700006</span>`, "below <span class=\"amount\">5 ")
	w.clock.advance(3 * 24 * time.Hour)
	ada.get(path+"/balance", "HX-Request", "true").is(200, "lasts about 59 days").without("low balance")
	w.clock.advance(time.Minute)
	w.chain.fund(*wallet.Address, 4_999_999)
	ada.get(path+"/balance", "HX-Request", "true").is(200, "low balance", "lasts about 49 days")
	ada.get(path+"/balance?large=1", "HX-Request", "true").is(200, "Low balance: below", "Lasts about 49 days at the pace of the last 7 complete days.")

	// A key that the wallet is lent to spends from it, too, and another organization's has no name here.
	eve := w.person("eve")
	if err := w.books.ShareWallet(t.Context(), wallet.ID, eve.key.ID); err != nil {
		t.Fatal(err)
	}
	w.buy(eve.key, "https://api.example.com/eve", "", "70000")
	ada.get(path).is(200, "Today so far</dt><dd><span class=\"amount\">0.12 ", "and 1 more key").without(eve.key.ID)
	w.operates().get(path).is(200, eve.key.ID, ", shared").without("more key")
}

func TestFundingCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	wallet := w.wallet(ada.key, 0)
	path := "/dashboard/wallets/" + wallet.ID
	ada.get(path).is(200, "QR code of the address").without("ethereum:")
	ada.get(path+"?fund=12.5").is(200, "QR code of the payment request", `value="12.5"`, "12.5 <span",
		"ethereum:"+usdc+"@8453/transfer?address="+wallet.Address.String()+"&amp;uint256=12500000")
	for _, typed := range []string{"0", "x", "-1", "1.0000001", "%22%3E%3Cb%3E"} {
		ada.get(path+"?fund="+typed).is(http.StatusUnprocessableEntity, "Type an amount in USDC", "QR code of the address").without("<b>", "ethereum:")
	}
}

func TestDeposits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ada := w.person("ada")
	wallet := w.wallet(ada.key, 0)
	path := "/dashboard/wallets/" + wallet.ID
	from := x402.EVMAddress([20]byte{0xaa})
	moves := func(to, from x402.Address, micros, block uint64) {
		w.chain.past = append(w.chain.past, treasury.Transfer{From: from, To: to, Value: money.New(micros), Transaction: fmt.Sprintf("0x%064x", block), Block: block})
	}
	ask := func() seen { return ada.get(path+"/deposits", "HX-Request", "true") }
	ada.get(path).is(200, "Ask the chain for deposits", `hx-get="`+path+`/deposits"`)
	ada.get(path + "/deposits").to(path + "?deposits=now")
	ask().is(200, "Nothing came in during the last 30 days", "As of").without("<html", "<table")

	w.clock.advance(time.Minute)
	moves(*wallet.Address, from, 9_000_000, 40_000) // 41 days ago
	moves(*wallet.Address, from, 1_500_000, newestBlock-6000)
	moves(from, *wallet.Address, 77, newestBlock-2)
	moves(*wallet.Address, from, 20_000_000, newestBlock)
	got := ask().is(200, "2026-11-20 12:00:00", "2026-11-16 08:00:00", from.String(), ">.5<", "20<span", "basescan.org/tx/0x", "All that came in during the last 30 days").without("0.000077", "9<span")
	if strings.Index(got.body, "2026-11-20") > strings.Index(got.body, "2026-11-16") {
		t.Error("the newest is not the first")
	}
	ada.get(path+"?deposits=now").is(200, "2026-11-20 12:00:00", "Fund it") // without scripts
	asked := w.chain.asked
	if ask(); w.chain.asked != asked {
		t.Error("the chain is asked again at once")
	}

	w.clock.advance(time.Minute)
	for block := range uint64(40) {
		moves(*wallet.Address, from, 1_000_000, newestBlock-39+block)
	}
	ask().is(200, "These are the newest 25, back to 20 November 2026, 11:37 UTC")
	w.clock.advance(time.Minute)
	w.chain.set(func(l *ledger) { l.down = true })
	ask().is(200, "Unknown.", "does not answer").without("<table")
	path = "/dashboard/wallets/" + w.wallet(ada.key, 0).ID
	w.clock.advance(5 * time.Minute)
	w.chain.set(func(l *ledger) { l.down, l.deaf = false, newestBlock-3000 })
	ask().is(200, "since 19 November 2026, 02:40 UTC only").without("Unknown", "<table")

	w = newWorld(t, func(s *setup) { s.mute = true })
	ada = w.person("ada")
	path = "/dashboard/wallets/" + w.wallet(ada.key, 0).ID
	ask().is(200, "Unknown.", "PURSER_RPC_URL")
}

func TestPagesOfWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	if _, err := w.books.SetPlan(t.Context(), ada.account.OrganizationID, pay.PlanAgency); err != nil {
		t.Fatal(err)
	}
	for range 130 {
		w.wallet(ada.key, 0)
	}
	first := ada.get("/dashboard/wallets").is(200, "130", "Next page")
	_, next, _ := strings.Cut(first.body, `href="/dashboard/wallets?after=`)
	next, _, _ = strings.Cut(next, `"`)
	second := ada.get("/dashboard/wallets?after="+next).is(200, "First page").without("Next page")
	a, b := strings.Count(first.body, `/balance" hx-trigger`), strings.Count(second.body, `/balance" hx-trigger`)
	if a != 100 || b != 30 {
		t.Errorf("%d wallets, then %d", a, b)
	}
	ada.get("/dashboard/wallets?after=x").is(http.StatusNotFound)
	ada.get("/dashboard/wallets?after=" + nobodys[:35] + "0").is(200)
}
