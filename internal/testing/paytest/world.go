// Package paytest holds what tests of the packages above pay share: a payer and books over one store, a
// facilitator, a challenge and a log.
package paytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

// World holds a payer and books over one store.
type World struct {
	T       testing.TB
	Payer   *pay.Payer
	Books   *books.Books
	Store   pay.Store
	Wallets pay.Wallets
}

// NewWorld makes a World that ends with the test. Without a store, it keeps everything in memory. Without
// wallets, it signs with keys of its own.
func NewWorld(t testing.TB, o pay.Options) *World {
	t.Helper()
	if o.Store == nil {
		o.Store = memory.New(memory.Options{Clock: o.Clock})
	}
	if o.Wallets == nil {
		o.Wallets = signer.NewLocal(o.Store)
	}
	w := &World{T: t, Store: o.Store, Wallets: o.Wallets}
	var err error
	if w.Payer, err = pay.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.Payer.Close(ctx); err != nil {
			t.Errorf("closing the payer: %v", err)
		}
	})
	if w.Books, err = books.New(books.Options{
		Store: o.Store, Wallets: o.Wallets, Clock: o.Clock, Networks: o.Networks, Plans: o.Plans, NoPlans: o.NoPlans, Logger: o.Logger,
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// NewKey makes a key with a wallet on Base.
func (w *World) NewKey(r books.KeyRequest) (key pay.Key, secret string) {
	w.T.Helper()
	key, secret, err := w.Books.CreateKey(context.Background(), r)
	if err == nil {
		_, err = w.Books.CreateWallet(context.Background(), key, "base")
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return key, secret
}

// Finish ends an attempt whose caller has its answer, and returns the payment once that is written.
func Finish(t testing.TB, p *pay.Payer, a *pay.Attempt) *pay.Payment {
	t.Helper()
	a.Finish(true)
	made := a.Payment()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		row, err := p.Payment(t.Context(), pay.Key{ID: made.KeyID}, made.ID)
		switch {
		case err != nil:
			t.Fatal(err)
		case row.Lease.Owner == "":
			return row
		case time.Now().After(deadline):
			t.Fatalf("the lease of %s is not released", made.ID)
		}
	}
}

// Challenge returns the challenge of a seller for an amount in the smallest unit of USDC on Base.
func Challenge(t testing.TB, url, amount string) x402.Challenge {
	t.Helper()
	c, err := x402.DecodeHeader(fmt.Sprintf(`{"x402Version":2,"error":"Payment required","resource":{"url":%q},"accepts":[{"scheme":"exact",
		"network":"eip155:8453","amount":%q,"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x%s","maxTimeoutSeconds":60,
		"extra":{"name":"USD Coin","version":"2"}}]}`, url, amount, strings.Repeat("1", 40)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Proxied returns a request of a client of the proxy, whose seller settles what it is paid.
func Proxied(t testing.TB, k pay.Key, url, amount string) pay.Request {
	t.Helper()
	return pay.Request{
		Key: k, Door: policy.DoorProxy, Settlement: pay.SettleSeller, Challenge: Challenge(t, url, amount), URL: url,
		HTTP: &pay.HTTPRequest{Method: "GET", URL: url},
	}
}

// Facilitator settles every payload, or answers no order to settle.
type Facilitator struct {
	Silent  bool
	settled atomic.Uint64
}

// Probe finds the facilitator well.
func (*Facilitator) Probe(context.Context) error { return nil }

// Verify takes every payload.
func (*Facilitator) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) {
	return pay.VerifyAnswer{Valid: true}, nil
}

// Settle names the next transaction.
func (f *Facilitator) Settle(context.Context, pay.Exchange) (pay.SettleAnswer, error) {
	if f.Silent {
		return pay.SettleAnswer{}, errors.New("no answer")
	}
	return pay.SettleAnswer{Success: true, Transaction: fmt.Sprintf("0x%064x", f.settled.Add(1)), Network: "eip155:8453"}, nil
}

// Log keeps what is written to it. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
