package pay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// Sequences in which our own facilitator says at /settle that it sent nothing, by a reason
// that precedes sending; see sequences_test.go.

// A facilitator whose first try got through, and whose second one finds the wallet empty,
// says so. Its word was taken, and the caller's repeat paid again.
func TestRefusalOfWhatWasSent(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "order-1"} {
		w := newWorld(t, nil)
		w.fac.mode("", "refuse-moved")
		p := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "1000", idem))
		if p.State != pay.Settled || p.Refused || p.Transaction != w.chain.transaction(p.Authorization.Nonce) {
			t.Errorf("%q: %s %v by %q", idem, p.State, p.Flags(), p.Transaction)
		}
		if w.placeCount() != "1" || w.chain.moves() != 1 {
			t.Errorf("%q: place %s, %d moves", idem, w.placeCount(), w.chain.moves())
		}
	}
}

// refused is a payment that was refused at /settle and takes up no place in the month, with
// its caller's request.
func (w *world) refused(idem string) (*pay.Payment, pay.Request) {
	w.t.Helper()
	before := w.placeCount()
	w.fac.mode("", "refuse")
	r := w.rest(pay.SettlePayer, "https://a.example/x", "1000", idem)
	p := w.mustFail(r)
	w.quiet()
	w.fac.mode("", "")
	if p = w.payment(p.ID); p.State != pay.Open || !p.Refused || w.placeCount() != before {
		w.t.Fatalf("%s %v, place %s", p.State, p.Flags(), w.placeCount())
	}
	return p, r
}

// A facilitator that refuses may send all the same, a moment after the chain was asked. A repeat
// gets the payment that may still move, at every door.
func TestRepeatOfARefusalThatMaySettle(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "order-1"} {
		for _, late := range []string{"before the repeat", "after it", "never"} {
			w := newWorld(t, nil)
			p, r := w.refused(idem)
			move := func(when string) {
				if late == when {
					_, _ = w.chain.move(p.Authorization) // the chain knows whether it can
				}
			}
			move("before the repeat")
			got := w.mustPay(r)
			move("after it")
			if got.ID != p.ID || got.State != pay.Settled || got.Refused || w.chain.moves() != 1 || w.placeCount() != "1" {
				t.Errorf("%q, sent %s: payment %s of %s is %s %v, %d moves, place %s",
					idem, late, got.ID, p.ID, got.State, got.Flags(), w.chain.moves(), w.placeCount())
			}
			w.checkBooks()
		}
	}
}

// Without an answer from the RPC, a refusal costs no place in the month and raises no alarm. The
// repeat of an order waits for the chain's answer.
func TestRefusalWhileTheRPCIsDown(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		w := newWorld(t, nil)
		w.mustPay(w.rest(pay.SettlePayer, "https://a.example/before", "10", ""))
		w.chain.rpc(true, false)
		p, r := w.refused("order-1")
		if moved {
			_, _ = w.chain.move(p.Authorization)
		}
		for range 60 {
			w.chain.advance(time.Minute)
			w.recoverOnce()
		}
		if p = w.payment(p.ID); !p.Refused || p.Unresolved || w.placeCount() != "1" {
			t.Errorf("after an hour %s %v, place %s", p.State, p.Flags(), w.placeCount())
		}
		_, err := w.payer.Pay(context.Background(), r)
		if open, ok := errors.AsType[*pay.OpenError](err); !ok || open.Payment.ID != p.ID {
			t.Errorf("the repeat got %v", err)
		}
		w.chain.rpc(false, false)
		w.chain.advance(time.Hour)
		w.recoverOnce()
		if got := w.mustPay(r); (got.ID == p.ID) != moved || w.placeCount() != "2" {
			t.Errorf("moved %t: the repeat got payment %s of %s, place %s", moved, got.ID, p.ID, w.placeCount())
		}
		if w.chain.moves() != 2 { // the one before, and this one
			t.Errorf("moved %t: %d moves", moved, w.chain.moves())
		}
		w.checkBooks()
	}
}

// A refused payment gives its place back, and must find another one to be driven on, also when its wallet is gone.
func TestRefusalIsDrivenOnOnlyWithAPlace(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		w := newWorld(t, nil)
		place := pay.PlaceCounter(w.key.Owner(), w.chain.clock())
		p, r := w.refused("order-1")
		if gone {
			if err := w.store.DeleteWallet(t.Context(), w.key.ID, w.store.wallet().ID, w.chain.clock()); err != nil {
				t.Fatal(err)
			}
		}
		w.store.count(place, 3000)
		if _, err := w.payer.Pay(context.Background(), r); !errors.Is(err, pay.ErrQuota) || w.chain.moves() != 0 {
			t.Errorf("got %v, %d moves", err, w.chain.moves())
		}
		w.store.count(place, 2999)
		if got := w.mustPay(r); got.ID != p.ID || w.placeCount() != "3000" {
			t.Errorf("payment %s of %s, place %s", got.ID, p.ID, w.placeCount())
		}
	}
}

// Without an RPC the facilitator's answer decides, from the start or after the operator removes the
// RPC.
func TestRefusalWithoutAnRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	p, r := w.refused("order-1")
	if got := w.mustPay(r); got.ID != p.ID || w.chain.moves() != 1 {
		t.Errorf("payment %s of %s, %d moves", got.ID, p.ID, w.chain.moves())
	}
	for _, watched := range []time.Duration{0, time.Hour} { // before the operator takes it out
		w = newWorld(t, nil)
		p, r = w.refused("order-1")
		w.chain.rpc(true, false)
		w.chain.advance(watched)
		w.recoverOnce()
		w.opts.Chain = nil
		w.restart()
		w.chain.advance(90 * time.Second)
		if _, err := w.payer.Pay(context.Background(), r); err == nil {
			t.Errorf("after %s paid again while the first one may have settled", watched)
		}
		w.chain.advance(15 * time.Minute)
		w.recoverOnce()
		if got := w.mustPay(r); got.ID == p.ID {
			t.Errorf("after %s a refused payment was driven on", watched)
		}
	}
}
