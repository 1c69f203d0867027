package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "order-1")
	first := w.mustPay(r)
	if again := w.mustPay(r); again.ID != first.ID || w.chain.moves() != 1 {
		t.Fatalf("a repeat made payment %s, %d moves", again.ID, w.chain.moves())
	}
	other := w.rest(pay.SettlePayer, "https://a.example/x", "101", "order-1")
	if _, err := w.payer.Pay(context.Background(), other); !errors.Is(err, pay.ErrIdempotencyReused) {
		t.Fatalf("other terms: %v", err)
	}
	w.fac.mode("refuse", "")
	void := w.rest(pay.SettlePayer, "https://a.example/y", "100", "order-2")
	if _, err := w.payer.Pay(context.Background(), void); err == nil {
		t.Fatal("refused payment succeeded")
	}
	w.quiet()
	w.fac.mode("", "")
	void.Challenge = challenge(t, "555")
	if _, err := w.payer.Pay(context.Background(), void); !errors.Is(err, pay.ErrIdempotencyReused) {
		t.Fatalf("other terms while the refused authorization is valid: %v", err)
	}
	w.chain.advance(5 * time.Minute)
	w.recoverOnce()
	if p := w.mustPay(void); p.Terms.Amount.String() != "555" { // the chain has shown the first one unused
		t.Fatalf("amount %s", p.Terms.Amount)
	}
}

func TestUnclearSettlementIsDrivenOnWithTheSamePayload(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "k-1"} {
		w := newWorld(t, nil)
		w.fac.mode("", "fail-moved")
		r := w.rest(pay.SettlePayer, "https://a.example/x", "100", idem)
		p := w.mustFail(r)
		if p.State != pay.Open || p.Refused {
			t.Fatalf("state %s %v", p.State, p.Flags())
		}
		w.quiet()
		w.restart()
		w.fac.mode("", "")
		got := w.mustPay(r)
		if got.ID != p.ID || got.State != pay.Settled || got.Transaction == "" || w.chain.moves() != 1 {
			t.Fatalf("idem %q: %s %s, %d moves", idem, got.ID, got.State, w.chain.moves())
		}
	}
}

func TestExpiredOpenPaymentIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "fail")
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k-1")
	p := w.mustFail(r)
	w.quiet()
	w.fac.mode("", "")
	w.chain.advance(55 * time.Second) // 5 s left: too late to send it again
	_, err := w.payer.Pay(context.Background(), r)
	if open, ok := errors.AsType[*pay.OpenError](err); !ok || open.Payment.ID != p.ID {
		t.Fatalf("got %v", err)
	}
	w.chain.advance(20 * time.Second) // the chain can now say that it never moved
	w.recoverOnce()
	if got := w.payment(p.ID); got.State != pay.Void {
		t.Fatalf("state %s", got.State)
	}
	if got := w.mustPay(r); got.ID == p.ID || w.chain.moves() != 1 {
		t.Fatalf("%d moves", w.chain.moves())
	}
}

func TestCallerGoneBeforeAndBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.payer.Pay(ctx, w.rest(pay.SettlePayer, "https://a.example/x", "100", "")); !errors.Is(err, pay.ErrCallerGone) {
		t.Fatalf("got %v", err)
	}
	if w.fac.called("verify") != 0 {
		t.Fatal("sent for nobody")
	}

	between := newWorld(t, nil)
	ctx, cancel = context.WithCancel(context.Background())
	f := &hangUp{facilitator: between.fac, cancel: cancel}
	between.opts.Facilitator = f
	between.restart()
	_, err := between.payer.Pay(ctx, between.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	if p := failedState(t, err); p.State != pay.Open || between.fac.called("settle") != 0 {
		t.Fatalf("state %s, settle called %d times", p.State, between.fac.called("settle"))
	}
}

// hangUp ends the caller while /verify is being asked.
type hangUp struct {
	*facilitator
	cancel func()
}

func (h *hangUp) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	h.cancel()
	return h.facilitator.Verify(ctx, x)
}

func TestSettleOutlivesItsCallerAndARepeatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.RepeatWait = 10 * time.Second })
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "")
	go func() {
		a, err := w.payer.Pay(ctx, r)
		if err == nil {
			a.Finish(false) // the caller has left before the answer
		}
		first <- err
	}()
	<-w.fac.entered
	cancel()
	second := make(chan *pay.Payment, 1)
	go func() {
		a, err := w.payer.Pay(context.Background(), r)
		if err != nil {
			t.Error(err)
			second <- nil
			return
		}
		a.Finish(true)
		second <- a.Payment()
	}()
	select {
	case <-second:
		t.Fatal("the repeat did not wait for the send in flight")
	case <-time.After(100 * time.Millisecond):
	}
	close(w.fac.release)
	if err := <-first; err != nil {
		t.Fatalf("the settlement was cancelled with its caller: %v", err)
	}
	if p := <-second; p == nil || p.State != pay.Settled || w.chain.moves() != 1 {
		t.Fatalf("%d moves", w.chain.moves())
	}
	// The answer has arrived now, so the next call is a new purchase.
	w.quiet()
	w.mustPay(r)
	if w.chain.moves() != 2 {
		t.Fatalf("%d moves, want a second purchase", w.chain.moves())
	}
}

func TestConcurrentCallersOfOneURLPaySeparately(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	ids := make(chan string, 2)
	for range 2 {
		go func() {
			a, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
			if err != nil {
				t.Error(err)
				ids <- ""
				return
			}
			a.Finish(true)
			ids <- a.Payment().ID
		}()
	}
	<-w.fac.entered
	<-w.fac.entered
	close(w.fac.release)
	if a, b := <-ids, <-ids; a == b || w.chain.moves() != 2 {
		t.Fatalf("payments %s and %s, %d moves", a, b, w.chain.moves())
	}
}

func TestDuplicateOfAnIdempotencyKeyWaitsThenIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	done := make(chan error, 1)
	go func() {
		a, err := w.payer.Pay(context.Background(), r)
		if err == nil {
			a.Finish(true)
		}
		done <- err
	}()
	<-w.fac.entered
	_, err := w.payer.Pay(context.Background(), r)
	if pay.Code(err) != pay.CodeOpen {
		t.Fatalf("got %v", err)
	}
	close(w.fac.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestUnansweredPaymentsPerHostAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "fail")
	for i := range pay.MaxUnansweredPerHost {
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", i), "100", ""))
		failedState(t, err)
	}
	w.quiet()
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/more", "100", "")); !isRule(err, "unanswered") {
		t.Fatalf("got %v", err)
	}
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://b.example/more", "100", "")); isRule(err, "unanswered") {
		t.Fatal("another host is bounded as well")
	}
}

func TestRetiresAfterThirtyDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	p := w.mustPay(r)
	w.recoverAll() // confirms
	w.chain.advance(pay.RetainPayload)
	w.recoverOnce()
	if got := w.payment(p.ID); got.Retired {
		t.Fatal("one look is enough to retire a payment: a clock that is wrong for a moment forgets its idempotency key")
	}
	w.chain.advance(time.Hour)
	w.recoverOnce()
	if got := w.payment(p.ID); !got.Retired || !got.Confirmed || got.Signature != nil {
		t.Fatalf("%+v", got)
	}
	if again := w.mustPay(r); again.ID == p.ID {
		t.Fatal("the idempotency key still stands for a retired payment")
	}
}

func TestARepeatOutlivesItsWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	p := w.mustPay(r)
	if err := w.books.DeleteWallet(context.Background(), w.key, p.WalletID); err != nil {
		t.Fatal(err)
	}
	if again := w.mustPay(r); again.ID != p.ID {
		t.Fatal("the stored answer was not given")
	}
	r.IdempotencyKey = "other"
	for _, reason := range []string{"", "nonce_already_used"} {
		r.Challenge.Error = reason
		if _, err := w.payer.Pay(context.Background(), r); pay.Code(err) != pay.CodeNoWallet {
			t.Fatalf("got %v", err)
		}
	}
}

// Rows of before have hashes of bodies as they came. Their repeats find them all the same.
func TestRowsOfAnEarlierIdentity(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "k-1"} {
		w := newWorld(t, nil)
		r := w.proxied("https://a.example/upload", "100", idem)
		plain := pay.HashOf("as it came")
		r.HTTP.Method, r.HTTP.Body = "POST", plain
		left, err := w.payer.Open(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		left.Finish(false)
		w.quiet()
		r.HTTP = &pay.HTTPRequest{Method: "POST", URL: r.HTTP.URL, Body: pay.HashOf("what it says"), Plain: plain}
		again, err := w.payer.Open(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if again.Finish(true); again.Payment().ID != left.Payment().ID {
			t.Errorf("key %q: another payment", idem)
		}
	}
}
