package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestUnresolvedThenFoundOnChainIsCountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	w.fac.mode("", "fail-moved")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	p := failedState(t, err)
	w.quiet()
	month := w.chain.clock()
	w.chain.advance(61 * time.Second)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.payment(p.ID); !got.Unresolved || w.placeCount() != "0" {
		t.Fatalf("flags %v, place %s", got.Flags(), w.placeCount())
	}
	w.opts.Chain = w.chain
	w.restart()
	w.chain.advance(25 * time.Hour)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := w.payment(p.ID)
	if got.State != pay.Settled || got.Unresolved || w.counter(pay.PlaceCounter(w.key.Owner(), month)) != "1" {
		t.Fatalf("state %s %v", got.State, got.Flags())
	}
	if err := w.store.check(); err != nil {
		t.Fatal(err)
	}
}

func TestALieIsDisputedWithACorrection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "lie")
	p := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	w.recoverAll()
	if got := w.payment(p.ID); !got.Disputed || got.State != pay.Settled {
		t.Fatalf("%s %v", got.State, got.Flags())
	}
	events, _, err := w.books.Spend(context.Background(), w.key, pay.SpendQuery{Limit: 10})
	if err != nil || len(events) != 2 || events[0].SignedAmount() != "-100" || events[0].Corrects != events[1].ID {
		t.Fatalf("events %+v, %v", events, err)
	}
}

func TestForeignChainIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if world, err := w.store.SetWorld(t.Context(), "0x"+strings.Repeat("ab", 32)); err != nil || world == w.chain.gen {
		t.Fatal(world, err)
	}
	w.fac.mode("", "fail")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	p := failedState(t, err)
	w.recoverAll()
	if got := w.payment(p.ID); got.State != pay.Open {
		t.Fatalf("another chain's silence made the payment %s", got.State)
	}
	if h := w.payer.Health(context.Background()); h.RPC.OK {
		t.Fatal("health calls the foreign RPC good")
	}
}

func TestSellerModeReceipts(t *testing.T) {
	t.Parallel()
	fits := func(p *pay.Payment, tx string) x402.Receipt {
		return x402.Receipt{Success: true, Transaction: tx, Network: "eip155:8453", Payer: strings.ToLower(p.Authorization.From.String())}
	}
	other := x402.NewAmount(99)
	for name, c := range map[string]struct {
		change func(*x402.Receipt)
		want   pay.State
	}{
		"fits":            {func(*x402.Receipt) {}, pay.Settled},
		"v1 network name": {func(r *x402.Receipt) { r.Network = "base" }, pay.Settled},
		"other network":   {func(r *x402.Receipt) { r.Network = "base-sepolia" }, pay.Open},
		"other payer":     {func(r *x402.Receipt) { r.Payer = testSeller }, pay.Open},
		"other amount":    {func(r *x402.Receipt) { r.Amount = &other }, pay.Open},
		"no transaction":  {func(r *x402.Receipt) { r.Transaction = "" }, pay.Open},
		"failure":         {func(r *x402.Receipt) { r.Success = false }, pay.Open},
	} {
		w := newWorld(t, nil)
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		w.quiet()
		r := fits(a.Payment(), w.sellerMoves(a.Payload()))
		c.change(&r)
		p, err := w.payer.PostReceipt(context.Background(), w.key, a.Payment().ID, r)
		if err != nil || p.State != c.want {
			t.Errorf("%s: state %v, %v", name, p.State, err)
		}
	}
}

func TestOneTransactionDoesNotSettleTwoPaymentsByReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var last *pay.Payment
	tx := "0x" + strings.Repeat("7", 64)
	for i := range 2 {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, fmt.Sprintf("https://a.example/%d", i), "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		if last, err = w.payer.PostReceipt(context.Background(), w.key, a.Payment().ID, x402.Receipt{Success: true, Transaction: tx, Network: "base"}); err != nil {
			t.Fatal(err)
		}
	}
	if last.State != pay.Open {
		t.Fatalf("the second payment is %s by the first one's transaction", last.State)
	}
}

func TestSellerModeOnRESTRepeatsUntilTheReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	buy := func() (string, string) {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		w.quiet()
		return a.Payment().ID, a.Payload().Header()
	}
	id, header := buy()
	if again, h := buy(); again != id || h != header {
		t.Fatal("a repeat before the receipt got another payload")
	}
	p := w.payment(id)
	tx, err := w.chain.move(p.Authorization)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.payer.PostReceipt(context.Background(), w.key, id, x402.Receipt{Success: true, Transaction: tx, Network: "base"}); err != nil {
		t.Fatal(err)
	}
	if again, _ := buy(); again == id {
		t.Fatal("a call after the receipt got the old payment")
	}
}

func TestSellerModeShowsThePayloadOnceWithoutAnRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	pays := func(url string) error {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, url, "100", ""))
		if err == nil {
			a.Finish(true)
		}
		return err
	}
	w.fac.mode("refuse", "")
	if p := failedState(t, pays("https://a.example/1")); !p.Refused {
		t.Fatal("a payload that /verify refused was handed out")
	}
	w.fac.mode("fail", "")
	if err := pays("https://a.example/2"); err != nil {
		t.Fatalf("an unreachable facilitator stopped a seller payment: %v", err)
	}
	w.fac.mode("", "")
	before := w.fac.called("verify")
	for i := range 3 {
		if err := pays(fmt.Sprintf("https://a.example/v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.fac.called("verify") - before; n != 1 {
		t.Fatalf("/verify was asked %d times for the same terms", n)
	}
}

func TestAlreadyUsedChallengeIsRefusedInPayerMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "")
	p := w.mustPay(r)
	r.Challenge.Error = "invalid_exact_evm_nonce_already_used"
	_, err := w.payer.Pay(context.Background(), r)
	var sellers *pay.SellerSettlesError
	if pay.Code(err) != pay.CodeFailed || !errors.As(err, &sellers) || sellers.Earlier != p.ID || w.chain.moves() != 1 {
		t.Fatalf("got %v", err)
	}
}
