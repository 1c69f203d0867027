package pay_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// After a restore, what the chain tells of a shared wallet is spent by the key that has paid, and not by the
// wallet's owner.
func TestReconcilingFindsTheKeyOfASharedWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	other := w.sharing()
	backup, taken := w.store.snapshot(), w.chain.clock()
	spent := map[string]string{}
	for amount, k := range map[string]pay.Key{"7": other, "5": w.key} {
		r := w.proxied("https://one.example/"+amount, amount, "")
		r.Key = k
		w.settles(r)
		spent[k.ID] = amount
	}
	w.store = backup
	w.opts.Store = backup
	w.store.Restore(pay.Restore{Taken: taken})
	w.restart()
	w.chain.advance(10 * time.Minute)
	w.mustReconcile()
	for id, amount := range spent {
		got := must(w.store.Counter(context.Background(), pay.DailyCounter(id, "USDC", w.chain.clock())))
		if got.String() != amount {
			t.Errorf("key %s has spent %s of its budget, want %s", id, got, amount)
		}
	}
	if list := w.store.payments(); len(list) != 2 || slices.ContainsFunc(list, func(p *pay.Payment) bool { return spent[p.KeyID] != p.Terms.Amount.String() }) {
		t.Errorf("%d payments found", len(list))
	}
	w.checkBooks()
}
