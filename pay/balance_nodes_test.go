package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Two nodes of one store know that a wallet has 100. What one of them spends, the other one does not sign again,
// although its own reading is from before.
func TestTwoNodesSpendABalanceOnce(t *testing.T) {
	t.Parallel()
	chain := &fundedChain{have: 100}
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
	other := must(pay.New(w.opts))
	n := 0
	buy := func(node *pay.Payer, amount string) error {
		n++
		a, err := node.Pay(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), amount, ""))
		if err == nil {
			a.Finish(true)
		}
		return err
	}
	if err := buy(other, "101"); !short(err) {
		t.Fatalf("101 of 100: %v", err)
	}
	if err := buy(w.payer, "70"); err != nil {
		t.Fatal(err)
	}
	w.idle()
	// The RPC of the other node does not know of the settlement yet.
	asked := chain.count()
	if err := buy(other, "30"); err != nil {
		t.Errorf("the rest: %v", err)
	}
	w.idle()
	if n := chain.count() - asked; n != 0 {
		t.Errorf("the RPC was asked %d times for what was remembered", n)
	}
	chain.set(func(c *fundedChain) { c.have = 0 })
	for _, node := range []*pay.Payer{other, w.payer} {
		if err := buy(node, "1"); !short(err) {
			t.Errorf("of an empty wallet: %v", err)
		}
	}
	// What comes in is spent at once, also by the node whose reading is older.
	w.chain.advance(2e9)
	chain.set(func(c *fundedChain) { c.have = 50 })
	if err := buy(other, "50"); err != nil {
		t.Errorf("after the wallet was funded: %v", err)
	}
}

// A withdrawal on one node is taken off the balance that another one remembers.
func TestTwoNodesWithdrawABalanceOnce(t *testing.T) {
	t.Parallel()
	chain := &fundedChain{have: 100}
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
	other := must(pay.New(w.opts))
	wallet := must(w.books.ListWallets(t.Context(), w.key))[0]
	if _, err := other.WalletBalance(t.Context(), wallet); err != nil {
		t.Fatal(err)
	}
	amount := money.New(80)
	out := must(treasury.Of(w.payer).Withdraw(t.Context(), treasury.Withdrawal{Wallet: wallet, To: x402.EVMAddress([20]byte{7}), Amount: &amount}))
	if out.Payment.State != pay.Settled {
		t.Fatalf("the withdrawal is %s", out.Payment.State)
	}
	chain.set(func(c *fundedChain) { c.have = 20 })
	if _, err := other.Pay(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/", "30", "")); !short(err) {
		t.Errorf("30 of 20: %v", err)
	}
}

// forgetfulStore fails to tell what wallets have moved.
type forgetfulStore struct {
	pay.Store
	fails atomic.Bool
}

func (s *forgetfulStore) Counter(ctx context.Context, c pay.Counter) (money.Amount, error) {
	if s.fails.Load() && strings.HasPrefix(string(c), "moved/") {
		return money.Amount{}, errors.New("no connection")
	}
	return s.Store.Counter(ctx, c)
}

// A store that fails for a while does not switch off the check of balances: that is no word on the RPC.
func TestFailingStoreLeavesBalancesChecked(t *testing.T) {
	t.Parallel()
	chain := &fundedChain{have: 4}
	store := new(forgetfulStore)
	w := newWorld(t, func(o *pay.Options) {
		chain.Chain, o.Chain = o.Chain, chain
		store.Store, o.Store = o.Store, store
	})
	wallet := must(w.books.ListWallets(t.Context(), w.key))[0]
	store.fails.Store(true)
	for n := range 5 {
		if a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), "1", "")); err == nil {
			a.Finish(true)
		}
		if _, err := w.payer.WalletBalance(t.Context(), wallet); err == nil {
			t.Error("a balance of which it is not known what has moved since")
		}
	}
	store.fails.Store(false)
	if _, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/dear", "5", "")); !short(err) {
		t.Errorf("5 of 4: %v", err)
	}
}
