package treasury

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Withdrawal is an operator's order to move money out of a wallet.
type Withdrawal struct {
	Wallet pay.Wallet // a deleted one can be emptied, too
	To     x402.Address
	// Amount is in the smallest unit of the network's asset; nil: all that is not reserved.
	Amount *money.Amount
	// Again: an earlier withdrawal of the same amount to the same address that has settled is
	// another one. If it may not have moved its money yet, it is driven on all the same.
	Again bool
	// Sign: the signed transfer is handed out, and no facilitator is asked.
	Sign bool
}

// SendsWithdrawals reports whether purser sends a withdrawal from a network itself, or has a facilitator that does. Without one, it
// hands out the signed transfer.
func (t Treasury) SendsWithdrawals(network string) bool {
	n, _ := t.Network(network)
	return t.Facilitator != nil || n.Rail != 0
}

// Withdraw moves money out of a wallet: see [pay.Payer.Withdraw].
func (t Treasury) Withdraw(ctx context.Context, w Withdrawal) (pay.Withdrawn, error) {
	o, err := t.order(w)
	if err != nil {
		return pay.Withdrawn{}, err
	}
	return t.payer.Withdraw(ctx, o)
}

// WithdrawalPlan says what a withdrawal would do.
type WithdrawalPlan struct {
	pay.Holdings
	// Amount is in the smallest unit of the asset.
	Amount money.Amount
	// Signs: the signed transfer would be handed out instead of sent.
	Signs bool
	// Valid is the time for which the transfer could be used.
	Valid time.Duration
	// Repeats is the earlier withdrawal that the order gets; nil: a new one would be made.
	Repeats *pay.Payment
}

// PlanWithdrawal has the journal decide on a withdrawal, and makes none. Its errors are those of Withdraw.
// The order decides again, because things may have changed.
func (t Treasury) PlanWithdrawal(ctx context.Context, w Withdrawal) (WithdrawalPlan, error) {
	o, err := t.order(w)
	if err != nil {
		return WithdrawalPlan{}, err
	}
	plan := WithdrawalPlan{Signs: w.Sign || !t.SendsWithdrawals(w.Wallet.Network), Valid: pay.MaxValidity}
	o.Draw = func(h pay.Holdings) (money.Amount, error) {
		plan.Holdings = h
		return w.draw(h)
	}
	q, err := t.payer.QuoteWithdrawal(ctx, o)
	if err != nil {
		return WithdrawalPlan{}, err
	}
	plan.Amount, plan.Repeats = q.Terms.Amount, q.Earlier
	if plan.Repeats != nil {
		plan.Amount = plan.Repeats.Terms.Amount
	}
	return plan, nil
}

// order checks what is wrong with a withdrawal whatever the wallet holds.
func (t Treasury) order(w Withdrawal) (pay.Order, error) {
	n, ok := t.Network(w.Wallet.Network)
	if !ok {
		return pay.Order{}, &pay.InputError{Field: "wallet", Reason: "its network " + w.Wallet.Network + " is not configured"}
	}
	bad := func(reason string) (pay.Order, error) {
		return pay.Order{}, &pay.InputError{Field: "to", Reason: reason}
	}
	switch {
	case w.Wallet.Address == nil:
		return pay.Order{}, pay.ErrNoAddress
	case w.To.IsZero():
		return bad("the zero address has no owner: what is sent there is lost")
	case slices.ContainsFunc(n.Assets, func(a x402.Asset) bool { return w.To == a.Address }):
		return bad("that is the token's contract: what is sent there is lost")
	case w.To == *w.Wallet.Address:
		return bad("that is the wallet's own address")
	case w.Amount != nil && w.Amount.IsZero():
		return pay.Order{}, &pay.InputError{Field: "amount", Reason: "0 moves nothing"}
	case w.Amount != nil && w.Amount.Cmp(pay.MaxAmount()) > 0:
		return pay.Order{}, &pay.InputError{Field: "amount", Reason: "no token has that much"}
	}
	return pay.Order{Wallet: w.Wallet, To: w.To, Amount: w.Amount, Again: w.Again, Sign: w.Sign, Draw: w.draw}, nil
}

// draw returns the amount of a withdrawal. Without a known balance, a given amount is taken
// as it is: the token refuses what the wallet does not have.
func (w Withdrawal) draw(h pay.Holdings) (money.Amount, error) {
	free, known := h.Free()
	switch {
	case !known && w.Amount == nil:
		return free, fmt.Errorf("all of it is not known, so give an amount: %w", h.Unknown)
	case !known:
		return *w.Amount, nil
	case w.Amount == nil && free.IsZero():
		return free, &pay.InputError{Field: "amount", Reason: "nothing is left to withdraw: " + text(h)}
	case w.Amount == nil:
		return free, nil
	case w.Amount.Cmp(free) > 0:
		return *w.Amount, &pay.InputError{Field: "amount", Reason: fmt.Sprintf("%s is more than can be withdrawn: %s", written(h, *w.Amount), text(h))}
	}
	return *w.Amount, nil
}

func written(h pay.Holdings, a money.Amount) string {
	return a.Format(h.Asset.Decimals) + " " + h.Asset.Symbol
}

// text says what the wallet holds.
func text(h pay.Holdings) string {
	text := "the wallet holds " + written(h, *h.Balance)
	if !h.Reserved.IsZero() {
		text += ", and " + written(h, h.Reserved) + " of it is reserved for open payments"
	}
	return text
}
