package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// Purser's clock jumps while a payload is on its way, recovery looks at once, and the customer asks again meanwhile and
// afterwards, with the same key. When the clock is right again, the books are as well.
func TestTheClockJumpsDuringASend(t *testing.T) {
	t.Parallel()
	const order = 100
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		for _, door := range hostile.Doors() {
			for moment, moves := range map[string]bool{"before the transfer": false, "after the transfer": true} {
				t.Run(name+"/"+string(door)+"/"+moment, func(t *testing.T) {
					t.Parallel()
					in := install(t, newGround(t))
					customer := in.enroll(t)
					buy := func(ctx context.Context) hostile.Result {
						return customer.Buy(ctx, in.world.SellerURL, door, hostile.Order{ID: order, Key: "the-one"})
					}
					var second sync.WaitGroup
					jumps := func() {
						in.skew.Store(int64(jump))
						if _, err := in.payer.RecoverOnce(context.Background()); err != nil {
							t.Error(err)
						}
						second.Go(func() { buy(bounded(t)) })
						time.Sleep(200 * time.Millisecond) // it gets to where it has to wait
					}
					in.world.Facilitator.Meet(hostile.FacilitatorFault{On: hostile.Settle, Do: func(c *hostile.Call) {
						if moves {
							c.Serve()
						}
						jumps()
						c.Reset()
					}})
					in.world.Seller.Meet(hostile.SellerFault{On: hostile.Paid, Do: func(v *hostile.Visit) {
						if moves {
							v.Settle()
						}
						jumps()
						v.Reset()
					}})
					first := buy(bounded(t))
					second.Wait()
					in.quiet(t, customer)
					third := buy(bounded(t))
					in.quiet(t, customer)
					in.recover(t)
					in.settle(t, customer)
					if in.audit(t, customer); t.Failed() {
						t.Logf("first %s, third %s", first, third)
					}
				})
			}
		}
	}
}

// Payments that are made while purser's clock is a little wrong are booked as any others. None are made while it is
// wrong by more than two minutes.
func TestPaymentsByAWrongClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{
		"a second ahead": time.Second, "a minute ahead": time.Minute, "five minutes ahead": 5 * time.Minute,
		"a minute behind": -time.Minute, "an hour behind": -time.Hour,
	} {
		for _, door := range hostile.Doors() {
			t.Run(name+"/"+string(door), func(t *testing.T) {
				t.Parallel()
				in := install(t, newGround(t))
				customer := in.enroll(t)
				in.skew.Store(int64(skew))
				for order := uint64(100); order < 103; order++ {
					customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: order})
				}
				in.quiet(t, customer)
				in.recover(t)
				in.settle(t, customer)
				in.audit(t, customer)
				_, ledger := in.account(t, customer)
				want := 3
				if skew.Abs() > 2*time.Minute {
					want = 0
				}
				if moved := len(ledger.Transfers); moved != want {
					t.Errorf("%d transfers, want %d", moved, want)
				}
				for order := uint64(200); order < 202; order++ { // the clock is right again
					customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: order})
				}
				in.settle(t, customer)
				in.audit(t, customer)
				if _, ledger := in.account(t, customer); len(ledger.Transfers) != want+2 {
					t.Errorf("%d transfers in the end, want %d", len(ledger.Transfers), want+2)
				}
			})
		}
	}
}

// Purser's clock is an hour ahead while it pays, which no Date tells it, and the answer is lost. The money has moved; recovery looks for it from
// ten minutes before the payment was made, by that clock, and never finds it.
func TestPaidWhileTheClockIsFarAhead(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]hostile.FacilitatorFault{"answered": {}, "answer lost": hostile.ResetAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, newGround(t), func(in *installation) { in.noDates = true })
			customer := in.enroll(t)
			in.skew.Store(int64(time.Hour))
			in.world.Facilitator.Meet(fault)
			customer.Buy(bounded(t), in.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: 100, Key: "a"})
			in.quiet(t, customer)
			if _, ledger := in.account(t, customer); len(ledger.Transfers) != 1 {
				t.Fatalf("transfers %+v", ledger.Transfers)
			}
			for range 5 { // the chain goes on, by its own clock
				in.ground.pass(t, time.Minute)
			}
			in.settle(t, customer)
			in.audit(t, customer)
		})
	}
}

// The answer to a payment is lost. Then purser's clock jumps an hour ahead, by which the authorization has expired long
// ago, and the customer asks again without a key: nothing is signed anew while the first authorization is valid.
func TestTheClockJumpsBeforeARepeat(t *testing.T) {
	t.Parallel()
	for _, door := range hostile.Doors() {
		t.Run(string(door), func(t *testing.T) {
			t.Parallel()
			in := install(t, newGround(t))
			customer := in.enroll(t)
			in.world.Facilitator.Meet(hostile.ResetAfter)
			in.world.Seller.Meet(hostile.HangsUpAfter)
			buy := func() hostile.Result {
				return customer.Buy(bounded(t), in.world.SellerURL, door, hostile.Order{ID: 100})
			}
			buy()
			in.quiet(t, customer)
			in.skew.Store(int64(time.Hour))
			for range 3 {
				if got := buy(); got.Done {
					t.Errorf("paid by a clock that is an hour ahead: %s", got)
				}
				in.recover(t)
			}
			in.quiet(t, customer)
			books, ledger := in.account(t, customer)
			if len(books.Payments) != 1 || len(ledger.Transfers) > 1 {
				t.Errorf("%d payments, %d transfers", len(books.Payments), len(ledger.Transfers))
			}
			in.settle(t, customer)
			in.audit(t, customer)
		})
	}
}

// A single wrong Date stops no payments. Many stop them only until a right one has come.
func TestAWildDateStopsNothingForLong(t *testing.T) {
	t.Parallel()
	in := install(t, newGround(t))
	customer := in.enroll(t)
	order := uint64(100)
	moved := func() int {
		customer.Buy(bounded(t), in.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: order})
		order++
		in.quiet(t, customer)
		_, ledger := in.account(t, customer)
		return len(ledger.Transfers)
	}
	if n := moved(); n != 1 {
		t.Fatalf("%d transfers", n)
	}
	in.world.RPC.Show(hostile.View{Ahead: -time.Hour})
	in.ground.clock.Forward(t, time.Minute) // balances are asked for anew
	for range 2 {
		moved()
		in.ground.clock.Forward(t, 10*time.Second)
	}
	stopped := moved()
	if h := in.payer.Health(bounded(t)); !h.Clock.Stopped || h.Clock.OK {
		t.Errorf("clock %+v", h.Clock)
	}
	in.world.RPC.Show(hostile.View{})
	in.ground.clock.Forward(t, 10*time.Second)
	if n := moved(); n != stopped+1 {
		t.Errorf("%d transfers, want %d: right dates let nothing be paid again", n, stopped+1)
	}
	in.settle(t, customer)
	in.audit(t, customer)
}
