package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// busyChain refuses to tell balances, as an RPC does that was asked too often.
type busyChain struct {
	pay.Chain
	busy  atomic.Bool
	asked atomic.Int64
	leave atomic.Pointer[context.CancelFunc] // is called while it is asked
}

func (c *busyChain) Balance(ctx context.Context, a x402.Asset, owner x402.Address) (x402.Amount, error) {
	c.asked.Add(1)
	if leave := c.leave.Load(); leave != nil {
		(*leave)()
	}
	if c.busy.Load() {
		return x402.Amount{}, errors.New("429 Too Many Requests")
	}
	return c.Chain.Balance(ctx, a, owner)
}

// Views of wallets until the RPC refuses do not switch off the check for payments.
func TestLookingAtWalletsLeavesPaymentsChecked(t *testing.T) {
	t.Parallel()
	var chain *busyChain
	w := newWorld(t, func(o *pay.Options) {
		chain = &busyChain{Chain: o.Chain}
		o.Chain = chain
	})
	list, err := w.books.ListWallets(t.Context(), w.key)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d wallets, %v", len(list), err)
	}
	chain.busy.Store(true)
	for range 10 {
		if _, err := w.payer.WalletBalance(t.Context(), list[0]); err == nil {
			t.Fatal("a balance that nobody told")
		}
	}
	if n := chain.asked.Load(); n > 5 {
		t.Errorf("an RPC that refuses was asked %d times", n)
	}
	chain.busy.Store(false)
	asked := chain.asked.Load()
	a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/", "5", ""))
	if err != nil {
		t.Fatal(err)
	}
	a.Finish(true)
	if chain.asked.Load() == asked {
		t.Error("the payment's wallet was not looked at")
	}
}

// Callers who leave while an RPC is tried again do not keep others from trying.
func TestLeavingDoesNotUseUpTheTrial(t *testing.T) {
	t.Parallel()
	var chain *busyChain
	w := newWorld(t, func(o *pay.Options) {
		chain = &busyChain{Chain: o.Chain}
		o.Chain = chain
	})
	n := 0
	buy := func(ctx context.Context) {
		n++
		if a, err := w.payer.Pay(ctx, w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), "5", "")); err == nil {
			a.Finish(true)
		}
	}
	chain.busy.Store(true)
	for range 3 {
		buy(t.Context())
	}
	w.chain.advance(6 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	chain.leave.Store(&cancel)
	buy(ctx)
	chain.leave.Store(nil)
	chain.busy.Store(false)
	asked := chain.asked.Load()
	buy(t.Context())
	if chain.asked.Load() == asked {
		t.Error("nobody may try any more")
	}
}
