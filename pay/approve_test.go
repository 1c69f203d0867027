package pay_test

import (
	"context"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
)

func (w *world) approve(amount uint64) (treasury.AllowanceChange, error) {
	ctx, end := w.impatient()
	defer end()
	return treasury.Of(w.payer).Allow(ctx, treasury.AllowanceOrder{Wallet: w.store.wallet(), Amount: money.New(amount)})
}

func TestApprovalIsJournaledFirst(t *testing.T) {
	t.Parallel()
	var w *world
	w, c := newPool(t, func(o *pay.Options) {
		n := o.Wallets.(notary)
		n.signs = func() {
			if a := w.store.wallet().Approving; a == nil || a.Terms.Gas == 0 || a.Amount.String() != "700" {
				t.Errorf("a transaction is signed, and the journal has %+v", a)
			}
		}
		o.Wallets = n
	})
	c.seen = func(tx *types.Transaction) {
		if a := w.store.wallet().Approving; a.Terms.Nonce != tx.Nonce() || a.Terms.Gas != tx.Gas() {
			t.Errorf("%+v is sent, and the journal has %+v", tx, a)
		}
	}
	got, err := w.approve(700)
	if err != nil || got.Have.String() != "700" || !got.Was.IsZero() || got.Mined == nil || c.sent[0].Gas() != 50_000 {
		t.Errorf("approved %+v, %v", got, err)
	}
}

// The answer to a transaction is lost, or purser ends before it is sent. The order comes again, and there
// is one transaction.
func TestApprovalIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*pool){
		"never arrived":        func(c *pool) { c.unheard = true },
		"arrived all the same": func(c *pool) { c.deaf = true },
		"waits for a block":    func(c *pool) { c.full = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := newPool(t, nil)
			fault(c)
			_, _ = w.approve(700)
			terms := w.store.wallet().Approving.Terms
			w.restart()
			c.set(func() { c.unheard, c.deaf, c.full = false, false, false })
			got, err := w.approve(700)
			if err != nil || got.Have.String() != "700" || len(c.mined) != 1 || w.store.wallet().Approving.Terms != terms {
				t.Errorf("approved %+v, %v; %d transactions", got, err, len(c.mined))
			}
		})
	}
}

// An approval that waits for a block comes before the order that takes it away.
func TestApprovalsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	c.full = true
	if got, err := w.approve(700); err != nil || got.Mined != nil || got.Transaction == "" {
		t.Fatalf("approved %+v, %v", got, err)
	}
	if plan, err := treasury.Of(w.payer).PlanAllowance(context.Background(), treasury.AllowanceOrder{Wallet: w.store.wallet()}); err != nil || plan.Cost == nil {
		t.Errorf("plan %+v, %v", plan, err)
	}
	c.set(func() { c.full = false })
	got, err := w.approve(0)
	if err != nil || !got.Have.IsZero() || len(c.mined) != 2 {
		t.Errorf("taken away: %+v, %v", got, err)
	}
}

func TestApprovalRefused(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	if _, err := treasury.Of(w.payer).Allow(context.Background(), treasury.AllowanceOrder{Wallet: w.store.wallet(), Amount: money.New(1).TimesSaturated(1 << 63).TimesSaturated(1 << 63).TimesSaturated(4)}); inputField(err) != "amount" {
		t.Errorf("2^128: %v", err)
	}
	c.coins = 100
	if _, err := w.approve(700); pay.Code(err) != pay.CodeGas {
		t.Errorf("no gas: %v", err)
	}
	c.coins, c.refuses = 1e18, "insufficient funds"
	if _, err := w.approve(700); pay.Code(err) != pay.CodeRejected {
		t.Errorf("rejected: %v", err)
	}
	if len(c.sent) != 0 {
		t.Errorf("%d transactions", len(c.sent))
	}
}
