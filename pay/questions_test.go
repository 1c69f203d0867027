package pay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// quotaChain counts the questions about balances and allowances, and tells the balance it is set to.
type quotaChain struct {
	*truth
	allowances, balances atomic.Int64
	have                 atomic.Uint64
	failing              atomic.Bool
}

func (c *quotaChain) Allowance(ctx context.Context, n x402.Network, a x402.Asset, owner, spender x402.Address) (money.Amount, error) {
	c.allowances.Add(1)
	return c.truth.Allowance(ctx, n, a, owner, spender)
}

func (c *quotaChain) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	c.balances.Add(1)
	if c.failing.Load() {
		return money.Amount{}, errors.New("429 Too Many Requests")
	}
	return money.New(c.have.Load()), nil
}

// quotaWorld returns a world whose chain counts, and whose wallet has a balance.
func quotaWorld(t *testing.T, have uint64) (*world, *quotaChain) {
	t.Helper()
	var chain *quotaChain
	w := newWorld(t, func(o *pay.Options) {
		anyScheme(o)
		chain = &quotaChain{truth: o.Chain.(*truth)}
		o.Chain = chain
	})
	chain.have.Store(have)
	return w, chain
}

// A challenge may have many requirements, and quotes cost a client nothing. The chain is asked about a wallet
// once, and afresh once in a second.
func TestAllowancesAreRemembered(t *testing.T) {
	t.Parallel()
	w, chain := quotaWorld(t, 1_000_000)
	w.chain.allowance = 4
	r := w.rest(pay.SettleSeller, "https://api.example.com/r", "5", "")
	r.Challenge = asking(t, "5", slices.Repeat([]string{byPermit2, byUpto}, 32)...)
	refused := func() {
		t.Helper()
		for range 10 {
			if _, err := w.payer.Quote(t.Context(), r); !is[*pay.AllowanceError](err) {
				t.Fatalf("a quote for more than the allowance: %v", err)
			}
			if _, err := w.payer.Open(t.Context(), r); !is[*pay.AllowanceError](err) {
				t.Fatalf("a payment of more than the allowance: %v", err)
			}
		}
	}
	refused()
	if n := chain.allowances.Load(); n > 2 {
		t.Errorf("the RPC was asked %d times at once", n)
	}
	for range 3 {
		w.chain.advance(time.Second)
		refused()
	}
	if n := chain.allowances.Load(); n > 5 {
		t.Errorf("the RPC was asked %d times in 3 s", n)
	}
	// An allowance that was raised a second ago counts. One that is enough is not asked for again.
	w.chain.mu.Lock()
	w.chain.allowance = 1000
	w.chain.mu.Unlock()
	w.chain.advance(time.Second)
	asked := chain.allowances.Load()
	for range 10 {
		if _, err := w.payer.Quote(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := chain.allowances.Load() - asked; n != 1 {
		t.Errorf("the RPC was asked %d times about an allowance that is enough", n)
	}
	w.chain.advance(6 * time.Second)
	if _, err := w.payer.Quote(t.Context(), r); err != nil || chain.allowances.Load() != asked+2 {
		t.Errorf("%v; asked %d times, want once more after some seconds", err, chain.allowances.Load()-asked)
	}
}

// What purser itself has approved counts at once.
func TestApprovedAllowanceIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	w, _ := newPool(t, nil)
	quote := func() error {
		_, err := w.payer.Quote(t.Context(), w.asks("https://api.example.com/r", "100", byPermit2))
		return err
	}
	for range 3 {
		if err := quote(); !is[*pay.AllowanceError](err) {
			t.Fatalf("without an allowance: %v", err)
		}
	}
	must(w.approve(100))
	if err := quote(); err != nil {
		t.Errorf("approved: %v", err)
	}
	must(w.approve(0))
	if err := quote(); !is[*pay.AllowanceError](err) {
		t.Errorf("taken away: %v", err)
	}
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

var usedAlready = x402.Receipt{ErrorReason: "nonce_already_used"}

// Receipts that claim a use have the chain asked about a payment once in a second, however many are posted.
func TestReceiptsAreToldTheLastFinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.mustOpen(w.proxied("https://one.example/", "1", ""))
	auth := authorizationOf(t, a)
	a.Finish(true)
	w.quiet()
	post := func() *pay.Payment {
		t.Helper()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					if _, err := w.payer.PostReceipt(t.Context(), w.key, a.Payment().ID, usedAlready); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return w.payment(a.Payment().ID)
	}
	before := w.chain.traces()
	for second := range 3 {
		if got := post(); got.State != pay.Open {
			t.Errorf("%v", got.Labels())
		}
		if n := w.chain.traces() - before; n != second+1 {
			t.Errorf("traced %d times in %d s", n, second+1)
		}
		w.chain.advance(time.Second)
	}
	// An RPC that fails is not asked more often.
	w.chain.rpc(true, false)
	before = w.chain.traces()
	post()
	if n := w.chain.traces() - before; n > 1 {
		t.Errorf("an RPC that fails was asked %d times", n)
	}
	w.chain.rpc(false, false)
	tx := must(w.chain.move(auth))
	w.chain.advance(6 * time.Second) // a failed look at the RPC's identity rests for 5 s
	if got := post(); got.State != pay.Settled || got.Transaction != tx {
		t.Errorf("%v in %s, want settled in %s", got.Labels(), got.Transaction, tx)
	}
	w.checkBooks()
}

// Receipts for many payments of one key do not use up the RPC's quota. Another key's are weighed all the same.
func TestTracesOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var ids []string
	for n := range 60 {
		a := w.mustOpen(w.proxied(fmt.Sprintf("https://host-%d.example/", n), "1", ""))
		a.Finish(true)
		ids = append(ids, a.Payment().ID)
	}
	w.quiet()
	before, refused := w.chain.traces(), 0
	for _, id := range ids {
		_, err := w.payer.PostReceipt(t.Context(), w.key, id, usedAlready)
		if over, is := errors.AsType[*pay.QuestionsError](err); is {
			if refused++; over.RetryAfter <= 0 || over.RetryAfter > time.Minute {
				t.Errorf("retry after %s", over.RetryAfter)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
	if n := w.chain.traces() - before; n > 30 || refused != len(ids)-n {
		t.Errorf("%d traces, %d receipts refused", n, refused)
	}
	// One that needs no word of the chain is taken.
	if p, err := w.payer.PostReceipt(t.Context(), w.key, ids[59], x402.Receipt{ErrorReason: "out of stock"}); err != nil || p.State != pay.Open {
		t.Errorf("%v", err)
	}
	w.chain.advance(time.Minute)
	if _, err := w.payer.PostReceipt(t.Context(), w.key, ids[59], usedAlready); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// A key that asks about balances and allowances without end is told to wait. Nothing is paid unchecked for it.
func TestReadingsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	w, chain := quotaWorld(t, 0)
	w.chain.allowance = 0
	const seconds = 300
	over := 0
	for n := range seconds {
		for _, way := range []string{byToken, byPermit2} {
			_, err := w.payer.Open(t.Context(), w.asks(fmt.Sprintf("https://api.example.com/%d", n), "5", way))
			if wait, _, is := pay.RetryAfter(err); is {
				if over++; wait <= 0 || wait > time.Minute {
					t.Fatalf("retry after %s", wait)
				}
			} else if err == nil {
				t.Fatal("an empty wallet has paid")
			}
		}
		w.chain.advance(time.Second)
	}
	asked := chain.balances.Load() + chain.allowances.Load()
	if over == 0 || asked > 60+100*seconds/60 {
		t.Errorf("%d questions in %d s, and %d calls were told to wait", asked, seconds, over)
	}
}

// While the RPC gives no answer, what it told last counts: a flood that uses up its quota must not let a
// challenge tie up more than the wallet has.
func TestLastBalanceStandsWhileTheRPCFails(t *testing.T) {
	t.Parallel()
	w, chain := quotaWorld(t, 10)
	n := 0
	buy := func(amount string) error {
		n++
		a, err := w.payer.Open(t.Context(), w.proxied(fmt.Sprintf("https://host-%d.example/", n), amount, ""))
		if err == nil {
			a.Finish(true)
			w.quiet()
		}
		return err
	}
	if err := buy("4"); err != nil {
		t.Fatal(err)
	}
	chain.failing.Store(true)
	w.chain.advance(6 * time.Second)
	for range 4 { // the breaker opens
		if err := buy("100"); !short(err) {
			t.Errorf("100 of 10, and the RPC fails: %v", err)
		}
		w.chain.advance(2 * time.Second)
	}
	if err := buy("6"); err != nil {
		t.Errorf("all that is left, and the RPC fails: %v", err)
	}
	if err := buy("1"); !short(err) {
		t.Errorf("more than is left, and the RPC fails: %v", err)
	}
	// After a while it says nothing any more. Payments go on, as without an RPC.
	w.chain.advance(11 * time.Minute)
	if err := buy("100"); err != nil {
		t.Errorf("after a long outage: %v", err)
	}
}

// One reading that fails counts once, however many calls wait for it, and is not repeated at once.
func TestOneFailureCountsOnce(t *testing.T) {
	t.Parallel()
	w, chain := quotaWorld(t, 1000)
	chain.failing.Store(true)
	for n := range 10 {
		if a, err := w.payer.Open(t.Context(), w.proxied(fmt.Sprintf("https://host-%d.example/", n), "1", "")); err == nil {
			a.Finish(true)
		}
	}
	if asked := chain.balances.Load(); asked != 1 {
		t.Errorf("asked %d times at once", asked)
	}
	chain.failing.Store(false)
	w.chain.advance(time.Second)
	if _, err := w.payer.Open(t.Context(), w.proxied("https://last.example/", "1001", "")); !short(err) {
		t.Errorf("the check of all payments is off after one failure: %v", err)
	}
}

// A receipt brings recovery's look at a payment of upto forward, a few times. It never puts it off.
func TestReceiptsDoNotPutRecoveryOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byUpto))
	tx := must(w.chain.charge(authorizationOf(t, a), 30))
	a.Finish(true)
	w.quiet()
	id := a.Payment().ID
	due := w.payment(id).Check
	post := func() {
		t.Helper()
		must(w.payer.PostReceipt(t.Context(), w.key, id, receipt(tx, "30")))
		at := w.payment(id).Check
		if at.After(due) {
			t.Errorf("a receipt puts recovery off from %s to %s", due, at)
		}
		due = at
	}
	for range 5 {
		post()
		w.chain.advance(time.Second)
	}
	if due.After(w.chain.clock()) {
		t.Fatalf("recovery does not look before %s", due)
	}
	w.chain.rpc(false, true) // its looks find nothing
	looks := w.chain.traces()
	for range 60 {
		w.recoverOnce()
		due = w.payment(id).Check
		post()
		w.chain.advance(time.Second)
	}
	if n := w.chain.traces() - looks; n > 5 {
		t.Errorf("receipts had recovery look %d times in a minute", n)
	}
	w.chain.rpc(false, false)
	w.recoverAll()
	if got := w.payment(id); !got.Confirmed || got.Moved().String() != "30" {
		t.Errorf("%v of %s", got.Labels(), got.Moved())
	}
	w.checkBooks()
}
