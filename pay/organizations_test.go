package pay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// A wallet's balance is asked for with a short timeout, and remembered for a moment. Where it
// cannot be known, the error says so.
func TestWalletBalance(t *testing.T) {
	t.Parallel()
	var chain *hangingChain
	w := newWorld(t, func(o *pay.Options) {
		chain = &hangingChain{Chain: o.Chain}
		o.Chain = chain
	})
	list, err := w.books.ListWallets(t.Context(), w.key)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d wallets, %v", len(list), err)
	}
	wallet := list[0]
	for range 3 {
		if have, err := w.payer.WalletBalance(t.Context(), wallet); err != nil || have != x402.NewAmount(1_000_000_000) {
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
