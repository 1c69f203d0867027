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
					in.settle(t)
					if in.audit(t, customer); t.Failed() {
						t.Logf("first %s, third %s", first, third)
					}
				})
			}
		}
	}
}

// Payments that are made while purser's clock is wrong are booked as any others.
func TestPaymentsByAWrongClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{
		"a second ahead": time.Second, "five minutes ahead": 5 * time.Minute, "a minute behind": -time.Minute, "an hour behind": -time.Hour,
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
				in.settle(t)
				in.audit(t, customer)
				_, ledger := in.account(t, customer)
				if moved := len(ledger.Transfers); moved != 3 && skew > -time.Hour || moved != 0 && skew == -time.Hour {
					t.Errorf("%d transfers", moved)
				}
			})
		}
	}
}

// Purser's clock is an hour ahead while it pays, and the answer is lost. The money has moved; recovery looks for it from
// ten minutes before the payment was made, by that clock, and never finds it.
func TestPaidWhileTheClockIsFarAhead(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]hostile.FacilitatorFault{"answered": {}, "answer lost": hostile.ResetAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, newGround(t))
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
			in.settle(t)
			in.audit(t, customer)
		})
	}
}
