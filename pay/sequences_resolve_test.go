package pay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Sequences around an operator's word; see sequences_test.go.

// leftOpen is a payment whose caller got no answer, with its payload.
func (w *world) leftOpen(url, idem string) (*pay.Payment, x402.Payload) {
	w.t.Helper()
	a := w.mustOpen(w.proxied(url, "10", idem))
	a.Finish(false)
	w.quiet()
	return w.payment(a.Payment().ID), a.Payload()
}

// resolve is an operator's word. An attempt lets go of its payment a moment after it has
// released the lease.
func (w *world) resolve(id string, as pay.State) (p *pay.Payment, err error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p, err = w.payer.ResolvePayment(context.Background(), id, pay.Ruling{As: as, Reason: "seen on a statement", By: "ann"})
		if !errors.Is(err, pay.ErrLeaseHeld) {
			break
		}
	}
	return p, err
}

func (w *world) mustResolve(id string, as pay.State) *pay.Payment {
	w.t.Helper()
	p := must(w.resolve(id, as))
	return p
}

// events counts the events of a payment.
func (w *world) events(id string) (n int) {
	w.t.Helper()
	list := must(w.store.SpendEvents(context.Background(), w.key.ID, pay.SpendQuery{Limit: 100}))
	for _, e := range list {
		if e.PaymentID == id {
			n++
		}
	}
	return n
}

func unresolvable(err error) bool {
	var cannot *pay.UnresolvableError
	return errors.As(err, &cannot)
}

// A payment that is declared void while its payload is valid is paid a second time by the
// caller's repeat, and the first one is settled after all.
func TestValidPaymentIsNotResolved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at         time.Duration // after validBefore
		unresolved bool
		want       bool
	}{
		"valid":                               {-time.Second, false, false},
		"unresolved by a clock that went on":  {-time.Second, true, false},
		"expired, evidence may still come in": {pay.RepeatGrace - time.Second, false, false},
		"expired, nothing came in":            {pay.RepeatGrace, false, true},
		"unresolved":                          {0, true, true},
	} {
		w := newWorld(t, func(o *pay.Options) { o.Chain, o.Facilitator = nil, nil })
		p, _ := w.leftOpen("https://a.example/x", "order-1")
		if c.unresolved {
			w.chain.advance(p.ValidBefore().Sub(w.chain.clock()))
			w.recoverOnce()
			if p = w.payment(p.ID); !p.Unresolved {
				t.Fatalf("%s: %v", name, p.Flags())
			}
		}
		w.chain.advance(p.ValidBefore().Add(c.at).Sub(w.chain.clock()))
		_, err := w.resolve(p.ID, pay.Void)
		if c.want && err != nil || !c.want && !unresolvable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A payment that is being sent may be settled at this moment, whatever the clock says of
// its validity and its lease.
func TestLeasedPaymentIsNotResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain, o.Facilitator = nil, nil })
	other := w.node()
	a := w.mustOpen(w.proxied("https://a.example/x", "10", ""))
	w.chain.advance(time.Hour)
	if _, err := w.payer.ResolvePayment(context.Background(), a.Payment().ID, pay.Ruling{As: pay.Void, Reason: "x"}); !errors.Is(err, pay.ErrLeaseHeld) {
		t.Errorf("sent by this node: %v", err)
	}
	a.Finish(false)
	w.quiet()
	now := w.chain.clock()
	must(w.store.Acquire(context.Background(), a.Payment().ID, "another node", now, now.Add(pay.LeaseTime)))
	if _, err := other.ResolvePayment(context.Background(), a.Payment().ID, pay.Ruling{As: pay.Void, Reason: "x"}); !errors.Is(err, pay.ErrLeaseHeld) {
		t.Errorf("sent by another node: %v", err)
	}
	if p := w.payment(a.Payment().ID); p.State != pay.Open || p.Resolution != nil {
		t.Errorf("%s, %+v", p.State, p.Resolution)
	}
}

// An operator errs, or is lied to. The chain has the last word on what was declared void,
// whether the RPC was there or came later; and on what was declared settled.
func TestChainWinsOverAnOperator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		moves bool
		as    pay.State
		state pay.State
		flag  string
	}{
		"void, but moved":       {true, pay.Void, pay.Settled, "confirmed"},
		"void, and so it is":    {false, pay.Void, pay.Void, ""},
		"settled, but not":      {false, pay.Settled, pay.Settled, "disputed"},
		"settled, and so it is": {true, pay.Settled, pay.Settled, "confirmed"},
	} {
		for _, later := range []bool{false, true} {
			w := newWorld(t, func(o *pay.Options) {
				if o.Facilitator = nil; later {
					o.Chain = nil
				}
			})
			p, payload := w.leftOpen("https://a.example/x", "")
			if c.moves {
				w.sellerMoves(payload)
			}
			w.chain.rpc(true, false)
			w.chain.advance(time.Hour)
			w.recoverOnce()
			if got := w.mustResolve(p.ID, c.as); got.State != c.as || got.Unresolved || got.Lease.Owner != "" || w.placeCount() != map[pay.State]string{pay.Void: "0", pay.Settled: "1"}[c.as] {
				t.Errorf("%s: %s %v, lease of %q, place %s", name, got.State, got.Flags(), got.Lease.Owner, w.placeCount())
			}
			w.chain.rpc(false, false)
			w.opts.Chain = w.chain
			w.restart()
			for range 30 {
				w.chain.advance(time.Hour)
				w.recoverOnce()
			}
			p = w.payment(p.ID)
			if p.State != c.state || c.flag != strings.Join(p.Flags(), " ") || p.Resolution == nil || p.Resolution.Reason != "seen on a statement" {
				t.Errorf("%s, RPC later %v: %s %v %+v", name, later, p.State, p.Flags(), p.Resolution)
			}
			want := map[string]int{"confirmed": 1, "disputed": 2}[c.flag]
			if n := w.events(p.ID); n != want {
				t.Errorf("%s: %d spend events, want %d", name, n, want)
			}
			if err := w.store.check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			asked := w.chain.traces()
			w.chain.advance(24 * time.Hour)
			w.recoverOnce()
			if w.chain.traces() != asked {
				t.Errorf("%s: the chain is asked again about what it has proved", name)
			}
		}
	}
}

// What is resolved is done with: a caller that still has the idempotency key gets the
// answer that fits, once.
func TestRepeatOfAResolvedPayment(t *testing.T) {
	t.Parallel()
	for _, as := range []pay.State{pay.Void, pay.Settled} {
		w := newWorld(t, func(o *pay.Options) { o.Chain, o.Facilitator = nil, nil })
		r := w.rest(pay.SettleSeller, "https://a.example/x", "10", "order-1")
		first := w.mustPay(r)
		w.chain.advance(time.Hour)
		w.mustResolve(first.ID, as)
		if again := w.mustPay(r); (again.ID == first.ID) != (as == pay.Settled) {
			t.Errorf("resolved as %s, the repeat got %s after %s", as, again.ID, first.ID)
		}
	}
}

func TestRulingsThatDoNotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tx := "0x" + strings.Repeat("AB", 32)
	for name, r := range map[string]pay.Ruling{
		"state":         {As: pay.Open, Reason: "x"},
		"no reason":     {As: pay.Void, Reason: " "},
		"two lines":     {As: pay.Void, Reason: "a\nb"},
		"too long":      {As: pay.Void, Reason: strings.Repeat("x", 501)},
		"by":            {As: pay.Void, Reason: "x", By: "a\x00"},
		"transaction":   {As: pay.Settled, Reason: "x", Transaction: "0x12"},
		"void, with tx": {As: pay.Void, Reason: "x", Transaction: tx},
	} {
		_, err := w.payer.ResolvePayment(context.Background(), "p", r)
		var input *pay.InputError
		if !errors.As(err, &input) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.resolve("nobody's", pay.Void); !errors.Is(err, pay.ErrPaymentNotFound) {
		t.Error(err)
	}
	settled := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "1", ""))
	if _, err := w.resolve(settled.ID, pay.Void); !unresolvable(err) {
		t.Errorf("a settled payment: %v", err)
	}
	// A transaction belongs to one payment; it is copied from an explorer by hand.
	w.chain.rpc(true, false)
	p, _ := w.leftOpen("https://a.example/y", "")
	w.released(p.ID)
	w.chain.advance(time.Hour)
	w.recoverOnce()
	_, err := w.payer.ResolvePayment(context.Background(), p.ID, pay.Ruling{As: pay.Settled, Reason: "x", Transaction: settled.Transaction})
	if !errors.Is(err, pay.ErrTransactionKnown) {
		t.Error(err)
	}
	if p = w.payment(p.ID); p.State != pay.Open || p.Lease.Owner != "" {
		t.Errorf("%s, leased to %q", p.State, p.Lease.Owner)
	}
	got, err := w.payer.ResolvePayment(context.Background(), p.ID, pay.Ruling{As: pay.Settled, Reason: "x", Transaction: tx})
	if err != nil || got.Transaction != strings.ToLower(tx) {
		t.Errorf("%+v, %v", got, err)
	}
}

// What the chain has disproved is taken back in the books, and is not an operator's to decide.
func TestDisputedIsNotResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "lie")
	p := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "1", ""))
	w.recoverAll()
	events, _, err := w.books.Spend(t.Context(), w.key, pay.SpendQuery{Limit: 10})
	if err != nil || len(events) != 2 || events[0].SignedAmount() != "-1" || events[0].Corrects != events[1].ID {
		t.Errorf("events %+v, %v", events, err)
	}
	for _, as := range []pay.State{pay.Void, pay.Settled} {
		if _, err := w.resolve(p.ID, as); !unresolvable(err) || !strings.Contains(err.Error(), "final") {
			t.Errorf("%s: %v", as, err)
		}
	}
}

// A store applies an outcome to a copy of the row, and may drop that copy: what it did to
// the resolution must go with it.
func TestCloneOfAResolvedPayment(t *testing.T) {
	t.Parallel()
	row := &pay.Payment{State: pay.Void, Resolution: &pay.Resolution{As: pay.Void}, Lease: pay.Lease{Owner: "o", Fence: 1}}
	dropped := row.Clone()
	if _, err := dropped.Apply(pay.Outcome{Fence: 1, Verdict: pay.VerdictVoid}); err != nil || !dropped.Resolution.Proven {
		t.Fatal(err)
	}
	if row.Resolution.Proven {
		t.Error("the row itself was changed: the chain is not asked about it again")
	}
}
