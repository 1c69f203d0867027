package pay_test

import (
	"context"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Sequences in which a signed payment is given up on purser's own word or the
// facilitator's, and its money moves all the same; see sequences_test.go.

// A facilitator that says at /verify that it will not pay, and broadcasts all the same, got a new
// authorization with each repeat.
func TestRefusalAtVerifyOfWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		for _, settlement := range []pay.Settlement{pay.SettlePayer, pay.SettleSeller} {
			for _, idem := range []string{"", "order-1"} {
				w := newWorld(t, func(o *pay.Options) {
					if !watched {
						o.Chain = nil
					}
				})
				if watched && settlement == pay.SettleSeller {
					continue // the facilitator is not asked
				}
				w.fac.mode("refuse-moved", "")
				r := w.rest(settlement, "https://a.example/x", "1000", idem)
				for range 4 {
					_, err := w.payer.Pay(context.Background(), r)
					if p := failedState(t, err); p.State != pay.Open || !p.Refused {
						t.Fatalf("%s %v", p.State, p.Flags())
					}
					w.quiet()
				}
				if w.chain.moves() != 1 || w.placeCount() != "0" {
					t.Errorf("watched %t, %s, %q: %d moves, place %s", watched, settlement, idem, w.chain.moves(), w.placeCount())
				}
				w.checkBooks()
			}
		}
	}
}

// contradictions counts what an observer is told of payments that moved after they were given up.
type contradictions struct {
	watcher
	told *int
}

func (c contradictions) Contradicted(*pay.Payment) { *c.told++ }

// A door that is wrong about what has left must not free the money of the payment, nor get a
// second authorization for the request. When the payload moves, the books have it.
func TestPayloadThatLeftAllTheSame(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "order-1"} {
		told := 0
		w := newWorld(t, func(o *pay.Options) { o.Observer = contradictions{watcher: watcher{}, told: &told} })
		w.set(policy.Policy{DailyBudget: usdc(10)})
		r := w.proxied("https://a.example/x", "10", idem)
		a := w.mustOpen(r)
		p, leaked := a.Payment(), a.Payload()
		a.Abandon("no connection")
		if p = w.payment(p.ID); p.State != pay.Void || !p.Doubted || w.placeCount() != "0" {
			t.Fatalf("%s %+v, place %s", p.State, p, w.placeCount())
		}
		w.spends(buy{amount: 1}, "daily-budget")
		b := w.mustOpen(r)
		if b.Payment().ID != p.ID || b.Payload().Header() != leaked.Header() || b.Payment().State != pay.Open || w.placeCount() != "1" {
			t.Fatalf("%q: the repeat got payment %s of %s, %s, place %s", idem, b.Payment().ID, p.ID, b.Payment().State, w.placeCount())
		}
		b.Abandon("no connection")
		w.sellerMoves(leaked)
		w.chain.advance(p.ValidBefore().Sub(w.chain.clock()) + 10*time.Second)
		w.recoverOnceAndQuiet()
		if p = w.payment(p.ID); p.State != pay.Settled || p.EventID == "" || told != 1 || w.placeCount() != "1" {
			t.Errorf("%q: %s %v, told %d times, place %s", idem, p.State, p.Flags(), told, w.placeCount())
		}
		w.checkBooks()
	}
}

// What the chain shows unused gives its money back and frees the request.
func TestUnsentPaymentThatTheChainDisproves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(10)})
	r := w.proxied("https://a.example/x", "10", "order-1")
	a := w.mustOpen(r)
	p := a.Payment()
	a.Abandon("no connection")
	w.chain.lag = 10 * time.Minute
	w.chain.advance(p.ValidBefore().Sub(w.chain.clock()) + 5*time.Minute)
	w.recoverOnceAndQuiet()
	if p = w.payment(p.ID); !p.Doubted {
		t.Fatal("no safe block past the validity, and the payment is not doubted any more")
	}
	w.spends(buy{amount: 1}, "daily-budget")
	w.chain.lag = 0
	w.chain.advance(10 * time.Minute)
	w.recoverOnceAndQuiet()
	if p = w.payment(p.ID); p.State != pay.Void || p.Doubted {
		t.Fatalf("%s, doubted %t", p.State, p.Doubted)
	}
	if b, err := w.payer.Open(context.Background(), r); err != nil || b.Payment().ID == p.ID {
		t.Fatalf("%v", err)
	}
	w.checkBooks()
}

// While payments are paused, a repeat does not open a payment again that has not left.
func TestDoubtedPaymentIsNotRevivedDuringAPause(t *testing.T) {
	t.Parallel()
	ctx := pay.WithActor(context.Background(), pay.Operator("ann"))
	w := newWorld(t, nil)
	r := w.proxied("https://a.example/x", "10", "")
	a := w.mustOpen(r)
	a.Abandon("no connection")
	must(w.books.PauseAll(ctx, "drill"))
	if _, err := w.payer.Open(context.Background(), r); !isRule(err, pay.RulePaused) {
		t.Errorf("while everything is paused: %v", err)
	}
	if err := w.books.ResumeAll(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := w.payer.Open(context.Background(), r)
	if err != nil || b.Payment().ID != a.Payment().ID {
		t.Fatalf("%v", err)
	}
	b.Finish(false)
}
