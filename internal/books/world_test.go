package books_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// world holds books and a payer over one store, and a clock that the test sets.
type world struct {
	*books.Books
	t           *testing.T
	payer       *pay.Payer
	facilitator *facilitator
	key         pay.Key      // unclaimed, with a wallet
	later       atomic.Int64 // than the beginning of the test, in nanoseconds; ends of payments read the clock meanwhile
}

// facilitator settles every payload, or answers nothing.
type facilitator struct {
	silent  bool
	settled atomic.Uint64
}

func (*facilitator) Probe(context.Context) error { return nil }

func (*facilitator) Verify(context.Context, pay.Exchange) (pay.VerifyAnswer, error) {
	return pay.VerifyAnswer{Valid: true}, nil
}

func (f *facilitator) Settle(context.Context, pay.Exchange) (pay.SettleAnswer, error) {
	if f.silent {
		return pay.SettleAnswer{}, errors.New("no answer")
	}
	return pay.SettleAnswer{Success: true, Transaction: fmt.Sprintf("0x%064x", f.settled.Add(1)), Network: "eip155:8453"}, nil
}

func (w *world) now() time.Time {
	return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Add(time.Duration(w.later.Load()))
}

func (w *world) advance(d time.Duration) { w.later.Add(int64(d)) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, facilitator: new(facilitator)}
	store := memory.New(memory.Options{Clock: w.now})
	wallets := signer.NewLocal(store)
	var err error
	if w.payer, err = pay.New(pay.Options{Store: store, Wallets: wallets, Facilitator: w.facilitator, Clock: w.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.payer.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if w.Books, err = books.New(books.Options{Store: store, Wallets: wallets, Clock: w.now}); err != nil {
		t.Fatal(err)
	}
	w.key = w.member("")
	return w
}

// member makes a key of an organization with a wallet. "" leaves the key unclaimed.
func (w *world) member(org string) pay.Key {
	w.t.Helper()
	k, _, err := w.CreateKey(w.t.Context(), books.KeyRequest{OrganizationID: org})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.CreateWallet(w.t.Context(), k, "base"); err != nil {
		w.t.Fatal(err)
	}
	return k
}

// pays tries to pay an amount for a URL with a key.
func (w *world) pays(k pay.Key, url, amount string) (*pay.Attempt, error) {
	w.t.Helper()
	c, err := x402.DecodeHeader(fmt.Sprintf(`{"x402Version":2,"resource":{"url":%q},"accepts":[{"scheme":"exact","network":"eip155:8453","amount":%q,
		"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x%s","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}]}`,
		url, amount, strings.Repeat("1", 40)))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.payer.Pay(w.t.Context(), pay.Request{Key: k, Door: policy.DoorAPI, Settlement: pay.SettlePayer, Challenge: c, URL: url})
}

// buys pays, and returns the payment's id.
func (w *world) buys(k pay.Key, url, amount string) string {
	w.t.Helper()
	a, err := w.pays(k, url, amount)
	if err != nil {
		w.t.Fatal(err)
	}
	a.Finish(true)
	return a.Payment().ID
}
