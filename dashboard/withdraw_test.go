package dashboard_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const home = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // of EIP-55

// withdrawing is a world whose settlements change balances, with a visitor who has just signed in.
func withdrawing(t *testing.T, change ...func(*setup)) (*world, *person) {
	w := newWorld(t, change...)
	w.chain.transfers = true
	ada := w.person("ada")
	ada.auth = w.clock.now()
	return w, ada
}

var orderField = regexp.MustCompile(`name="order" value="([^"]+)"`)

// reviewed orders a withdrawal, and returns the order that its review has.
func (p *person) reviewed(path string, fields ...string) (seen, string) {
	p.t.Helper()
	page := p.post(path+"/withdraw", fields...).is(200)
	found := orderField.FindStringSubmatch(page.body)
	if found == nil {
		p.t.Fatalf("no order in the review: %s", page.brief())
	}
	return page, found[1]
}

// holds reads a balance as the chain tells it.
func (w *world) holds(a x402.Address) string {
	w.chain.mu.Lock()
	defer w.chain.mu.Unlock()
	return w.chain.balances[a].String()
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	w, ada := withdrawing(t)
	wallet := w.wallet(ada.key, 2_000_000)
	path := "/dashboard/wallets/" + wallet.ID
	to, _ := x402.ParseAddress(home)
	ada.get(path).is(200, `id="withdraw" href="`+path+`/withdraw"`)
	ada.get(path+"/withdraw").is(200, "The wallet holds", "2 <span", "works while payments are paused")

	review, order := ada.reviewed(path, "to", " "+home+" ", "amount", "1.5")
	review.is(200, "Withdraw <span class=\"amount\">1.5 ", home, wallet.Address.String(), "Then it holds", ">0.5 <", "None from this wallet", "5 minutes")
	if w.chain.settled != 0 || w.holds(to) != "0" {
		t.Fatal("a review sends")
	}
	// A double click, a reload, and several at once.
	var all sync.WaitGroup
	places := make([]string, 5)
	for i := range places {
		all.Go(func() { places[i] = ada.post(path+"/withdraw/send", "order", order).header.Get("Location") })
	}
	all.Wait()
	for _, at := range append(places, ada.post(path+"/withdraw/send", "order", order).header.Get("Location")) {
		if at != places[0] || !strings.HasPrefix(at, path+"/withdrawn?payment=") {
			t.Errorf("one order leads to %q and %q", places[0], at)
		}
	}
	if w.chain.settled != 1 || w.holds(to) != "1500000" || w.holds(*wallet.Address) != "500000" {
		t.Errorf("%d transfers, %s arrived, %s left", w.chain.settled, w.holds(to), w.holds(*wallet.Address))
	}
	result := ada.get(places[0]).is(200, "The money has moved", "Settled", home, `href="https://basescan.org/tx/0x`, "All that is known of it").without("Look again")
	if !strings.Contains(result.body, `id="holds"><span class="amount">0.5 `) {
		t.Errorf("what the wallet holds now: %s", result.brief())
	}
	ada.get("/dashboard/audit").is(200, "Money withdrawn", "you")
	// Its own money that moved is listed, and is not spent.
	withdrawn := "Withdrawn: <strong>1 withdrawal</strong> · <strong><span class=\"amount\">1.5 <span class=\"unit\">USDC</span></span>"
	for _, list := range []string{"/dashboard/spend", "/dashboard/payments", "/dashboard/spend?host=withdrawal", "/dashboard/spend?payee=" + home} {
		ada.get(list).is(200, "Withdrawal to "+home, "Spent: <strong>0 payments</strong> · <strong><span class=\"amount\">0 ", withdrawn)
	}
	ada.get("/dashboard/").is(200, "Withdrawal to "+home, "<dd>0 payments</dd>").without(">1.5 <span class=\"unit\">USDC</span></span></dd><dd>", "host=withdrawal")
	ada.get("/dashboard/keys/"+ada.key.ID).is(200, "<dd>0 payments.").without("Spent in")
	ada.get("/dashboard/spend.csv").is(200, ",withdrawal,,eip3009\n")
	ada.get(path).is(200, "Withdrawn in 30 days", ">1.5 <").without("<dd><span class=\"amount\">1.5 <span class=\"unit\">USDC</span></span>, 1 payment")

	// An equal one is another order only if the visitor says so, and that one is sent once, too.
	same := ada.post(path+"/withdraw", "to", home, "amount", "1.5")
	same.is(http.StatusOK, "has moved this amount to this address already", `name="again"`).without(`name="order"`)
	w.clock.advance(time.Minute)
	w.chain.fund(*wallet.Address, 4_000_000)
	_, order = ada.reviewed(path, "to", home, "amount", "1.5", "again", "1")
	first := ada.post(path+"/withdraw/send", "order", order).is(http.StatusSeeOther).header.Get("Location")
	ada.post(path+"/withdraw/send", "order", order).to(first)
	if w.chain.settled != 2 || first == places[0] {
		t.Errorf("%d transfers after another one", w.chain.settled)
	}
	// All of it is what is there when it is reviewed.
	review, order = ada.reviewed(path, "to", home, "all", "1")
	review.is(200, ">2.5 <")
	w.chain.fund(*wallet.Address, 9_000_000)
	ada.get(ada.post(path+"/withdraw/send", "order", order).header.Get("Location")).is(200, "The money has moved", ">2.5 <")
	if w.holds(*wallet.Address) != "6500000" {
		t.Errorf("%s left", w.holds(*wallet.Address))
	}
}

func TestWithdrawRefuses(t *testing.T) {
	t.Parallel()
	w, ada := withdrawing(t)
	wallet, second := w.wallet(ada.key, 2_000_000), w.wallet(ada.key, 0)
	path := "/dashboard/wallets/" + wallet.ID
	for _, c := range []struct{ to, amount, all, want string }{
		{"", "1", "", "Type the address"},
		{home[:20], "1", "", "Not an address"},
		{strings.ToLower(home[:10]) + home[10:], "1", "", "checksum"},
		{home, "", "", "Type an amount"},
		{home, "1", "1", "Either an amount, or all of it"},
		{home, "1,5", "", "This is no amount"},
		{home, "<b>", "", "This is no amount"},
		{home, "-1", "", "This is no amount"},
		{home, "1.0000001", "", "more than 6 decimals"},
		{home, "0", "", "0 moves nothing"},
		{home, "2.000001", "", "2.000001 USDC is more than can be withdrawn: the wallet holds 2 USDC"},
		{"0x0000000000000000000000000000000000000000", "1", "", "zero address"},
		{usdc, "1", "", "s contract"},
		{wallet.Address.String(), "1", "", "own address"},
	} {
		ada.post(path+"/withdraw", "to", c.to, "amount", c.amount, "all", c.all).
			is(http.StatusUnprocessableEntity, c.want, `aria-invalid="true"`).without(`name="order"`, "<b>")
	}
	ada.post("/dashboard/wallets/"+second.ID+"/withdraw", "to", home, "all", "1").is(http.StatusUnprocessableEntity, "The wallet is empty")
	ada.post(path+"/withdraw", "to", home, "amount", "1.25", "do", "edit").is(200, `value="1.25"`, home)
	review, order := ada.reviewed(path, "to", second.Address.String(), "amount", "1")
	review.is(200, "own wallet", second.ID)

	// Only this session's present review of this wallet sends anything.
	other := *ada
	other.session = ada.signedIn("stolen")
	for name, got := range map[string]seen{
		"another session": other.post(path+"/withdraw/send", "order", order),
		"another wallet":  ada.post("/dashboard/wallets/"+second.ID+"/withdraw/send", "order", order),
		"none":            ada.post(path + "/withdraw/send"),
		"terms":           ada.post(path+"/withdraw/send", "to", home, "amount", "1", "order", "x"),
	} {
		if got.is(http.StatusConflict, "nothing was sent by it"); t.Failed() {
			t.Fatal(name)
		}
	}
	w.clock.advance(15 * time.Minute)
	again := ada.post(path+"/withdraw/send", "order", order).is(http.StatusSeeOther).header.Get("Location")
	if want := "/dashboard/sign-in?again=1&return="; !strings.HasPrefix(again, want) || !strings.Contains(again, "withdraw") || strings.Contains(again, "send") {
		t.Errorf("after fifteen minutes: %s", again)
	}
	ada.auth = w.clock.now()
	ada.post(path+"/withdraw/send", "order", order).is(http.StatusConflict, "This page was too old")
	if w.chain.settled != 0 {
		t.Errorf("%d transfers", w.chain.settled)
	}

	// Money that is reserved for open payments stays.
	w.chain.set(func(l *ledger) { l.unclear = true })
	_, _ = w.try(ada.key, "https://api.example.com/open", "", "500000")
	ada.post(path+"/withdraw", "to", home, "amount", "1.6").is(http.StatusUnprocessableEntity, "0.5 USDC of it is reserved for open payments")
	ada.get(path+"/balance?large=1", "HX-Request", "true").is(200, "1.5 <span class=\"unit\">USDC</span></span> spendable", "reserved for open payments")
	review, order = ada.reviewed(path, "to", home, "all", "1")
	review.is(200, "Withdraw <span class=\"amount\">1.5 ", "stays for open payments")

	// The facilitator's answer is lost: it is one payment, which may still move the money.
	result := ada.post(path+"/withdraw/send", "order", order).is(http.StatusSeeOther).header.Get("Location")
	ada.get(result).is(200, "It is not known yet", "may still move the money until", "Look again", "none known")
	ada.post(path+"/withdraw/send", "order", order).to(result)
	ada.post(path+"/withdraw", "to", home, "all", "1").is(http.StatusUnprocessableEntity, "is reserved for open payments")
	ada.post(path+"/withdraw", "to", home, "amount", "1.5").is(http.StatusOK, "may still move this money", `name="order"`)
	w.clock.advance(6 * time.Minute)
	ada.get(result).is(200, "The transfer has expired")
	// A payment to a seller is no withdrawal, and one of another wallet is not this wallet's.
	list, err := w.books.PaymentsIn(t.Context(), books.OfOrganization(ada.account.OrganizationID), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if !p.Withdraws() {
			ada.get(path + "/withdrawn?payment=" + p.ID).is(http.StatusNotFound)
		} else {
			ada.get("/dashboard/wallets/" + second.ID + "/withdrawn?payment=" + p.ID).is(http.StatusNotFound)
		}
	}
	ada.get(path + "/withdrawn?payment=x").is(http.StatusNotFound)
}

// Visitors read why they may not withdraw, or why purser cannot.
func TestWithdrawNeeds(t *testing.T) {
	t.Parallel()
	w, ada := withdrawing(t)
	made, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "the operator's", Operator: true, OrganizationID: ada.account.OrganizationID})
	if err != nil {
		t.Fatal(err)
	}
	theirs := w.wallet(made, 2_000_000)
	path := "/dashboard/wallets/" + theirs.ID
	ada.get(path).is(200).without(`id="withdraw"`)
	for _, got := range []seen{ada.get(path + "/withdraw"), ada.post(path+"/withdraw", "to", home, "all", "1"), ada.post(path+"/withdraw/send", "order", "x")} {
		got.is(http.StatusForbidden, "Only an operator withdraws from this wallet")
	}
	op := w.operates()
	_, order := op.reviewed(path, "to", home, "all", "1")
	op.get(op.post(path+"/withdraw/send", "order", order).header.Get("Location")).is(200, "The money has moved")
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{Limit: 1})
	if err != nil || len(entries) != 1 || entries[0].Action != pay.ActionWalletWithdraw || !strings.Contains(entries[0].By.ID, "on the dashboard") {
		t.Errorf("audit %+v, %v", entries, err)
	}

	w, ada = withdrawing(t, func(s *setup) { s.pay.Facilitator = nil })
	wallet := w.wallet(ada.key, 2_000_000)
	path = "/dashboard/wallets/" + wallet.ID
	for _, got := range []seen{ada.get(path + "/withdraw"), ada.post(path+"/withdraw", "to", home, "all", "1")} {
		got.is(200, "no facilitator", "purser wallets withdraw "+wallet.ID).without(`name="order"`, `name="to"`)
	}

	w, ada = withdrawing(t, func(s *setup) { s.mute = true })
	wallet = w.wallet(ada.key, 2_000_000)
	path = "/dashboard/wallets/" + wallet.ID
	ada.get(path+"/withdraw").is(200, "Its balance is not known", "PURSER_RPC_URL")
	ada.post(path+"/withdraw", "to", home, "all", "1").is(http.StatusUnprocessableEntity, "does not tell what the wallet holds")
	review, _ := ada.reviewed(path, "to", home, "amount", "1")
	review.is(200, "not known: the chain did not tell")
}

// brokenSigner makes wallets, and signs nothing while it is broken.
type brokenSigner struct {
	pay.Wallets
	broken *atomic.Bool
}

func (b brokenSigner) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if b.broken.Load() {
		return x402.Signature{}, &pay.SignerError{Provider: "local", Detail: "locked", Unsigned: true}
	}
	return b.Wallets.Sign(ctx, w, m)
}

// A withdrawal that cannot be signed moves nothing, and can be ordered again.
func TestWithdrawSignsNothing(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	w, ada := withdrawing(t, func(s *setup) {
		s.wallets = func(all pay.Wallets) pay.Wallets { return brokenSigner{all, &broken} }
	})
	wallet := w.wallet(ada.key, 2_000_000)
	path := "/dashboard/wallets/" + wallet.ID
	_, order := ada.reviewed(path, "to", home, "amount", "1")
	result := ada.post(path+"/withdraw/send", "order", order).is(http.StatusSeeOther).header.Get("Location")
	ada.get(result).is(200, "No money has moved", "You can order it again").without("Look again")
	broken.Store(false)
	ada.post(path+"/withdraw/send", "order", order).to(result) // the order is over
	_, order = ada.reviewed(path, "to", home, "amount", "1")
	ada.get(ada.post(path+"/withdraw/send", "order", order).header.Get("Location")).is(200, "The money has moved")
	if w.chain.settled != 1 {
		t.Errorf("%d transfers", w.chain.settled)
	}
}
