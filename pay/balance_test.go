package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// hangingChain tells no balances while it hangs.
type hangingChain struct {
	pay.Chain
	hangs atomic.Bool
	asked atomic.Int64
}

func (c *hangingChain) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	c.asked.Add(1)
	if c.hangs.Load() {
		<-ctx.Done()
		return money.Amount{}, ctx.Err()
	}
	return c.Chain.Balance(ctx, n, a, owner)
}

// An RPC that hangs keeps the first few payments for a moment and those after them not at
// all; now and then one finds out how it is.
func TestHangingRPC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chain := new(hangingChain)
		w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
		chain.hangs.Store(true)
		took := func(n int) time.Duration {
			t.Helper()
			began := time.Now()
			a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), "5", ""))
			if err != nil {
				t.Error(err)
				return 0
			}
			a.Finish(true)
			return time.Since(began)
		}
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				if d := took(n); d < 2*time.Second || d > 10*time.Second {
					t.Errorf("one of the first took %s", d)
				}
			})
		}
		all.Wait()
		asked := chain.asked.Load()
		for n := range 20 {
			if d := took(100 + n); d > time.Second {
				t.Errorf("took %s", d)
			}
		}
		if n := chain.asked.Load() - asked; n != 0 {
			t.Errorf("asked %d times", n)
		}
		chain.hangs.Store(false)
		w.chain.advance(6 * time.Second)
		took(200)
		took(201)
		if chain.asked.Load() == asked {
			t.Error("never asked again")
		}
	})
}

// busyChain refuses to tell balances, as an RPC does that was asked too often.
type busyChain struct {
	pay.Chain
	busy  atomic.Bool
	asked atomic.Int64
	leave atomic.Pointer[context.CancelFunc] // is called while it is asked
}

func (c *busyChain) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	c.asked.Add(1)
	if leave := c.leave.Load(); leave != nil {
		(*leave)()
	}
	if c.busy.Load() {
		return money.Amount{}, errors.New("429 Too Many Requests")
	}
	return c.Chain.Balance(ctx, n, a, owner)
}

// Views of wallets until the RPC refuses do not switch off the check for payments.
func TestLookingAtWalletsLeavesPaymentsChecked(t *testing.T) {
	t.Parallel()
	chain := new(busyChain)
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
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
	a := w.mustBegin(w.rest(pay.SettlePayer, "https://api.example.com/", "5", ""))
	a.Finish(true)
	if chain.asked.Load() == asked {
		t.Error("the payment's wallet was not looked at")
	}
}

// Callers who leave while an RPC is tried again do not keep others from trying.
func TestLeavingDoesNotUseUpTheTrial(t *testing.T) {
	t.Parallel()
	chain := new(busyChain)
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
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

// A wallet's balance is asked for with a short timeout, and remembered for a moment. Where it
// cannot be known, the error says so.
func TestWalletBalance(t *testing.T) {
	t.Parallel()
	chain := new(hangingChain)
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
	list, err := w.books.ListWallets(t.Context(), w.key)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d wallets, %v", len(list), err)
	}
	wallet := list[0]
	for range 3 {
		if have, err := w.payer.WalletBalance(t.Context(), wallet); err != nil || have != money.New(1_000_000_000) {
			t.Fatalf("%s, %v", have, err)
		}
	}
	if n := chain.asked.Load(); n != 1 {
		t.Errorf("the RPC was asked %d times", n)
	}
	chain.hangs.Store(true)
	w.chain.advance(time.Minute)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // a page that does not wait
	defer cancel()
	if _, err := w.payer.WalletBalance(ctx, wallet); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	for _, bad := range []struct {
		wallet pay.Wallet
		want   error
	}{
		{pay.Wallet{ID: "w", Network: "base"}, pay.ErrNoAddress},
		{pay.Wallet{ID: "w", Network: "mainnet", Address: wallet.Address}, pay.ErrNoChain},
		{pay.Wallet{ID: "w", Network: "base-sepolia", Address: wallet.Address}, pay.ErrNoChain}, // is not enabled
	} {
		if _, err := w.payer.WalletBalance(t.Context(), bad.wallet); !errors.Is(err, bad.want) {
			t.Errorf("%+v: %v", bad.wallet, err)
		}
	}

	blind := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	if _, err := blind.payer.WalletBalance(t.Context(), wallet); !errors.Is(err, pay.ErrNoChain) {
		t.Errorf("without an RPC: %v", err)
	}
	foreign := newWorld(t, nil)
	foreign.chain.id = 1
	if _, err := foreign.payer.WalletBalance(t.Context(), wallet); !errors.Is(err, pay.ErrNoChain) {
		t.Errorf("with an RPC of another chain: %v", err)
	}
}
