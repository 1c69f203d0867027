package books_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// world holds books and a payer over one store, and a clock that the test sets.
type world struct {
	*books.Books
	t           *testing.T
	payer       *pay.Payer
	facilitator *paytest.Facilitator
	key         pay.Key      // unclaimed, with a wallet
	later       atomic.Int64 // than the beginning of the test, in nanoseconds; ends of payments read the clock meanwhile
}

func (w *world) now() time.Time {
	return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Add(time.Duration(w.later.Load()))
}

func (w *world) advance(d time.Duration) { w.later.Add(int64(d)) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, facilitator: new(paytest.Facilitator)}
	made := paytest.NewWorld(t, pay.Options{Facilitator: w.facilitator, Clock: w.now})
	w.payer, w.Books = made.Payer, made.Books
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
	return w.payer.Pay(w.t.Context(), pay.Request{Key: k, Door: policy.DoorAPI, Settlement: pay.SettlePayer, Challenge: paytest.Challenge(w.t, url, amount), URL: url})
}

// buys pays, and returns the payment's id.
func (w *world) buys(k pay.Key, url, amount string) string {
	w.t.Helper()
	a, err := w.pays(k, url, amount)
	if err != nil {
		w.t.Fatal(err)
	}
	return paytest.Finish(w.t, w.payer, a).ID
}
