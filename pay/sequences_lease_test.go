package pay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Sequences around leases, clocks and recovery; see sequences_test.go.

// node is one more process over the world's store.
func (w *world) node() *pay.Payer {
	w.t.Helper()
	p := must(pay.New(w.opts))
	return p
}

// slowChain takes its time to tell a balance.
type slowChain struct {
	*truth
	takes time.Duration
}

func (s *slowChain) Balance(ctx context.Context, n x402.Network, a x402.Asset, o x402.Address) (money.Amount, error) {
	s.advance(s.takes)
	return s.truth.Balance(ctx, n, a, o)
}

// slowDisk takes its time to journal a payment.
type slowDisk struct {
	pay.Store
	clock *truth
	takes time.Duration
}

func (s *slowDisk) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	begun, err := s.Store.Begin(ctx, b)
	s.clock.advance(s.takes)
	return begun, err
}

// A lease that is counted from before a slow RPC or a slow disk is over when it is granted:
// a second node then takes the payment while the first one sends, and what the first one
// learns of the money may no longer be written. A validity so counted is too short.
func TestLeaseStartsWhenItIsGranted(t *testing.T) {
	t.Parallel()
	const late = pay.LeaseTime + time.Second
	for name, c := range map[string]struct {
		slow  func(w *truth, o *pay.Options)
		valid time.Duration
	}{
		"slow RPC":  {func(c *truth, o *pay.Options) { o.Chain = &slowChain{c, late} }, 60 * time.Second},
		"slow disk": {func(c *truth, o *pay.Options) { o.Store = &slowDisk{o.Store, c, late} }, 60*time.Second - late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			quick := w.node()
			c.slow(w.chain, &w.opts)
			r := w.proxied("https://a.example/x", "1", "order-1")
			a := must(w.node().Open(context.Background(), r))
			defer a.Finish(true)
			p, now := w.payment(a.Payment().ID), w.chain.clock()
			if got := p.ValidBefore().Sub(now); got != c.valid {
				t.Errorf("valid for %s more, want %s", got, c.valid)
			}
			b, err := quick.Open(context.Background(), r)
			var open *pay.OpenError
			if err == nil {
				t.Errorf("two nodes hold the payload of %s at once", b.Payment().ID)
				b.Finish(true)
			} else if !errors.As(err, &open) || open.Payment.ID != p.ID {
				t.Error(err)
			}
		})
	}
}

// A clock that jumps past a lease must not make the process forget that it is sending. The
// seller would get the payload twice at once and serve it once, perhaps to a caller that
// has left; the other one has paid for nothing.
func TestClockJumpDuringASend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.proxied("https://a.example/x", "1", "order-1")
	a := w.mustOpen(r)
	w.chain.advance(pay.LeaseTime + time.Second)
	b, err := w.payer.Open(context.Background(), r)
	var open *pay.OpenError
	if err == nil {
		t.Errorf("the same process sends %s twice at once", b.Payment().ID)
		b.Finish(true)
	} else if !errors.As(err, &open) {
		t.Error(err)
	}
	a.Finish(true)
	w.quiet()
	w.mustOpen(r).Finish(true) // once it is over, a repeat gets it
}

// stolen is a facilitator that hangs; meanwhile something happens.
type stolen struct {
	*facilitator
	meanwhile func()
}

func (s *stolen) Verify(ctx context.Context, _ pay.Exchange) (pay.VerifyAnswer, error) {
	s.meanwhile()
	<-ctx.Done()
	return pay.VerifyAnswer{}, ctx.Err()
}

// While /verify hangs, the lease goes to another node. A payload that leaves all the same adds to
// that node's later payment, and its outcome cannot be recorded.
func TestNothingLeavesWithoutTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // renewals run on the real clock, every 10 s
		w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
		other := w.node()
		r := w.proxied("https://a.example/x", "10", "order-1")
		var theirs *pay.Attempt
		w.opts.Facilitator = &stolen{w.fac, func() {
			w.chain.advance(pay.LeaseTime + time.Second) // this node is suspended
			var err error
			if theirs, err = other.Open(context.Background(), r); err != nil {
				t.Error(err)
			}
		}}
		w.restart()
		_, err := w.payer.Open(t.Context(), r)
		var open *pay.OpenError
		if !errors.Is(err, pay.ErrLeaseLost) || !errors.As(err, &open) {
			t.Fatalf("the payload leaves (error %v)", err)
		}
		if theirs == nil || theirs.Payment().ID != open.Payment.ID {
			t.Fatal("the other node has another payment")
		}
		theirs.Finish(true)
		w.quiet()
	})
}

// A payload that leaves just before it expires buys nothing, and still may be settled:
// the caller then pays again for what it did not get.
func TestNothingLeavesTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ring.slow = func() { w.chain.advance(60*time.Second - pay.ResendMargin) }
	_, err := w.payer.Open(t.Context(), w.proxied("https://a.example/x", "10", ""))
	p := failedState(t, err)
	w.quiet()
	if p = w.payment(p.ID); p.State != pay.Void || w.placeCount() != "0" {
		t.Errorf("%s, place %s", p.State, w.placeCount())
	}
}

// Payments that are being sent come due as well. If long sends fill recovery's batch, a
// payment that did move money stays out of the books for as long as they last.
func TestLongSendsDoNotStarveRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 200 {
		a := w.mustOpen(w.proxied(fmt.Sprintf("https://stream.example/%d", i), "1", ""))
		defer a.Finish(true)
	}
	lost := w.mustOpen(w.proxied("https://a.example/lost", "1", ""))
	id := lost.Payment().ID
	w.sellerMoves(lost.Payload())
	lost.Finish(false)
	w.released(id)
	w.chain.advance(25 * time.Second)
	w.recoverOnce()
	if p := w.payment(id); p.State != pay.Settled {
		t.Errorf("the payment that moved money is %s", p.State)
	}
}

// released waits until the payment's lease is released.
func (w *world) released(id string) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); w.payment(id).Lease.Owner != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatal("the lease was not released")
		}
	}
}

// Without an RPC nothing more becomes known of refused payments. Looked at for ever, they
// pile up until recovery has no turn left for those that moved money. An RPC that is
// configured within the month still finds a late settlement.
func TestRefusedPaymentsLeaveRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	w.fac.mode("refuse", "")
	var ids []string
	for i := range 5 {
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", i), "1", ""))
		ids = append(ids, failedState(t, err).ID)
	}
	w.quiet()
	for range 40 {
		w.chain.advance(24 * time.Hour)
		w.recoverOnce()
	}
	due, err := w.store.Due(context.Background(), w.chain.clock().Add(365*24*time.Hour), 100)
	if err != nil || len(due) != 0 {
		t.Errorf("%d are still due, %v", len(due), err)
	}
	for _, id := range ids {
		if p := w.payment(id); p.Checks > 32 || !p.Refused {
			t.Errorf("%v, looked at %d times", p.Flags(), p.Checks)
		}
	}
	w.checkBooks()
}

// watcher counts verdicts.
type watcher map[pay.Verdict]int

func (watcher) Contradicted(*pay.Payment)                            {}
func (watcher) Undelivered(*pay.Payment)                             {}
func (watcher) Began(*pay.Payment)                                   {}
func (watcher) Refused(policy.Door, string)                          {}
func (watcher) Ignored(pay.TimeSource, string, string)               {}
func (watcher) Took(string, time.Duration)                           {}
func (watcher) Waiting(int)                                          {}
func (watcher) Answered(pay.ApprovalAnswer)                          {}
func (w watcher) Changed(_ *pay.Payment, _ pay.State, v pay.Verdict) { w[v]++ }

// An unresolved payment is an alarm for a person. If it rings at every look, or goes on after the
// chain has shown that the money did not move, it will be ignored.
func TestUnresolvedIsToldOnceAndEnds(t *testing.T) {
	t.Parallel()
	told := watcher{}
	w := newWorld(t, func(o *pay.Options) { o.Chain, o.Facilitator, o.Observer = nil, nil, told })
	a := w.mustOpen(w.proxied("https://a.example/x", "1", ""))
	a.Finish(false)
	w.quiet()
	for range 24 * 6 {
		w.chain.advance(10 * time.Minute)
		w.recoverOnce()
	}
	if n := told[pay.VerdictUnresolved]; n != 1 {
		t.Errorf("told %d times in a day", n)
	}
	count := func() int {
		n := must(w.store.CountOpen(context.Background(), "unresolved"))
		return n
	}
	if p := w.payment(a.Payment().ID); !p.Unresolved || p.Checks < 2 || count() != 1 {
		t.Fatalf("%s %v, looked at %d times, %d unresolved", p.State, p.Flags(), p.Checks, count())
	}
	w.opts.Chain = w.chain
	w.restart()
	w.chain.advance(25 * time.Hour)
	w.recoverOnce()
	if p := w.payment(a.Payment().ID); p.State != pay.Void || count() != 0 {
		t.Errorf("%s %v, %d unresolved", p.State, p.Flags(), count())
	}
}

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
	w.recoverOnce()
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
		w.recoverOnce()
		if p := w.payment(old.Payment().ID); p.State != pay.Settled {
			t.Errorf("behind %d: the open payment is %s %v after a batch", queue, p.State, p.Flags())
		}
		for _, a := range sent {
			a.Finish(true)
		}
		w.quiet()
	}
}
