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
	p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	w.quiet()
	month := w.chain.clock()
	w.chain.advance(61 * time.Second)
	w.recoverOnce()
	if got := w.payment(p.ID); !got.Unresolved || w.placeCount() != "0" {
		t.Fatalf("flags %v, place %s", got.Flags(), w.placeCount())
	}
	w.opts.Chain = w.chain
	w.restart()
	w.chain.advance(25 * time.Hour)
	w.recoverOnce()
	got := w.payment(p.ID)
	if got.State != pay.Settled || got.Unresolved || w.counter(pay.PlaceCounter(w.key.Owner(), month)) != "1" {
		t.Fatalf("state %s %v", got.State, got.Flags())
	}
	w.checkBooks()
}

func TestForeignChainIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if world, err := w.store.SetWorld(t.Context(), "base", "0x"+strings.Repeat("ab", 32)); err != nil || world == w.chain.gen {
		t.Fatal(world, err)
	}
	w.fac.mode("", "fail")
	p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	w.recoverAll()
	if got := w.payment(p.ID); got.State != pay.Open {
		t.Fatalf("another chain's silence made the payment %s", got.State)
	}
	if h := w.payer.Health(context.Background()); h.RPC.OK {
		t.Fatal("health calls the foreign RPC good")
	}
}

// What fits is in TestEvidence.
func TestSellerModeReceipts(t *testing.T) {
	t.Parallel()
	for success, want := range map[bool]pay.State{true: pay.Settled, false: pay.Open} {
		w := newWorld(t, nil)
		a := w.mustBegin(w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		a.Finish(true)
		w.quiet()
		r := x402.Receipt{
			Success: success, Transaction: w.sellerMoves(a.Payload()), Network: "eip155:8453",
			Payer: strings.ToLower(a.Payment().Authorization.From.String()),
		}
		if p, err := w.payer.PostReceipt(context.Background(), w.key, a.Payment().ID, r); err != nil || p.State != want {
			t.Errorf("success %t: state %v, %v", success, p.State, err)
		}
	}
}

func TestOneTransactionDoesNotSettleTwoPaymentsByReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var last *pay.Payment
	var err error
	tx := "0x" + strings.Repeat("7", 64)
	for i := range 2 {
		a := w.mustBegin(w.rest(pay.SettleSeller, fmt.Sprintf("https://a.example/%d", i), "100", ""))
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
		a := w.mustBegin(w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		a.Finish(true)
		w.quiet()
		return a.Payment().ID, a.Payload().Header()
	}
	id, header := buy()
	if again, h := buy(); again != id || h != header {
		t.Fatal("a repeat before the receipt got another payload")
	}
	p := w.payment(id)
	tx := must(w.chain.move(p.Authorization))
	must(w.payer.PostReceipt(context.Background(), w.key, id, x402.Receipt{Success: true, Transaction: tx, Network: "base"}))
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
