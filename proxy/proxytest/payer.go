// Package proxytest holds what tests of the packages proxy and forward share: a payer, sellers, and
// answers with checks.
package proxytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
)

// World pays in tests, with a key that has a wallet.
type World struct {
	*paytest.World
	T      *testing.T
	Key    pay.Key
	Secret string
	Logs   *paytest.Log
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
	b := &World{T: t, Logs: &paytest.Log{}}
	b.Logger = slog.New(slog.NewTextHandler(b.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Store, o.Logger = around(memory.New(memory.Options{})), b.Logger
	b.World = paytest.NewWorld(t, o)
	b.Key, b.Secret = b.NewKey()
	return b
}

// NewKey makes a key with a wallet.
func (b *World) NewKey() (key pay.Key, secret string) {
	b.T.Helper()
	return b.World.NewKey(books.KeyRequest{Label: "agent"})
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
