package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// fundedChain tells the balance that it is set to.
type fundedChain struct {
	pay.Chain
	mu      sync.Mutex
	have    uint64
	asked   int
	at      int // how many ask at the moment
	most    int
	down    bool
	entered chan struct{} // when set: signals that a call asks
	answer  chan struct{} // when set: answers wait for it
}

func (c *fundedChain) Balance(ctx context.Context, _ x402.Network, _ x402.Asset, _ x402.Address) (money.Amount, error) {
	c.mu.Lock()
	c.asked++
	c.at++
	c.most = max(c.most, c.at)
	entered, answer := c.entered, c.answer
	c.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
	}
	if answer != nil {
		select {
		case <-answer:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at--
	if c.down || ctx.Err() != nil {
		return money.Amount{}, errors.New("no answer")
	}
	return money.New(c.have), nil
}

func (c *fundedChain) set(change func(*fundedChain)) { c.mu.Lock(); defer c.mu.Unlock(); change(c) }

func (c *fundedChain) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.asked }

// fundedWorld returns a world with an empty wallet, whose balance a payment has just asked for.
func fundedWorld(t *testing.T) (*world, *fundedChain, func(ctx context.Context) error) {
	t.Helper()
	chain := new(fundedChain)
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
	var n atomic.Int64
	buy := func(ctx context.Context) error {
		a, err := w.payer.Pay(ctx, w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n.Add(1)), "5", ""))
		if err == nil {
			a.Finish(true)
		}
		return err
	}
	return w, chain, buy
}

func short(err error) bool {
	var failed *pay.FailedError
	return errors.As(err, &failed) && failed.Funds
}

// A client that sees an empty wallet, funds it and pays at once has paid.
func TestFundedJustNow(t *testing.T) {
	t.Parallel()
	w, chain, buy := fundedWorld(t)
	list := must(w.books.ListWallets(t.Context(), w.key))
	if have, err := w.payer.WalletBalance(t.Context(), list[0]); err != nil || !have.IsZero() {
		t.Fatalf("%s, %v", have, err)
	}
	chain.set(func(c *fundedChain) { c.have = 5 })
	if err := buy(t.Context()); err != nil {
		t.Errorf("right after the wallet was funded: %v", err)
	}
	// What was too little for the second one is looked at again too, a second later.
	chain.set(func(c *fundedChain) { c.have = 4 })
	w.chain.advance(10 * time.Second)
	if err := buy(t.Context()); !short(err) {
		t.Errorf("5 of 4: %v", err)
	}
	chain.set(func(c *fundedChain) { c.have = 5 })
	if err := buy(t.Context()); err != nil {
		t.Errorf("after more was added: %v", err)
	}
}

// A client that hammers an empty wallet has the chain asked once a second.
func TestHammeringAnEmptyWallet(t *testing.T) {
	t.Parallel()
	w, chain, buy := fundedWorld(t)
	for second := range 5 {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 5 {
					if err := buy(t.Context()); !short(err) {
						t.Errorf("from an empty wallet: %v", err)
					}
				}
			})
			if second == 0 {
				all.Wait() // a call that comes while nothing is known asks by itself
			}
		}
		all.Wait()
		w.chain.advance(time.Second)
	}
	if n := chain.count(); n < 5 || n > 6 {
		t.Errorf("asked %d times in 5 s", n)
	}
	if chain.most != 1 {
		t.Errorf("asked %d times at once", chain.most)
	}
	// It does not take the word of an RPC that fails for money, nor ask it more.
	chain.set(func(c *fundedChain) { c.down = true })
	asked := chain.count()
	for range 20 {
		if err := buy(t.Context()); err != nil && !short(err) {
			t.Error(err)
		}
	}
	if n := chain.count() - asked; n > 4 { // those three that open the breaker, and one afresh
		t.Errorf("an RPC that fails was asked %d times", n)
	}
}

// Those who come while the wallet is looked at again wait for that look, also when its
// caller leaves.
func TestOneLookForAll(t *testing.T) {
	t.Parallel()
	_, chain, buy := fundedWorld(t)
	if err := buy(t.Context()); !short(err) {
		t.Fatalf("from an empty wallet: %v", err)
	}
	chain.set(func(c *fundedChain) {
		c.have, c.entered, c.answer = 1000, make(chan struct{}, 100), make(chan struct{})
	})
	asked := chain.count()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := buy(ctx); err == nil {
			t.Error("a caller who had left has paid")
		}
	})
	select {
	case <-chain.entered:
	case <-time.After(20 * time.Second):
		t.Fatal("the wallet is not looked at again")
	}
	leave()
	for range 8 {
		all.Go(func() {
			if err := buy(t.Context()); err != nil {
				t.Errorf("while another one looks: %v", err)
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, func() { close(chain.answer) })
	all.Wait()
	if n := chain.count() - asked; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// An operator sees what a wallet has now, and has the chain asked for it once in a second. That
// does not use up the look that a payment may take.
func TestWalletBalanceNow(t *testing.T) {
	t.Parallel()
	w, chain, buy := fundedWorld(t)
	list := must(w.books.ListWallets(t.Context(), w.key))
	set := func(have uint64) { chain.set(func(c *fundedChain) { c.have = have }) }
	shows := func(want string) {
		t.Helper()
		if have, err := w.payer.WalletBalanceNow(t.Context(), list[0]); err != nil || have.String() != want {
			t.Errorf("%s, %v; want %s", have, err, want)
		}
	}
	set(7)
	shows("7")
	set(9)
	shows("7") // it was looked at just now
	w.chain.advance(time.Second)
	shows("9")
	set(3)
	if have, err := w.payer.WalletBalance(t.Context(), list[0]); err != nil || have.String() != "9" {
		t.Errorf("%s, %v: others need no look of their own", have, err)
	}
	w.chain.advance(time.Second)
	shows("3")
	set(5)
	if err := buy(t.Context()); err != nil {
		t.Errorf("right after somebody looked at the wallet: %v", err)
	}
}
