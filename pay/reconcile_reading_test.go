package pay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// An agent may repeat an order as often as it likes before it is paid: however many attempts
// the books have lost, the one that moved the money is recognized.
func TestReconcileAfterManyAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Failures = pay.FailureBounds{PerMinute: -1, PerDay: -1} })
	backup, taken := w.store.snapshot(), w.chain.clock()
	r := w.rest(pay.SettlePayer, "https://api.example.com/x", "20", "order")
	w.fac.mode("refuse", "")
	for range 200 {
		if _, err := w.payer.Pay(t.Context(), r); err == nil {
			t.Fatal("paid")
		}
		w.idle()
	}
	w.fac.mode("", "")
	w.mustPay(r)
	w.chain.advance(time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(20 * time.Minute)
	w.mustReconcile()
	if p := w.mustPay(r); !p.Reconciled || w.chain.moves() != 1 {
		t.Fatalf("the repeat of a paid order got %s %v; moved %d times", p.ID, p.Flags(), w.chain.moves())
	}
	w.booksAreTheChain()
}

// narrow is an RPC that answers for few blocks at once, and not always.
type narrow struct {
	*truth
	n     int
	twice bool // it refuses twice in a row
}

func (c *narrow) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	if c.n++; c.n%6 == 0 || c.twice && c.n%6 == 1 {
		return pay.UsedAnswer{}, errors.New("too many requests")
	}
	q.To = min(q.To, q.From+9)
	a, err := c.truth.Used(ctx, q)
	a.Size = 10
	return a, err
}

// An RPC that answers for few blocks at once and refuses now and then is read all the same.
func TestReconcileFromANarrowRPC(t *testing.T) {
	t.Parallel()
	rpc := new(narrow)
	w := newWorld(t, func(o *pay.Options) { rpc.truth = o.Chain.(*truth); o.Chain = rpc })
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.mustBuy("https://api.example.com/a", "1", "", true)
	w.chain.advance(15 * time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(10 * time.Minute)
	for n := 0; w.reconcile(); n++ {
		if n == 200 {
			_, is := w.status()
			t.Fatalf("no end: %+v", is)
		}
	}
	w.booksAreTheChain()
}

// hiccup is an RPC that could answer for one block only, once.
type hiccup struct {
	*truth
	n int
}

func (c *hiccup) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	size := max(q.Size, 1)
	if c.n++; q.Size == 0 {
		size = 1
	}
	q.To = min(q.To, q.From+size-1)
	a, err := c.truth.Used(ctx, q)
	a.Size = size
	return a, err
}

// What an RPC refused in a bad moment is not what it refuses for ever.
func TestReconcileAsksForMoreAgain(t *testing.T) {
	t.Parallel()
	rpc := new(hiccup)
	w := newWorld(t, func(o *pay.Options) { rpc.truth = o.Chain.(*truth); o.Chain = rpc })
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(10 * time.Hour)
	w.restore(backup, taken, true)
	w.chain.advance(10 * time.Minute)
	if w.reconcile() || rpc.n > 600 {
		t.Fatalf("18,000 blocks took %d calls", rpc.n)
	}
}

// What is found in a few blocks may be much: no step books more than a store writes at once.
func TestReconcileInSmallSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(time.Minute)
	for n := range 1100 {
		_, err := w.chain.move(x402.Authorization{
			From: *w.store.wallet().Address, To: x402.EVMAddress([20]byte{7}), Value: money.New(1), Nonce: x402.Nonce{byte(n), byte(n >> 8)},
			ValidBefore: uint64(w.chain.clock().Add(time.Minute).Unix()),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.chain.advance(time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(20 * time.Minute)
	w.mustReconcile()
	w.booksAreTheChain()
	if most := backup.mostFound; most == 0 || most > 500 {
		t.Errorf("%d in one step", most)
	}
}

// A look that gets less far than what is read again goes on where it ended.
func TestReconcileBySmallLooks(t *testing.T) {
	t.Parallel()
	rpc := &narrow{twice: true}
	w := newWorld(t, func(o *pay.Options) { rpc.truth = o.Chain.(*truth); o.Chain = rpc })
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(2 * time.Hour)
	w.restore(backup, taken, true)
	for range 12 {
		w.reconcile()
	}
	if _, is := w.status(); is.Next < is.First+400 {
		t.Fatalf("%+v", is)
	}
}
