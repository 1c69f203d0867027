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
