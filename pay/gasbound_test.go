package pay_test

import (
	"context"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/treasury"
)

// The tip is the RPC's word, and the wallet pays it. What no person has seen the price of has a bound.
func TestTransactionsAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	const gwei = 1e9
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	c.set(func() { c.coins, c.tip = 10e18, 1000*gwei }) // 0.075 ETH for a cancellation
	for name, order := range map[string]func(fee, cost *money.Amount) error{
		"cancel": func(fee, cost *money.Amount) error {
			_, err := treasury.Of(w.payer).Cancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet(), PaymentID: p.ID, MaxFee: fee, MaxCost: cost})
			return err
		},
		"approve": func(fee, cost *money.Amount) error {
			_, err := treasury.Of(w.payer).Allow(context.Background(), treasury.AllowanceOrder{Wallet: w.store.wallet(), Amount: money.New(5), MaxFee: fee, MaxCost: cost})
			return err
		},
	} {
		before := len(c.sent)
		for _, bound := range []struct{ fee, cost *money.Amount }{{nil, nil}, {nil, some(1e15)}, {some(999 * gwei), nil}, {some(2000 * gwei), some(1e15)}} {
			if err := order(bound.fee, bound.cost); inputField(err) != "max_fee" {
				t.Errorf("%s within %v, %v: %v", name, bound.fee, bound.cost, err)
			}
		}
		if err := order(nil, nil); err == nil || !strings.Contains(err.Error(), "ETH by the word of the RPC, more than the 0.001 ETH that it may") {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.sent) != before {
			t.Errorf("%s: sent above its bound", name)
		}
		if err := order(nil, some(1e17)); err != nil || len(c.sent) != before+1 {
			t.Errorf("%s within a bound of the operator's own: %v", name, err)
		}
	}
}

// A person has seen the price, and what is sent in the place of a transaction costs no more either.
func TestTransactionsKeepAgreedPrices(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	c.set(func() { c.coins, c.tip, c.full = 10e18, 1e12, true })
	plan := must(treasury.Of(w.payer).PlanCancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet()}))
	order := treasury.Cancel{Wallet: w.store.wallet(), PaymentID: p.ID, MaxFee: &plan.Cost.MaxFee}
	cancel := func() error {
		ctx, end := w.impatient()
		defer end()
		_, err := treasury.Of(w.payer).Cancel(ctx, order)
		return err
	}
	if err := cancel(); err != nil || len(c.sent) != 1 {
		t.Fatalf("what was agreed to: %v, %d sent", err, len(c.sent))
	}
	agreed := plan.Cost.MaxFee
	c.set(func() { c.base = 11 }) // the present price is within what was agreed to, and within the old terms
	if err := cancel(); err != nil || c.sent[len(c.sent)-1].Hash() != c.sent[0].Hash() {
		t.Errorf("the same transaction: %v", err)
	}
	// The price rises by one wei above the old terms, and the operator agrees to that. A transaction takes the
	// place of another one at an eighth more only, which is above what was agreed to.
	higher := agreed.AddSaturated(money.New(1))
	c.set(func() { c.base = higher.Big().Uint64() - c.tip - 2 })
	order.MaxFee = &higher
	if err := cancel(); inputField(err) != "max_fee" || len(c.sent) != 2 {
		t.Errorf("above what was agreed to: %v, %d sent", err, len(c.sent))
	}
}
