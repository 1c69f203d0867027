package pay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

const aDay = 24 * time.Hour

// retains keeps payments for 60 days.
func retains(o *pay.Options) { o.Retain = pay.MinRetain }

// retired makes a payment and lets time pass until it is retired.
func (w *world) retired(url string) *pay.Payment {
	w.t.Helper()
	p := w.mustPay(w.rest(pay.SettlePayer, url, "100", url))
	w.recoverAll()
	for range 2 {
		w.chain.advance(pay.RetainPayload/2 + time.Hour)
		w.recoverOnce()
	}
	w.chain.advance(2 * time.Hour)
	w.recoverOnce()
	if got := w.payment(p.ID); !got.Retired {
		w.t.Fatalf("not retired: %+v", got)
	}
	return p
}

// sweep looks for payments to remove until nothing more can be removed at once.
func (w *world) sweep() {
	w.t.Helper()
	for must(pay.RetainOnce(w.payer, context.Background())) {
	}
}

// gone reports whether a payment was removed.
func (w *world) gone(p *pay.Payment) bool {
	_, err := w.store.Payment(context.Background(), p.ID)
	if err != nil && !errors.Is(err, pay.ErrPaymentNotFound) {
		w.t.Fatal(err)
	}
	return err != nil
}

// TestRemovesAfterRetain pays under one idempotency key before and after the removal.
func TestRemovesAfterRetain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retains)
	p := w.retired("https://a.example/x")
	w.sweep()
	w.chain.advance(pay.MinRetain - pay.RetainPayload - 3*aDay)
	w.sweep()
	w.chain.advance(time.Hour)
	if w.sweep(); w.gone(p) {
		t.Fatal("removed too early")
	}
	w.chain.advance(4 * aDay) // a look from before does not count: its bound is too old
	if w.sweep(); w.gone(p) {
		t.Fatal("removed by one look")
	}
	w.chain.advance(time.Hour - time.Second)
	if w.sweep(); w.gone(p) {
		t.Fatal("removed by two looks less than an hour apart")
	}
	w.chain.advance(time.Second)
	if w.sweep(); !w.gone(p) {
		t.Fatal("not removed")
	}
	w.checkBooks()
	again := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", "https://a.example/x"))
	if again.Attempt != 2 || again.Authorization.Nonce == p.Authorization.Nonce {
		t.Fatalf("attempt %d with nonce %s, and the removed one had %s", again.Attempt, again.Authorization.Nonce, p.Authorization.Nonce)
	}
	w.sweep()
	if w.gone(again) {
		t.Fatal("a new payment was removed")
	}
}

// TestRemovesNothing covers what keeps payments: no setting, a clock that jumps or that a source
// contradicts, a restored store, and a store that fails.
func TestRemovesNothing(t *testing.T) {
	t.Parallel()
	hours := func(w *world) {
		for range 5 {
			w.sweep()
			w.chain.advance(time.Hour)
		}
	}
	t.Run("without the setting", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		p := w.retired("https://a.example/x")
		w.chain.advance(1000 * aDay)
		if hours(w); w.gone(p) {
			t.Fatal("removed")
		}
	})
	t.Run("the clock jumps for one look", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, retains)
		p := w.retired("https://a.example/x")
		for range 5 {
			w.chain.advance(1000 * aDay)
			w.sweep()
			w.chain.advance(-1000 * aDay)
			w.sweep()
			w.chain.advance(2 * time.Hour)
			w.sweep()
		}
		if w.gone(p) {
			t.Fatal("removed")
		}
	})
	t.Run("a source contradicts the clock", func(t *testing.T) {
		t.Parallel()
		var dates pay.Dates
		w := newWorld(t, func(o *pay.Options) {
			retains(o)
			o.Time = pay.NewTimekeeper(o.Clock)
			dates = o.Time.Dates(pay.SourceFacilitator)
		})
		answer := func(wrong time.Duration) {
			w.chain.answer(dates, 0, wrong)
			w.chain.answer(dates, 0, wrong)
		}
		answer(0)
		p := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", "k"))
		w.recoverAll()
		w.chain.advance(pay.RetainPayload)
		for range 3 {
			answer(0)
			w.recoverOnce()
			w.chain.advance(2 * time.Hour)
		}
		if !w.payment(p.ID).Retired {
			t.Fatal("not retired")
		}
		w.chain.advance(1000 * aDay)
		for range 5 {
			answer(-1000 * aDay)
			w.sweep()
			w.chain.advance(time.Hour)
		}
		if w.gone(p) {
			t.Fatal("removed")
		}
		for range 3 {
			answer(0)
			w.sweep()
			w.chain.advance(time.Hour)
		}
		if !w.gone(p) {
			t.Fatal("not removed although the clock is right again")
		}
	})
	t.Run("while reconciling", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, retains)
		p := w.retired("https://a.example/x")
		w.chain.advance(1000 * aDay)
		w.store.Restore(pay.Restore{Taken: w.chain.clock()})
		if hours(w); w.gone(p) {
			t.Fatal("removed")
		}
		if err := w.store.EndReconciling(context.Background(), w.chain.clock()); err != nil {
			t.Fatal(err)
		}
		if hours(w); !w.gone(p) {
			t.Fatal("not removed afterwards")
		}
	})
	t.Run("while its network has an RPC and it is not confirmed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, retains)
		w.chain.rpc(true, false)
		p := w.retired("https://a.example/x")
		w.chain.advance(1000 * aDay)
		if hours(w); w.gone(p) {
			t.Fatal("removed")
		}
		w.opts.Chain = nil
		w.restart()
		if hours(w); !w.gone(p) {
			t.Fatal("not removed without an RPC")
		}
	})
}

// TestRemovesInSteps removes more than one step takes, and sums stay.
func TestRemovesInSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retains)
	var last *pay.Payment
	for range 120 {
		last = w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	}
	day := last.Created
	w.recoverAll()
	for range 3 {
		w.chain.advance(pay.RetainPayload)
		for must(w.payer.RecoverOnce(context.Background())) > 0 {
		}
	}
	spent := func() pay.Summary {
		return must(w.store.SpendSummary(context.Background(), []string{w.key.ID}, day, day))
	}
	before := spent()
	w.sweep()
	w.chain.advance(time.Hour)
	steps := 1
	for must(pay.RetainOnce(w.payer, context.Background())) {
		steps++
	}
	if n := len(w.store.payments()); n != 0 || steps != 3 {
		t.Errorf("%d payments left after %d steps", n, steps)
	}
	if after := spent(); after.Total() != before.Total() || after.Total().Count != 120 {
		t.Errorf("%+v, and was %+v", after.Total(), before.Total())
	}
	w.checkBooks()
}

func TestRetainHasALeast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for retain, ok := range map[time.Duration]bool{0: true, pay.MinRetain: true, pay.MinRetain - 1: false, -1: false} {
		w.opts.Retain = retain
		if _, err := pay.New(w.opts); (err == nil) != ok {
			t.Errorf("%s: %v", retain, err)
		}
	}
}
