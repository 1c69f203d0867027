package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// A call that begins more than a second after an identical one, which still waits, gets the payment of that one, also
// if it is answered meanwhile. On another node it is alike.
func TestLateCallGetsThePaymentOfTheFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node, anew, waits bool
		after             time.Duration
		payments          int
	}{
		"late":                     {after: 1001 * time.Millisecond, payments: 1},
		"late, before its price":   {after: 1001 * time.Millisecond, waits: true, payments: 1},
		"together":                 {after: time.Second, payments: 2},
		"late and new":             {after: time.Minute / 4, anew: true, payments: 2},
		"late, at another node":    {after: 1001 * time.Millisecond, node: true, payments: 1},
		"together at another node": {after: time.Second, node: true, payments: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *pay.Options) { o.RepeatWait = 10 * time.Second })
			r := w.proxied("https://a.example/x", "100", "")
			first := must(w.payer.Open(context.Background(), r))
			w.chain.advance(c.after)
			payer := w.payer
			if c.node {
				payer = must(pay.New(w.opts))
				defer func() { _ = payer.Close(context.Background()) }()
			}
			r.Anew, r.Arrival = c.anew, payer.Arrive(w.key.ID)
			defer r.Arrival.Decided()
			got := make(chan *pay.Attempt, 1)
			open := func() {
				a, err := payer.Open(context.Background(), r)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}
			if !c.waits {
				go open()
			}
			if c.node {
				time.Sleep(20 * time.Millisecond) // most often it has looked by then; the end is the same
			}
			w.sellerMoves(first.Payload())
			first.Finish(true)
			if c.waits { // the seller names the price only now
				w.quiet()
				go open()
			}
			a := <-got
			if a == nil {
				t.FailNow()
			}
			if same := a.Payment().ID == first.Payment().ID; same != (c.payments == 1) {
				t.Errorf("the same payment: %t", same)
			}
			a.Finish(true)
		})
	}
}

// decides calls a function before a payment is journaled.
type decides struct {
	pay.Store
	before func(*pay.Begin)
}

func (d *decides) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	d.before(b)
	return d.Store.Begin(ctx, b)
}

// A call that repeats another one, by when both began or by its own word, gets the payment of that one, also if it is
// answered at the very moment when the store decides.
func TestRepeatOfACallAnsweredAtTheDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after         time.Duration
		retried, anew bool
		payments      int
	}{
		"late":                        {after: 1001 * time.Millisecond, payments: 1},
		"by its own word":             {retried: true, payments: 1},
		"by its own word, though new": {retried: true, anew: true, payments: 1},
		"together":                    {payments: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &decides{before: func(*pay.Begin) {}}
			w := newWorld(t, func(o *pay.Options) {
				o.RepeatWait, store.Store, o.Store = 10*time.Second, o.Store, store
			})
			payer := w.payer
			r := w.proxied("https://a.example/x", "100", "")
			first := must(payer.Open(context.Background(), r))
			w.sellerMoves(first.Payload())
			w.chain.advance(c.after)
			r.Retried, r.Anew, r.Arrival = c.retried, c.anew, payer.Arrive(w.key.ID)
			store.before = func(b *pay.Begin) {
				if b.New != nil && b.New.ID != first.Payment().ID {
					store.before = func(*pay.Begin) {}
					first.Finish(true)
					w.quiet()
				}
			}
			second := must(payer.Open(context.Background(), r))
			if same := second.Payment().ID == first.Payment().ID; same != (c.payments == 1) {
				t.Errorf("the same payment: %t", same)
			}
			second.Finish(true)
		})
	}
}

// A call fails while a repeat of an earlier one, which was answered, is on its way to its price. The repeat is none of
// the call that has failed. One that begins then is.
func TestRepeatBesideACallThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		overlaps bool // the call that fails begins before the answer
		behind   bool // the repeat begins behind the failure
		payments int
	}{
		"before":                        {payments: 1},
		"behind":                        {behind: true, payments: 2},
		"behind, and it may be of both": {overlaps: true, behind: true, payments: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			r := w.proxied("https://a.example/x", "100", "")
			fails := r
			least := money.New(1)
			fails.MaxAmount = &least
			first := must(w.payer.Open(context.Background(), r))
			w.sellerMoves(first.Payload())
			if c.overlaps {
				fails.Arrival = w.payer.Arrive(w.key.ID)
			}
			first.Finish(true)
			w.quiet()
			if !c.overlaps {
				fails.Arrival = w.payer.Arrive(w.key.ID)
			}
			r.Retried = true
			if !c.behind {
				r.Arrival = w.payer.Arrive(w.key.ID)
			}
			if _, err := w.payer.Open(context.Background(), fails); pay.Code(err) != pay.CodePolicy {
				t.Fatal(err)
			}
			fails.Arrival.Decided()
			second := must(w.payer.Open(context.Background(), r))
			if same := second.Payment().ID == first.Payment().ID; same != (c.payments == 1) {
				t.Errorf("the same payment: %t", same)
			}
			second.Finish(true)
		})
	}
}

// A key that buys much at once is remembered as well as another.
func TestRepeatAmongManyPurchases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	buy := func(url string, retried bool) string {
		r := w.proxied(url, "1", "")
		r.Retried = retried
		a := must(w.payer.Open(context.Background(), r))
		w.sellerMoves(a.Payload())
		a.Finish(true)
		return a.Payment().ID
	}
	id := buy("https://a.example/x", false)
	for i := range 100 {
		buy(fmt.Sprintf("https://a.example/%d", i), false)
	}
	w.quiet()
	if buy("https://a.example/x", true) != id {
		t.Error("a repeat is a purchase")
	}
}

// after calls a function when a store has decided.
type after struct {
	pay.Store
	decided func(pay.Begun)
}

func (a *after) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	begun, err := a.Store.Begin(ctx, b)
	a.decided(begun)
	return begun, err
}

// A client has its answer, from a slow seller, and asks for the same again. It finds the first payment busy, and that
// is over before it has looked whose it was. It is a purchase, unless it began before the answer.
func TestNextCallWhenTheFirstIsOverAtOnce(t *testing.T) {
	t.Parallel()
	for name, overlaps := range map[string]bool{"behind the answer": false, "before it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &after{decided: func(pay.Begun) {}}
			w := newWorld(t, func(o *pay.Options) {
				o.RepeatWait, store.Store, o.Store = 10*time.Second, o.Store, store
			})
			r := w.proxied("https://a.example/x", "100", "")
			first := must(w.payer.Open(context.Background(), r))
			w.sellerMoves(first.Payload())
			w.chain.advance(5 * time.Second)
			if overlaps {
				r.Arrival = w.payer.Arrive(w.key.ID)
			}
			told := make(chan bool, 1)
			first.Deliver(true, func() func() bool { return func() bool { return <-told } })
			if !overlaps {
				r.Arrival = w.payer.Arrive(w.key.ID)
			}
			store.decided = func(begun pay.Begun) {
				if begun.How == pay.Busy {
					store.decided = func(pay.Begun) {}
					told <- true
					w.quiet()
				}
			}
			second := must(w.payer.Open(context.Background(), r))
			if same := second.Payment().ID == first.Payment().ID; same != overlaps {
				t.Errorf("the same payment: %t", same)
			}
			second.Finish(true)
		})
	}
}

// The next call waits until an answer that is written has been acknowledged, or not.
func TestNextCallWaitsForTheAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, acknowledged := range []bool{true, false} {
		w := newWorld(t, func(o *pay.Options) { o.RepeatWait = 10 * time.Second })
		r := w.proxied("https://a.example/x", "100", "")
		ctx, end := context.WithCancel(context.Background())
		first := must(w.payer.Open(ctx, r))
		told := make(chan bool)
		first.Deliver(true, func() func() bool { return func() bool { return <-told } })
		end() // the request is over
		w.chain.advance(time.Millisecond)
		got := make(chan *pay.Attempt, 1)
		go func() {
			a, err := w.payer.Open(context.Background(), r)
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		select {
		case <-got:
			t.Fatal("it did not wait")
		case <-time.After(100 * time.Millisecond):
		}
		told <- acknowledged
		a := <-got
		if again := a.Payment().ID == first.Payment().ID; again == acknowledged {
			t.Errorf("acknowledged %t, the same payment %t", acknowledged, again)
		}
		a.Finish(true)
	}
}

// A client leaves when the last of its answer is on its way, and asks for a purchase of its own. It waits until it is
// known whether it has the answer: the payment may be open, and then that is repeated.
func TestNewPurchaseOfAClientThatLeftAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"without its answer": false, "with its answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &after{decided: func(pay.Begun) {}}
			w := newWorld(t, func(o *pay.Options) {
				o.RepeatWait, store.Store, o.Store = 10*time.Second, o.Store, store
			})
			r := w.proxied("https://a.example/x", "100", "")
			ctx, leave := context.WithCancel(context.Background())
			first := must(w.payer.Open(ctx, r))
			_, sent := first.Send(context.Background())
			sent(nil)
			first.Ending(true)
			leave()
			r.Anew, r.Arrival = true, w.payer.Arrive(w.key.ID)
			defer r.Arrival.Decided()
			store.decided = func(begun pay.Begun) {
				store.decided = func(pay.Begun) {}
				if begun.How != pay.Busy {
					t.Errorf("it is decided before the end of the first: %d", begun.How)
				}
				first.Finish(answered)
			}
			second := must(w.payer.Open(context.Background(), r))
			if same := second.Payment().ID == first.Payment().ID; same == answered {
				t.Errorf("the same payment: %t", same)
			}
			second.Finish(true)
		})
	}
}

// A request comes again while its payment is still awaited, and the seller names its price only later. It is a repeat.
func TestRepeatWhosePriceComesLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		came  time.Duration // after the authorization has expired
		twice bool
	}{
		"in time": {pay.RepeatGrace - time.Second, false},
		"late":    {pay.RepeatGrace, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			r := w.proxied("https://a.example/x", "100", "")
			first := must(w.payer.Open(t.Context(), r))
			w.sellerMoves(first.Payload())
			first.Finish(false) // its answer was lost
			w.quiet()
			w.chain.advance(first.Payment().ValidBefore().Add(c.came).Sub(w.chain.clock()))
			r.Arrival = w.payer.Arrive(w.key.ID)
			defer r.Arrival.Decided()
			w.chain.advance(5 * time.Minute)
			if a, err := w.payer.Open(t.Context(), r); err == nil {
				defer a.Finish(true)
				if same := a.Payment().ID == first.Payment().ID; same == c.twice {
					t.Errorf("it gets %s, and the first one got %s", a.Payment().ID, first.Payment().ID)
				}
			} else if open, is := errors.AsType[*pay.OpenError](err); !is || c.twice || open.Payment.ID != first.Payment().ID {
				t.Errorf("it gets %v", err)
			}
		})
	}
}
