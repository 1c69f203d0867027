package pay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// A long queue of settled payments that wait to be confirmed does not hold up one that is open:
// it holds money back.
func TestOpenPaymentsAreLookedAtBeforeAQueueOfSettledOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 500 {
		w.mustPay(w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", i), "1", ""))
	}
	w.chain.advance(time.Second)
	a := w.mustOpen(w.proxied("https://b.example/", "1", ""))
	w.sellerMoves(a.Payload())
	a.Finish(true)
	w.quiet()
	w.chain.advance(2 * time.Minute) // all of them have come due, the open one last
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if p := w.payment(a.Payment().ID); p.State != pay.Settled {
		t.Errorf("the open payment is %s %v after a batch", p.State, p.Flags())
	}
}

// Payments that are being sent now do not keep one that was left open from being closed.
func TestOpenPaymentBehindManyThatAreBeingSent(t *testing.T) {
	t.Parallel()
	for _, queue := range []int{0, 900} { // of settled payments that are due before it
		w := newWorld(t, nil)
		confirm := w.mustPay(w.rest(pay.SettlePayer, "https://c.example/", "1", ""))
		for i := range queue {
			row := w.payment(confirm.ID)
			row.ID = fmt.Sprintf("00000000-%d", i)
			w.store.SetPayment(row)
		}
		w.chain.advance(time.Second)
		old := w.mustOpen(w.proxied("https://b.example/", "1", ""))
		w.sellerMoves(old.Payload())
		old.Finish(true)
		w.quiet()
		w.chain.advance(time.Second)
		var sent []*pay.Attempt
		for i := range 600 {
			sent = append(sent, w.mustOpen(w.proxied(fmt.Sprintf("https://a.example/%d", i), "1", "")))
		}
		w.chain.advance(2 * time.Minute)
		for _, a := range sent {
			if err := w.store.Renew(t.Context(), a.Payment().ID, a.Payment().Lease.Fence, w.chain.clock().Add(pay.LeaseTime)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		if p := w.payment(old.Payment().ID); p.State != pay.Settled {
			t.Errorf("behind %d: the open payment is %s %v after a batch", queue, p.State, p.Flags())
		}
		for _, a := range sent {
			a.Finish(true)
		}
		w.quiet()
	}
}
