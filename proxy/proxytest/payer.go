// Package proxytest holds what tests of the packages proxy and forward share: a payer, sellers, and
// answers with checks.
package proxytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/signer"
)

// World pays in tests: a payer and books over a store in memory and a real signer, and a key with a
// wallet.
type World struct {
	T      *testing.T
	Payer  *pay.Payer
	Books  *books.Books
	Key    pay.Key
	Secret string
	Logs   *logBook
	Logger *slog.Logger
}

// USDC returns a cap of whole USDC.
func USDC(units uint64) *policy.Cap { return policy.CapOf(money.New(units * 1_000_000)) }

// PayOptions returns the options that tests may change.
func PayOptions() pay.Options {
	return pay.Options{DefaultPolicy: policy.Policy{MaxPayment: USDC(1), DailyBudget: USDC(10)}, RepeatWait: 5 * time.Second}
}

// NewWorld makes a World. around replaces the store that the payer gets.
func NewWorld(t *testing.T, o pay.Options, around func(pay.Store) pay.Store) *World {
	t.Helper()
	b := &World{T: t, Logs: &logBook{}}
	b.Logger = slog.New(slog.NewTextHandler(b.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := memory.New(memory.Options{})
	o.Store, o.Wallets, o.Logger = around(store), signer.NewLocal(store), b.Logger
	var err error
	if b.Payer, err = pay.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Payer.Close(ctx); err != nil {
			t.Errorf("closing the payer: %v", err)
		}
	})
	if b.Books, err = books.New(books.Options{Store: o.Store, Wallets: o.Wallets, Logger: b.Logger}); err != nil {
		t.Fatal(err)
	}
	b.Key, b.Secret = b.NewKey()
	return b
}

// NewKey makes a key with a wallet.
func (b *World) NewKey() (key pay.Key, secret string) {
	b.T.Helper()
	key, secret, err := b.Books.CreateKey(context.Background(), books.KeyRequest{Label: "agent"})
	if err == nil {
		_, err = b.Books.CreateWallet(context.Background(), key, "base")
	}
	if err != nil {
		b.T.Fatal(err)
	}
	return key, secret
}

// Payments returns all payments of the world's key, newest first.
func (b *World) Payments() []*pay.Payment {
	b.T.Helper()
	list, err := b.Books.Payments(context.Background(), b.Key, "", 100, "")
	if err != nil {
		b.T.Fatal(err)
	}
	return list
}

// Closed waits until the payment's call is over in the books.
func (b *World) Closed(id string) *pay.Payment {
	b.T.Helper()
	var p *pay.Payment
	Eventually(b.T, "the lease of "+id+" is released", func() bool {
		var err error
		if p, err = b.Payer.Payment(context.Background(), b.Key, id); err != nil {
			b.T.Fatal(err)
		}
		return p.Lease.Owner == ""
	})
	return p
}
