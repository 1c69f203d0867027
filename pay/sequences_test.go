package pay_test

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Sequences of calls, crashes and lies that once cost money, or books that were wrong
// about it. Those about leases and recovery are in sequences_lease_test.go.

// The money of a payment can move before its signature is in the journal. A repeat that
// then got an error instead of the payload would make its caller buy elsewhere.
func TestRepeatAfterACrashBeforeTheSignatureWasKept(t *testing.T) {
	t.Parallel()
	for _, settlement := range []pay.Settlement{pay.SettlePayer, pay.SettleSeller} {
		t.Run(string(settlement), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			r := w.rest(settlement, "https://a.example/x", "1000", "order-1")
			lost := w.mustOpen(r)
			defer lost.Finish(false)
			w.sellerMoves(lost.Payload())
			w.store.Reopen()
			if w.payment(lost.Payment().ID).Signature != nil {
				t.Fatal("the signature is in the journal already")
			}
			w.payer = w.node()
			w.chain.advance(25 * time.Second)
			w.recoverOnce()
			got := w.mustPay(r)
			if got.ID != lost.Payment().ID || got.State != pay.Settled || w.chain.moves() != 1 {
				t.Errorf("payment %s is %s, %d moves", got.ID, got.State, w.chain.moves())
			}
			a := w.mustBegin(r)
			a.Finish(true)
			if a.Payload().Header() != lost.Payload().Header() {
				t.Error("the stored answer is another payload")
			}
		})
	}
}

// A refused payment may settle late, after a repeat under its idempotency key has failed as well.
// The repeat must have been the same payment.
func TestRepeatOfALateSettlementBehindAFailedRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "1000", "order-1")
	w.fac.mode("refuse", "")
	_, err := w.payer.Pay(context.Background(), r)
	first := failedState(t, err)
	w.quiet()
	w.fac.mode("unreachable", "")
	_, err = w.payer.Pay(context.Background(), r)
	if second := failedState(t, err); !first.Refused || second.ID != first.ID || !second.Refused {
		t.Fatalf("first %v, second %s %v", first.Flags(), second.State, second.Flags())
	}
	w.quiet()
	must(w.chain.move(first.Authorization))
	w.chain.advance(190 * time.Second)
	w.recoverOnce()
	w.fac.mode("", "")
	if got := w.mustPay(r); got.ID != first.ID || w.chain.moves() != 1 {
		t.Errorf("the repeat got payment %s instead of %s, %d moves", got.ID, first.ID, w.chain.moves())
	}
}

// Sums of absurd amounts overflow, and a counter that overflows refuses every later
// payment of the key. Such a challenge must not get as far as the journal.
func TestAbsurdAmountBlocksNothing(t *testing.T) {
	t.Parallel()
	most := new(big.Int).Lsh(big.NewInt(1), 128)
	absurd := map[string]string{
		"all bits":      new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)).String(),
		"one above max": new(big.Int).Add(most, big.NewInt(1)).String(),
	}
	for _, settlement := range []pay.Settlement{pay.SettlePayer, pay.SettleSeller} {
		w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
		for name, amount := range absurd {
			_, err := w.payer.Pay(context.Background(), w.rest(settlement, "https://evil.example/x", amount, ""))
			var unsupported *x402.UnsupportedError
			if !errors.As(err, &unsupported) {
				t.Errorf("%s, %s: %v", settlement, name, err)
			}
		}
		if n := len(w.store.payments()); n != 0 {
			t.Errorf("%s: %d payments are in the journal", settlement, n)
		}
		w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", most.String(), ""))
		w.mustPay(w.rest(pay.SettlePayer, "https://a.example/y", "1000", ""))
	}
}

// A challenge for more than the wallet has, refused by the facilitator, once kept that
// amount reserved: any seller could keep the wallet from paying others.
func TestRefusedChallengeLocksNoWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("refuse", "")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://evil.example/x", "999999999999", ""))
	var failed *pay.FailedError
	if !errors.As(err, &failed) || !strings.Contains(failed.Detail, "insufficient_funds") {
		t.Fatalf("got %v", err)
	}
	w.mustOpen(w.proxied("https://a.example/x", "10", "")).Finish(true)
	if n := w.fac.called("verify"); n != 0 {
		t.Errorf("the facilitator saw %d payloads that the wallet cannot pay", n)
	}
}

// A receipt may name a transaction that does not exist. The chain's later transaction has to
// replace it, or the books point to a missing transfer.
func TestConfirmationCorrectsAClaimedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.mustOpen(w.proxied("https://a.example/x", "10", ""))
	moved := w.sellerMoves(a.Payload())
	claimed := "0x" + strings.Repeat("ab", 32)
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: claimed})
	a.Finish(true)
	w.quiet()
	if p := w.payment(a.Payment().ID); p.State != pay.Settled || p.Transaction != claimed {
		t.Fatalf("%s by %s", p.State, p.Transaction)
	}
	w.recoverAll()
	p := w.payment(a.Payment().ID)
	if !p.Confirmed || p.Transaction != moved {
		t.Errorf("%v, transaction %s, want %s", p.Flags(), p.Transaction, moved)
	}
	if n := len(p.Notes); n == 0 || !strings.Contains(p.Notes[n-1].Text, claimed) {
		t.Errorf("the claim is forgotten: %v", p.Notes)
	}
}

// A receipt with another payment's transaction is no evidence. Refusing it happens beside
// the attempt, which goes on: with -race, they must not write the same row.
func TestRefusedReceiptBesideItsAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	taken := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/another", "1", "")).Transaction
	for range 20 {
		a := w.mustOpen(w.proxied("https://a.example/x", "1", ""))
		a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: taken})
		a.Observe("seller answered 500")
		a.Finish(true)
		w.quiet()
		p := w.payment(a.Payment().ID)
		story := ""
		for _, n := range p.Notes {
			story += n.Text + "\n"
		}
		if p.State != pay.Open || p.Transaction != "" || p.Signature == nil ||
			!strings.Contains(story, "receipt not accepted") || !strings.Contains(story, "seller answered 500") {
			t.Fatalf("%s by %q: %s", p.State, p.Transaction, story)
		}
	}
}

// A client that is cut off and repeats at once can be here before the server has told the
// first call's context. It gets the first payment all the same, at every door; identical
// calls that are all waited for are separate purchases.
func TestRepeatBeforeItIsKnownThatTheFirstCallerLeft(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*world) pay.Request{
		"proxy": func(w *world) pay.Request { return w.proxied("https://a.example/x", "1000", "") },
		"rest":  func(w *world) pay.Request { return w.rest(pay.SettleSeller, "https://a.example/x", "1000", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a busy machine must not outlast the wait for the news
				w := newWorld(t, func(o *pay.Options) { o.RepeatWait = 5 * time.Second })
				r := call(w)
				caller, leave := context.WithCancel(context.Background())
				first := must(w.payer.Open(caller, r))
				// The news comes late, and the send ends later still.
				time.AfterFunc(5*time.Millisecond, leave)
				time.AfterFunc(20*time.Millisecond, func() { first.Finish(false) })
				repeat := w.mustOpen(r)
				if repeat.Payment().ID != first.Payment().ID {
					t.Error("the repeat is a second payment")
				}
				repeat.Finish(true)

				one := w.mustOpen(w.proxied("https://a.example/y", "1000", ""))
				other := w.mustOpen(w.proxied("https://a.example/y", "1000", ""))
				if one.Payment().ID == other.Payment().ID {
					t.Error("two purchases at once are one payment")
				}
				one.Finish(true)
				other.Finish(true)
			})
		})
	}
}
