package pay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// holdPrefix begins the names of the counters of wallets' open amounts.
const holdPrefix = "hold/"

// Reserves reports whether a part of the wallet's balance is kept for the payment: its authorization
// may still move the money, or it is not known yet that it has not.
func (p *Payment) Reserves() bool {
	return slices.ContainsFunc(p.Reservations, func(r Reservation) bool {
		return !r.Released && strings.HasPrefix(string(r.Counter), holdPrefix)
	})
}

// Authorizations lists the payments that a part of a wallet's balance is kept for, newest first.
func (p *Payer) Authorizations(ctx context.Context, walletID string) ([]*Payment, error) {
	var list []*Payment
	// A payment that is not open is doubted or claimed until a safe block past its validity tells of it.
	oldest := p.now().Add(-24 * time.Hour)
	for _, q := range []LabelQuery{
		{Label: string(Open), Without: []string{"unresolved"}}, {Label: "unresolved"}, {Label: string(Void)}, {Label: string(Settled), Without: []string{"confirmed", "disputed"}},
	} {
		for q.Limit = openPage; ; {
			page, err := p.store.AllPayments(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("listing the payments of a wallet: %w", err)
			}
			over := len(page) < q.Limit
			for _, row := range page {
				if q.Label != string(Open) && row.Created.Before(oldest) {
					over = true
					break
				}
				if row.WalletID == walletID && row.Reserves() {
					list = append(list, row)
				}
			}
			if over {
				break
			}
			q.Before = page[len(page)-1].ID
		}
	}
	slices.SortFunc(list, func(a, b *Payment) int { return strings.Compare(b.ID, a.ID) })
	return list, nil
}

// WithdrawalPlan says what a withdrawal would do.
type WithdrawalPlan struct {
	Holdings
	// Amount is in the smallest unit of the asset.
	Amount x402.Amount
	// Signs: the signed transfer would be handed out instead of sent.
	Signs bool
	// Valid is the time for which the transfer could be used.
	Valid time.Duration
	// Repeats is the earlier withdrawal that the order gets; nil: a new one would be made.
	Repeats *Payment
}

// PlanWithdrawal checks a withdrawal like Withdraw, and makes none. Its errors are those of Withdraw.
// What changes meanwhile changes the withdrawal.
func (p *Payer) PlanWithdrawal(ctx context.Context, w Withdrawal) (WithdrawalPlan, error) {
	c, err := p.withdrawalChoice(&w)
	if err != nil {
		return WithdrawalPlan{}, err
	}
	plan := WithdrawalPlan{Signs: p.signsOnly(w), Valid: c.validity}
	if plan.Holdings, err = p.Holdings(ctx, w.Wallet); err != nil {
		return WithdrawalPlan{}, err
	}
	var declined error
	plan.Amount, declined = plan.withdrawable(&w)
	if plan.Repeats, err = p.earlierWithdrawal(ctx, w, w.Again || w.Amount == nil && declined == nil); err != nil {
		return WithdrawalPlan{}, err
	}
	switch {
	case plan.Repeats != nil:
		plan.Amount = plan.Repeats.Terms.Amount
	case declined != nil:
		return WithdrawalPlan{}, declined
	}
	return plan, nil
}

// maxEarlier bounds the payments of a key that are looked through for an earlier withdrawal.
const maxEarlier = 1000

// earlierWithdrawal finds the withdrawal that an equal order gets; nil: none. It is for people: the
// journal decides.
func (p *Payer) earlierWithdrawal(ctx context.Context, w Withdrawal, anew bool) (*Payment, error) {
	rows, err := p.store.Payments(ctx, PaymentQuery{KeyID: w.Wallet.KeyID, Limit: maxEarlier})
	if err != nil {
		return nil, fmt.Errorf("listing the payments of a wallet: %w", err)
	}
	for _, row := range rows {
		if row.Withdraws() && row.Identity == w.identity() && row.Awaited() && p.now().Before(row.AwaitedUntil()) && (row.State != Settled || !anew) {
			return row, nil
		}
	}
	return nil, nil
}
