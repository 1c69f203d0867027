package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Sequences around an RPC that is missing, late, broken or for another network; see
// sequences_test.go.

// withoutChain is a world that has paid, settled and unresolved, before there was an RPC.
func withoutChain(t *testing.T) (w *world, lie, moved, unresolved *pay.Payment) {
	t.Helper()
	w = newWorld(t, func(o *pay.Options) { o.Chain = nil })
	moved = w.mustPay(w.rest(pay.SettlePayer, "https://a.example/honest", "1000", ""))
	w.fac.mode("", "lie")
	lie = w.mustPay(w.rest(pay.SettlePayer, "https://a.example/lie", "1000", ""))
	w.fac.mode("", "")
	unresolved, payload := w.leftOpen("https://a.example/lost", "")
	w.sellerMoves(payload)
	w.chain.advance(time.Hour)
	w.recoverOnce()
	if unresolved = w.payment(unresolved.ID); !unresolved.Unresolved {
		t.Fatal(unresolved.Flags())
	}
	return w, lie, moved, unresolved
}

// Payments settled while there was no RPC once were looked at when they retired, a month
// later: a facilitator's lies stood in the books for so long.
func TestEarlierPaymentsAreProvedAsSoonAsThereIsAnRPC(t *testing.T) {
	t.Parallel()
	w, lie, moved, unresolved := withoutChain(t)
	w.chain.rpc(true, false) // configured, but not up yet
	w.opts.Chain = w.chain
	w.restart()
	w.recoverOnce()
	w.chain.rpc(false, false)
	w.chain.advance(time.Minute)
	for range 3 { // a page, and what it has made due
		w.recoverOnce()
	}
	if p := w.payment(lie.ID); !p.Disputed {
		t.Errorf("the lie is %s %v, due %s", p.State, p.Flags(), p.Check)
	}
	if p := w.payment(moved.ID); !p.Confirmed {
		t.Errorf("what moved is %s %v", p.State, p.Flags())
	}
	if p := w.payment(unresolved.ID); p.State != pay.Settled || p.Unresolved {
		t.Errorf("what was unresolved is %s %v", p.State, p.Flags())
	}
}

// A network that the RPC does not serve has no evidence. Its payments once stayed open
// without a sign, with their places taken, and its sellers' word was not taken either.
func TestNetworkWithoutAnRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Facilitator = nil })
	w.chain.id = 84532
	p, _ := w.leftOpen("https://a.example/x", "")
	used := w.mustOpen(w.proxied("https://a.example/used", "10", ""))
	used.Answer402("invalid_exact_evm_nonce_already_used")
	used.Finish(false)
	w.quiet()
	if p := w.payment(used.Payment().ID); p.State != pay.Settled {
		t.Errorf("used without an RPC: %s", p.State)
	}
	w.chain.advance(time.Minute + 10*time.Second)
	w.recoverOnce()
	if p = w.payment(p.ID); !p.Unresolved {
		t.Errorf("%s %v after its validity", p.State, p.Flags())
	}
	if h := w.payer.Health(context.Background()); h.RPC.OK || !h.OK || h.RPC.Err == nil || !strings.Contains(h.RPC.Err.Error(), "base") {
		t.Errorf("%+v", h)
	}
	if w.chain.traces() != 0 {
		t.Errorf("the RPC was asked %d times about another network's payments", w.chain.traces())
	}
	w.chain.id = 0 // the operator corrects the URL's backend
	for range 26 {
		w.chain.advance(time.Hour)
		w.recoverOnce()
	}
	if p = w.payment(p.ID); p.State != pay.Void {
		t.Errorf("%s %v after the RPC served it", p.State, p.Flags())
	}
	if p := w.payment(used.Payment().ID); !p.Disputed {
		t.Errorf("the seller's word is %s %v", p.State, p.Flags())
	}
}

// An RPC that is down at the start may serve the network. Until it has had its time, no alarm is
// raised and no seller's word is taken.
func TestRPCThatIsDownAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Facilitator = nil })
	w.chain.rpc(true, false)
	p, _ := w.leftOpen("https://a.example/x", "")
	w.chain.advance(5 * time.Minute)
	w.recoverOnce()
	if p = w.payment(p.ID); p.Unresolved || p.Checks != 1 {
		t.Errorf("%v after %d looks", p.Flags(), p.Checks)
	}
}

// Without an RPC for its network, the facilitator sees a payload before it leaves, because its
// balance was not checked.
func TestNetworkWithoutAnRPCIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.chain.id = 84532
	w.fac.mode("refuse", "")
	_, err := w.payer.Open(t.Context(), w.proxied("https://a.example/x", "10", ""))
	if p := failedState(t, err); !p.Refused || w.fac.called("verify") != 1 {
		t.Errorf("%v, verified %d times", p.Flags(), w.fac.called("verify"))
	}
	w.quiet()
}

// An RPC that does not answer is not asked anew by every payment: each would wait for it.
func TestSilentRPCIsNotAskedByEveryPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := &counting{truth: w.chain}
	w.opts.Chain = c
	w.restart()
	w.chain.rpc(true, false)
	for i := range 5 {
		w.mustOpen(w.proxied(fmt.Sprintf("https://a.example/%d", i), "10", "")).Finish(true)
	}
	if n := c.identified.Load(); n != 1 {
		t.Errorf("it was asked who it is %d times", n)
	}
	w.quiet()
}

// counting counts how often the RPC is asked who it is.
type counting struct {
	*truth
	identified atomic.Int32
}

func (c *counting) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	c.identified.Add(1)
	return c.truth.Identify(ctx, n, a)
}

// An RPC that served the network, and now answers for another one, is broken. To take a
// seller's word instead would let it say that money moved which did not.
func TestBrokenRPCIsNotAMissingOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Facilitator = nil })
	w.mustOpen(w.proxied("https://a.example/before", "10", "")).Finish(true)
	w.chain.id = 84532
	w.chain.advance(2 * time.Minute)
	a := w.mustOpen(w.proxied("https://a.example/x", "10", ""))
	a.Answer402("invalid_exact_evm_nonce_already_used")
	a.Finish(false)
	w.quiet()
	if p := w.payment(a.Payment().ID); p.State != pay.Open {
		t.Errorf("%s by a seller's word", p.State)
	}
}

// An RPC that was checked a moment ago may lead elsewhere by now: its answer counts by who
// gave it, not by who was there before.
func TestEvidenceFromAnotherChainThanAMomentAgo(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(c *truth){
		"a chain with another beginning": func(c *truth) { c.gen = "0x" + strings.Repeat("7", 64) },
		"another chain":                  func(c *truth) { c.id = 84532 },
	} {
		w := newWorld(t, func(o *pay.Options) { o.Facilitator = nil })
		open, payload := w.leftOpen("https://a.example/open", "")
		w.sellerMoves(payload)
		paid := w.mustOpen(w.proxied("https://a.example/paid", "10", ""))
		tx := w.sellerMoves(paid.Payload())
		paid.Receipt(x402.Receipt{Success: true, Transaction: tx, Network: "base"})
		paid.Finish(true)
		w.quiet()
		w.chain.advance(61 * time.Second) // the authorizations are over, and what was remembered of the RPC
		w.mustOpen(w.proxied("https://a.example/other", "10", "")).Finish(true)
		w.quiet()
		w.chain.advance(20 * time.Second) // it was checked a moment ago
		there := w.chain.moved
		w.chain.moved = map[x402.Nonce]string{} // they are unknown there
		move(w.chain)
		w.recoverOnce()
		if p := w.payment(open.ID); p.State != pay.Open || p.Checks == 0 {
			t.Errorf("%s: %s %v after %d looks", name, p.State, p.Flags(), p.Checks)
		}
		if p := w.payment(paid.Payment().ID); p.Disputed || p.Confirmed || p.Checks == 0 {
			t.Errorf("%s: %s %v after %d looks", name, p.State, p.Flags(), p.Checks)
		}
		w.chain.moved, w.chain.id, w.chain.gen = there, 0, newTruth().gen
		w.recoverAll()
		if p := w.payment(open.ID); p.State != pay.Settled {
			t.Errorf("%s: %s %v in the end", name, p.State, p.Flags())
		}
		if p := w.payment(paid.Payment().ID); !p.Confirmed {
			t.Errorf("%s: %s %v in the end", name, p.State, p.Flags())
		}
	}
}

// An RPC that never answers about a payment left it open. No alarm was raised, and its place in the
// month was lost for good.
func TestPaymentThatCannotBeTracedIsTold(t *testing.T) {
	t.Parallel()
	for _, moves := range []bool{false, true} {
		told := watcher{}
		w := newWorld(t, func(o *pay.Options) { o.Facilitator, o.Observer = nil, told })
		p, payload := w.leftOpen("https://a.example/x", "")
		if moves {
			w.sellerMoves(payload)
		}
		w.chain.rpc(false, true)
		since := func() time.Duration { return w.chain.clock().Sub(p.ValidBefore()) }
		for p = w.payment(p.ID); !p.Unresolved && since() < 2*time.Hour; p = w.payment(p.ID) {
			w.chain.advance(10 * time.Second)
			w.recoverOnce()
		}
		if since() < 29*time.Minute || since() > 31*time.Minute || w.placeCount() != "0" {
			t.Errorf("unresolved %v, %s after its validity, place %s", p.Unresolved, since(), w.placeCount())
		}
		for range 24 * 6 {
			w.chain.advance(10 * time.Minute)
			w.recoverOnce()
		}
		if n := told[pay.VerdictUnresolved]; n != 1 {
			t.Errorf("told %d times", n)
		}
		if n := w.payment(p.ID).Checks; n > 45 || n < 30 {
			t.Errorf("looked at %d times in a day", n)
		}
		w.chain.rpc(false, false)
		w.chain.advance(time.Hour)
		w.recoverOnce()
		want := map[bool]pay.State{false: pay.Void, true: pay.Settled}[moves]
		if p = w.payment(p.ID); p.State != want || p.Unresolved {
			t.Errorf("%s %v, want %s", p.State, p.Flags(), want)
		}
		w.checkBooks()
	}
}

// stuck is a chain that takes for ever over one seller's payments.
type stuck struct {
	*truth
	over money.Amount
	max  atomic.Int32 // looks at the same time
	now  atomic.Int32
}

func (s *stuck) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.max.Load(); n > most && !s.max.CompareAndSwap(most, n); most = s.max.Load() {
	}
	if q.Authorization.Value == s.over {
		<-ctx.Done()
		return pay.Trace{}, ctx.Err()
	}
	return s.truth.Trace(ctx, q)
}

// stuckWorld is a world whose chain takes for ever over payments of 7.
func stuckWorld(t *testing.T) (*world, *stuck) {
	t.Helper()
	w := newWorld(t, nil)
	s := &stuck{truth: w.chain, over: money.New(7)}
	w.opts.Chain = s
	w.restart()
	return w, s
}

// One payment that the RPC takes for ever over once held up all those behind it, and the
// ends of lapsed leases.
func TestSlowLookHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := stuckWorld(t)
		var quick []string
		for i := range 30 {
			amount := "10"
			if i < 3 {
				amount = "7"
			}
			a := w.mustOpen(w.proxied(fmt.Sprintf("https://a.example/%d", i), amount, ""))
			w.sellerMoves(a.Payload())
			a.Finish(true)
			if w.quiet(); amount == "10" {
				quick = append(quick, a.Payment().ID)
			}
		}
		w.chain.advance(25 * time.Second)
		began := time.Now()
		done := make(chan int)
		go func() {
			n, err := w.payer.RecoverOnce(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- n
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range quick {
			if p := w.payment(id); p.State != pay.Settled {
				t.Errorf("%s waits behind the slow ones", id)
			}
		}
		if n := <-done; n != 30 || time.Since(began) > 20*time.Second || s.max.Load() > 8 {
			t.Errorf("looked at %d in %s, %d at a time", n, time.Since(began), s.max.Load())
		}
	})
}

// A look that a reload cuts short is none: the next instance looks at once, and not the later the more often
// there was a reload.
func TestLookCutShortIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := stuckWorld(t)
		a := w.mustOpen(w.proxied("https://a.example/x", "7", ""))
		w.sellerMoves(a.Payload())
		a.Finish(true)
		w.quiet()
		w.chain.advance(25 * time.Second)
		for range 3 {
			before := w.payment(a.Payment().ID)
			ctx, handOver := context.WithCancel(context.Background())
			done := make(chan error)
			go func() {
				_, err := w.payer.RecoverOnce(ctx)
				done <- err
			}()
			synctest.Wait() // for the RPC, which takes for ever
			handOver()
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			p := w.payment(a.Payment().ID)
			if p.Lease.Owner != "" || p.Checks != before.Checks || !p.Check.Equal(before.Check) {
				t.Errorf("held by %q, looked at %d times, next at %s; before: %d, %s", p.Lease.Owner, p.Checks, p.Check, before.Checks, before.Check)
			}
		}
		w.opts.Chain = w.chain
		w.restart()
		w.recoverOnce()
		if p := w.payment(a.Payment().ID); p.State != pay.Settled {
			t.Errorf("%s at the next look", p.State)
		}
	})
}

// A batch of slow looks ends while others have come due, and leases have lapsed.
func TestBatchOfSlowLooksIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := stuckWorld(t)
		for i := range 100 {
			w.mustOpen(w.proxied(fmt.Sprintf("https://a.example/%d", i), "7", "")).Finish(true)
			w.quiet()
		}
		w.chain.advance(25 * time.Second)
		began := time.Now()
		n, err := w.payer.RecoverOnce(context.Background())
		if took := time.Since(began); err != nil || n != 16 || took > 31*time.Second {
			t.Errorf("looked at %d in %s, %v", n, took, err)
		}
	})
}

// broken is a store that cannot lease one payment.
type broken struct {
	pay.Store
	id string
}

func (b *broken) Acquire(ctx context.Context, id, owner string, now, until time.Time) (*pay.Payment, error) {
	if id == b.id {
		return nil, errors.New("row of an unknown encoding")
	}
	return b.Store.Acquire(ctx, id, owner, now, until)
}

// A payment that cannot be looked at must not be the first one due for ever.
func TestPaymentThatFailsComesLaterAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, _ := w.leftOpen("https://a.example/x", "")
	w.opts.Store = &broken{w.store, p.ID}
	w.restart()
	w.chain.advance(25 * time.Second)
	w.recoverOnce()
	if due, err := w.store.Due(context.Background(), w.chain.clock(), 10); err != nil || len(due) != 0 {
		t.Errorf("%d are due, %v", len(due), err)
	}
	if p := w.payment(p.ID); p.Check.IsZero() {
		t.Error("it is never looked at again")
	}
}

// A caller that leaves while the RPC is asked who it is proves nothing: others' payments
// must not go without evidence for it.
func TestCallerThatLeavesDoesNotSpoilTheRPC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		h := &hesitant{truth: w.chain, entered: make(chan struct{})}
		w.opts.Chain = h
		w.restart()
		caller, leave := context.WithCancel(context.Background())
		go func() {
			<-h.entered
			leave()
		}()
		if _, err := w.payer.Open(caller, w.proxied("https://a.example/x", "10", "")); err == nil {
			w.quiet()
		}
		a := w.mustOpen(w.proxied("https://a.example/y", "10", ""))
		defer a.Finish(true)
		if h.balances.Load() != 1 {
			t.Errorf("the balance was asked for %d times", h.balances.Load())
		}
	})
}

// hesitant is an RPC that answers the first caller only once that one has left.
type hesitant struct {
	*truth
	entered  chan struct{}
	asked    atomic.Bool
	balances atomic.Int32
}

func (h *hesitant) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	if h.asked.CompareAndSwap(false, true) {
		close(h.entered)
		<-ctx.Done()
		return pay.ChainIdentity{}, ctx.Err()
	}
	return h.truth.Identify(ctx, n, a)
}

func (h *hesitant) Balance(ctx context.Context, n x402.Network, a x402.Asset, o x402.Address) (money.Amount, error) {
	h.balances.Add(1)
	return h.truth.Balance(ctx, n, a, o)
}
