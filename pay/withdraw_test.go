package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// purse is a chain on which a wallet has less after each transfer.
type purse struct {
	*truth
	had money.Amount
}

func (c purse) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return money.Amount{}, errors.New("rpc down")
	}
	left, _ := c.had.Sub(c.sums)
	return left, nil
}

// newPurse makes a world whose wallet holds an amount.
func newPurse(t testing.TB, had uint64, change func(*pay.Options)) *world {
	return newWorld(t, func(o *pay.Options) {
		o.Chain = purse{o.Chain.(*truth), money.New(had)}
		if change != nil {
			change(o)
		}
	})
}

var owner = must(x402.ParseAddress("0x2222222222222222222222222222222222222222"))

func some(n uint64) *money.Amount { return new(money.New(n)) }

// order is a withdrawal from the wallet; nil: of all.
func (w *world) order(amount *money.Amount) treasury.Withdrawal {
	return treasury.Withdrawal{Wallet: w.store.wallet(), To: owner, Amount: amount}
}

func (w *world) withdraw(o treasury.Withdrawal) (pay.Withdrawn, error) {
	return treasury.Of(w.payer).Withdraw(context.Background(), o)
}

func (w *world) mustWithdraw(o treasury.Withdrawal) pay.Withdrawn {
	w.t.Helper()
	got := must(w.withdraw(o))
	w.idle()
	return got
}

func inputField(err error) string {
	if in, ok := errors.AsType[*pay.InputError](err); ok {
		return in.Field
	}
	return ""
}

func TestWithdrawMovesAllThatIsNotReserved(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	open := w.mustBuy("https://api.example.com/a", "300", "", false)
	got := w.mustWithdraw(w.order(nil))
	p := got.Payment
	if p.State != pay.Settled || p.Terms.Amount.String() != "700" || p.Terms.PayTo != owner || got.Earlier || p.Transaction != w.chain.transaction(p.Authorization.Nonce) {
		t.Fatalf("withdrawn %+v", p)
	}
	if p.RequestURL != "withdraw:"+owner.String() || p.Host != "withdrawal" || !p.Withdraws() {
		t.Errorf("booked as %q at %q", p.RequestURL, p.Host)
	}
	if _, err := w.withdraw(treasury.Withdrawal{Wallet: w.store.wallet(), To: must(x402.ParseAddress(testSeller))}); inputField(err) != "amount" || !strings.Contains(err.Error(), "0.0003 USDC of it is reserved") {
		t.Errorf("nothing is left, got %v", err)
	}
	// What was reserved is free once the chain has said that it did not move.
	w.recoverAll()
	if w.payment(open.ID).State != pay.Void {
		t.Fatal("the purchase is not void")
	}
	if p := w.mustWithdraw(w.order(nil)).Payment; p.State != pay.Settled || p.Terms.Amount.String() != "300" {
		t.Fatalf("then withdrawn %+v", p)
	}
	if h := must(w.payer.Holdings(context.Background(), w.store.wallet())); !h.Balance.IsZero() || !h.Reserved.IsZero() {
		t.Errorf("the wallet holds %s, reserved %s", h.Balance, h.Reserved)
	}
	w.booksAreTheChain()
	w.checkBooks()
}

func TestWithdrawalIsMadeOnceWhateverFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ verify, settle string }{
		{"fail", ""},
		{"unreachable", ""},
		{"refuse", ""},
		{"", "fail"},
		{"", "fail-moved"},
		{"", "refuse"},
		{"", "refuse-moved"},
		{"", "moved-unclear"},
		{"", "pending"},
	} {
		for _, amount := range []*money.Amount{nil, some(400)} {
			t.Run(c.verify+c.settle, func(t *testing.T) {
				t.Parallel()
				w := newPurse(t, 400, nil)
				w.fac.mode(c.verify, c.settle)
				first, err := w.withdraw(w.order(amount))
				w.fac.mode("", "")
				if err != nil {
					w.restart()
				}
				w.idle()
				again := w.mustWithdraw(w.order(amount))
				if again.Payment.State != pay.Settled || !again.Earlier {
					t.Errorf("the repeat got %+v", again.Payment)
				}
				if first.Payment != nil && first.Payment.ID != again.Payment.ID {
					t.Errorf("the repeat is another payment than the first (%v)", err)
				}
				if n := w.chain.moves(); n != 1 || len(w.store.payments()) != 1 {
					t.Errorf("%d moves by %d payments", n, len(w.store.payments()))
				}
				w.booksAreTheChain()
				w.checkBooks()
			})
		}
	}
}

func TestEqualWithdrawalIsARepeatUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	first := w.mustWithdraw(w.order(some(100)))
	again := w.mustWithdraw(w.order(some(100)))
	if again.Payment.ID != first.Payment.ID || !again.Earlier {
		t.Errorf("the repeat is %s, not %s", again.Payment.ID, first.Payment.ID)
	}
	other := w.order(some(100))
	other.Again = true
	second := w.mustWithdraw(other)
	if second.Payment.ID == first.Payment.ID || second.Payment.State != pay.Settled {
		t.Errorf("the second one is %+v", second.Payment)
	}
	if p := w.mustWithdraw(w.order(some(101))).Payment; p.ID == first.Payment.ID {
		t.Error("another amount is a repeat")
	}
	w.chain.advance(time.Hour + 6*time.Minute)
	if p := w.mustWithdraw(w.order(some(100))).Payment; p.ID == first.Payment.ID || p.ID == second.Payment.ID {
		t.Error("more than an hour later it is a repeat")
	}
	if n := w.chain.moves(); n != 4 {
		t.Errorf("%d moves", n)
	}
	w.booksAreTheChain()
}

// An operator orders a withdrawal, a backup from before it is restored and reconciled, and the operator orders it
// again. The transfer is on the chain, so the order gets it.
func TestEqualWithdrawalAfterARestoreIsARepeat(t *testing.T) {
	t.Parallel()
	for name, amount := range map[string]*money.Amount{"of an amount": some(100), "of all": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurse(t, 150, nil)
			w.settles(w.proxied("https://api.example.com/a", "50", ""))
			backup, taken := w.store.snapshot(), w.chain.clock()
			first := w.mustWithdraw(w.order(amount)).Payment
			w.store, w.opts.Store = backup, backup
			w.store.Restore(pay.Restore{Taken: taken})
			w.restart()
			w.chain.advance(10 * time.Minute)
			w.mustReconcile()
			again := w.mustWithdraw(w.order(amount))
			p := again.Payment
			if !again.Earlier || p.Transaction != first.Transaction || !p.Withdraws() || p.RequestURL != first.RequestURL || p.Host != first.Host {
				t.Errorf("the repeat got %+v", p)
			}
			if n := w.chain.moves(); n != 2 {
				t.Errorf("%d moves, want the purchase's and the withdrawal's", n)
			}
			if got := must(w.store.Counter(t.Context(), pay.DailyCounter(w.key.ID, "USDC", w.chain.clock()))); got.String() != "50" {
				t.Errorf("the key has spent %s of its budget, want 50 without the withdrawal", got)
			}
			w.booksAreTheChain()
			w.checkBooks()
			if amount != nil { // after the hour, and at once if it is ordered, it is another one
				w.chain.advance(time.Hour)
				if _, err := w.withdraw(w.order(amount)); inputField(err) != "amount" {
					t.Errorf("another withdrawal, of nothing: %v", err)
				}
			}
		})
	}
}

// What may still move its money is not another withdrawal, even if the operator says so.
func TestOrderAgainDrivesOnWhatMayMove(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	w.fac.mode("", "fail")
	o := w.order(some(100))
	o.Again = true
	_, err := w.withdraw(o)
	first := failedState(t, err)
	w.idle()
	w.fac.mode("", "")
	if got := w.mustWithdraw(o); got.Payment.ID != first.ID || got.Payment.State != pay.Settled {
		t.Errorf("got %+v", got.Payment)
	}
	if w.chain.moves() != 1 {
		t.Errorf("%d moves", w.chain.moves())
	}
}

func TestUndecidedWithdrawalHoldsBackItsEqual(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	w.fac.mode("", "fail")
	_, err := w.withdraw(w.order(some(100)))
	first := failedState(t, err)
	w.idle()
	w.fac.mode("", "")
	w.chain.rpc(false, true)
	w.chain.advance(6 * time.Minute)
	if _, err := w.withdraw(w.order(some(100))); pay.Code(err) != pay.CodeOpen {
		t.Errorf("expired and open, got %v", err)
	}
	w.chain.advance(2 * time.Hour)
	w.recoverAll()
	if p := w.payment(first.ID); !p.Unresolved {
		t.Fatalf("the first one is %s %v", p.State, p.Flags())
	}
	if _, err := w.withdraw(w.order(some(100))); inputField(err) != "withdrawal" {
		t.Errorf("unresolved, got %v", err)
	}
	if _, err := treasury.Of(w.payer).PlanWithdrawal(t.Context(), w.order(some(100))); inputField(err) != "withdrawal" {
		t.Errorf("the plan of an unresolved one: %v", err)
	}
	w.chain.rpc(false, false)
	w.chain.advance(2 * time.Hour)
	w.recoverAll()
	if p := w.mustWithdraw(w.order(some(100))).Payment; p.ID == first.ID || p.State != pay.Settled {
		t.Errorf("after the chain's word, got %+v", p)
	}
	if w.chain.moves() != 1 {
		t.Errorf("%d moves", w.chain.moves())
	}
	w.checkBooks()
}

// A plan names the withdrawal that the order then gets, however many payments the key has made since.
func TestPlanIsWhatTheOrderGets(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 100_000, nil)
	first := w.mustWithdraw(w.order(some(100)))
	for i := range 1001 {
		a := must(w.payer.Open(t.Context(), w.proxied(fmt.Sprintf("https://api-%d.example.com/", i), "1", "")))
		w.sellerMoves(a.Payload())
		a.Finish(true)
	}
	w.idle()
	plan := must(treasury.Of(w.payer).PlanWithdrawal(t.Context(), w.order(some(100))))
	if plan.Repeats == nil || plan.Repeats.ID != first.Payment.ID || plan.Amount != first.Payment.Terms.Amount {
		t.Errorf("the plan repeats %+v", plan.Repeats)
	}
	if got := w.mustWithdraw(w.order(some(100))); !got.Earlier || got.Payment.ID != first.Payment.ID {
		t.Errorf("the order got %s", got.Payment.ID)
	}
	other := w.order(some(100))
	other.Again = true
	if plan := must(treasury.Of(w.payer).PlanWithdrawal(t.Context(), other)); plan.Repeats != nil || plan.Amount.String() != "100" || plan.Balance == nil {
		t.Errorf("another one is planned as %+v", plan)
	}
	if n := w.chain.moves(); n != 1+1001 {
		t.Errorf("%d moves", n)
	}
}

func TestEqualWithdrawalsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, func(o *pay.Options) { o.RepeatWait = 5 * time.Second })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := w.withdraw(w.order(some(10))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.chain.moves(); n != 1 || len(w.store.payments()) != 1 {
		t.Errorf("%d moves by %d payments", n, len(w.store.payments()))
	}
}

func TestWithdrawalsKeepNoLimitsOfTheKey(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, func(o *pay.Options) {
		o.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(1)), Doors: []policy.Door{policy.DoorProxy}}
		o.Failures = pay.FailureBounds{PerMinute: 1}
	})
	ctx := pay.WithActor(context.Background(), pay.Operator("ann"))
	wallet := w.store.wallet()
	must(w.books.PauseAll(ctx, "a key is lost"))
	must(w.books.StopKey(ctx, w.key.ID, pay.KeyStop{Do: pay.StopRevoke}))
	if err := w.books.DeleteWallet(ctx, w.key, wallet.ID); err != nil {
		t.Fatal(err)
	}
	w.fac.mode("refuse", "")
	_, err := treasury.Of(w.payer).Withdraw(ctx, w.order(some(9)))
	refused := failedState(t, err)
	w.idle()
	w.fac.mode("", "")
	got := must(treasury.Of(w.payer).Withdraw(ctx, w.order(nil)))
	if got.Payment.State != pay.Settled || got.Payment.Terms.Amount.String() != "991" { // the refused one is reserved
		t.Errorf("withdrawn %+v", got.Payment)
	}
	if p := w.mustWithdraw(w.order(some(9))).Payment; p.ID != refused.ID || p.State != pay.Settled || p.Failed {
		t.Errorf("the refused one is %+v", p)
	}
	if w.placeCount() != "0" || w.counter(pay.DailyCounter(w.key.ID, "USDC", w.chain.clock())) != "0" {
		t.Error("withdrawals count for the quota or the budget")
	}
	entries := must(w.store.AuditEntries(ctx, pay.AuditQuery{Limit: 10}))
	if e := entries[0]; e.Action != pay.ActionWalletWithdraw || e.WalletID != wallet.ID || e.PaymentID != got.Payment.ID || e.By.ID != "ann" {
		t.Errorf("the audit has %+v", e)
	}
	w.checkBooks()
}

func TestSignedWithdrawalIsBookedFromTheChain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*pay.Options, *treasury.Withdrawal){
		"no facilitator": func(o *pay.Options, _ *treasury.Withdrawal) { o.Facilitator = nil },
		"as ordered":     func(_ *pay.Options, w *treasury.Withdrawal) { w.Sign = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var order treasury.Withdrawal
			w := newPurse(t, 50, func(o *pay.Options) { change(o, &order) })
			order.Wallet, order.To = w.store.wallet(), owner
			got := w.mustWithdraw(order)
			if got.Payment.State != pay.Open || got.Payload.JSON == nil || w.chain.moves() != 0 || w.fac.called("verify") != 0 {
				t.Fatalf("got %+v", got)
			}
			if left := got.Payment.ValidBefore().Sub(w.chain.clock()); left != 5*time.Minute {
				t.Errorf("valid for %s", left)
			}
			if again := w.mustWithdraw(order); string(again.Payload.JSON) != string(got.Payload.JSON) || !again.Earlier {
				t.Error("the repeat has another payload")
			}
			w.sellerMoves(got.Payload)
			w.recoverAll()
			if p := w.payment(got.Payment.ID); p.State != pay.Settled {
				t.Errorf("the payment is %s", p.State)
			}
			if again := w.mustWithdraw(order); again.Payment.ID != got.Payment.ID || again.Payload.JSON != nil {
				t.Errorf("after it moved, the repeat got %+v", again)
			}
			w.booksAreTheChain()
			w.checkBooks()
		})
	}
}

func TestWithdrawalsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	wallet := w.store.wallet()
	token := x402.DefaultNetworks()[0].Assets[0].Address
	for name, c := range map[string]struct {
		order treasury.Withdrawal
		field string
	}{
		"zero address": {treasury.Withdrawal{Wallet: wallet}, "to"},
		"token":        {treasury.Withdrawal{Wallet: wallet, To: token}, "to"},
		"itself":       {treasury.Withdrawal{Wallet: wallet, To: *wallet.Address}, "to"},
		"nothing":      {treasury.Withdrawal{Wallet: wallet, To: owner, Amount: some(0)}, "amount"},
		"too much":     {treasury.Withdrawal{Wallet: wallet, To: owner, Amount: some(1001)}, "amount"},
		"no such":      {treasury.Withdrawal{Wallet: pay.Wallet{ID: wallet.ID, KeyID: w.key.ID, Network: "base-sepolia", Address: wallet.Address}, To: owner}, "wallet"},
	} {
		if _, err := w.withdraw(c.order); inputField(err) != c.field {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := w.withdraw(treasury.Withdrawal{Wallet: pay.Wallet{KeyID: w.key.ID, Network: "base"}, To: owner}); !errors.Is(err, pay.ErrNoAddress) {
		t.Errorf("without an address: %v", err)
	}
	w.chain.rpc(true, false)
	if _, err := w.withdraw(w.order(nil)); err == nil || !strings.Contains(err.Error(), "give an amount") {
		t.Errorf("all, while the RPC is down: %v", err)
	}
	if n := len(w.store.payments()); n != 0 {
		t.Errorf("%d payments were journaled", n)
	}
	blind := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	if _, err := blind.withdraw(blind.order(nil)); !errors.Is(err, pay.ErrNoChain) {
		t.Errorf("all, without an RPC: %v", err)
	}
	if p := blind.mustWithdraw(blind.order(some(5))).Payment; p.State != pay.Settled {
		t.Errorf("an amount, without an RPC: %s", p.State)
	}
}

// No client can close a withdrawal by a receipt: no seller has it.
func TestWithdrawalsTakeNoReceipts(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 1000, nil)
	o := w.order(some(7))
	o.Sign = true
	p := w.mustWithdraw(o).Payment
	lie := x402.Receipt{Success: true, Network: "base", Transaction: "0x" + strings.Repeat("1", 64)}
	if _, err := w.payer.PostReceipt(context.Background(), w.key, p.ID, lie); !errors.Is(err, pay.ErrPaymentNotFound) {
		t.Errorf("got %v", err)
	}
	if w.payment(p.ID).State != pay.Open {
		t.Error("the receipt closed it")
	}
}
