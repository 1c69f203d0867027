package treasury

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// AllowanceOrder is an operator's order to let Permit2 move tokens of a wallet, up to an amount in all. It
// replaces what Permit2 may move by now; 0 takes that away.
type AllowanceOrder struct {
	Wallet pay.Wallet
	Amount money.Amount
	// MaxFee and MaxCost bound the price, as those of Cancel.
	MaxFee, MaxCost *money.Amount
}

// AllowancePlan says what an order would do.
type AllowancePlan struct {
	Asset x402.Asset
	Have  money.Amount // that Permit2 may move now
	// Cost is nil if nothing needs to be sent.
	Cost *TransactionCost
}

// AllowanceChange says what became of an order.
type AllowanceChange struct {
	Asset x402.Asset
	// Was and Have are the amounts that Permit2 could move before, and can move now.
	Was, Have money.Amount
	// Transaction is the hash of the transaction; "": none was needed.
	Transaction string
	// Mined is set once the transaction is in a block.
	Mined *MinedTransaction
}

// allowSlack is the gas by which an order may exceed its estimate.
const allowSlack = 20_000

// allower checks an order, and whether its transaction can be sent.
func (t Treasury) allower(ctx context.Context, o AllowanceOrder) (*broadcast, pay.Allowances, error) {
	// Many programs approve the largest number there is.
	if o.Amount.Cmp(pay.MaxAmount()) >= 0 {
		return nil, nil, &pay.InputError{Field: "amount", Reason: "purser approves no unlimited amount"}
	}
	b, err := t.broadcaster(ctx, o.Wallet)
	if err != nil {
		return nil, nil, err
	}
	chain, can := t.Chain.(pay.Allowances)
	if !can {
		return nil, nil, t.noRPC(b.network)
	}
	b.bound(o.MaxFee, o.MaxCost)
	return b, chain, nil
}

// permitted reads what Permit2 may move, and whether transactions of the wallet wait that may change it.
func (b *broadcast) permitted(ctx context.Context, chain pay.Allowances) (have money.Amount, waits bool, err error) {
	account, err := b.chain.AccountState(ctx, b.network, *b.wallet.Address)
	if err == nil {
		have, err = chain.Allowance(ctx, b.network, b.asset, *b.wallet.Address, x402.Permit2)
	}
	if err != nil {
		return have, false, b.unanswered(err)
	}
	return have, account.Sent > account.Mined, nil
}

// PlanAllowance checks an order and tells what it would cost. Nothing is signed. Its errors are those of
// Allow.
func (t Treasury) PlanAllowance(ctx context.Context, o AllowanceOrder) (AllowancePlan, error) {
	b, chain, err := t.allower(ctx, o)
	if err != nil {
		return AllowancePlan{}, err
	}
	plan := AllowancePlan{Asset: b.asset}
	var waits bool
	if plan.Have, waits, err = b.permitted(ctx, chain); err != nil || plan.Have == o.Amount && !waits {
		return plan, err
	}
	plan.Cost, err = b.cost(ctx, b.call(x402.ApproveCall(x402.Permit2, o.Amount)), allowSlack, 1)
	return plan, err
}

// Allow lets Permit2 move tokens of a wallet, by a transaction of the wallet. An equal order whose
// transaction waits for a block sends the same one again. If Permit2 may move that amount already, nothing
// is sent.
//
// Errors: *InputError, ErrNoAddress, CodeNoChain, ErrNoTransactions, *RPCError, *GasError, *RejectedError,
// *RevertError, *SignerError, ErrUnavailable.
func (t Treasury) Allow(ctx context.Context, o AllowanceOrder) (AllowanceChange, error) {
	leave, err := t.payer.Enter()
	if err != nil {
		return AllowanceChange{}, err
	}
	defer leave()
	giveBack, err := t.payer.Turn(ctx, o.Wallet)
	if err != nil {
		return AllowanceChange{}, err
	}
	defer giveBack()
	b, chain, err := t.allower(ctx, o)
	if err != nil {
		return AllowanceChange{}, err
	}
	if b.wallet, err = t.Store.Wallet(ctx, o.Wallet.ID); err != nil {
		return AllowanceChange{}, err
	}
	done := AllowanceChange{Asset: b.asset}
	var waits bool
	if done.Was, waits, err = b.permitted(ctx, chain); err != nil {
		return AllowanceChange{}, err
	}
	if done.Have = done.Was; done.Was == o.Amount && !waits {
		return done, nil
	}
	if err := b.allow(ctx, o.Amount, &done); err != nil {
		return AllowanceChange{}, err
	}
	if done.Have, _, err = b.permitted(ctx, chain); err != nil {
		t.Logger.WarnContext(ctx, "allowance not known", "wallet", b.wallet.ID, "error", err)
	}
	return done, nil
}

// allow sends the transaction of an order, and waits for its block.
func (b *broadcast) allow(ctx context.Context, amount money.Amount, done *AllowanceChange) error {
	t := b.call(x402.ApproveCall(x402.Permit2, amount))
	// Terms whose transaction is in a block belong to an order that was carried out.
	if was := b.wallet.Approving; was != nil && was.Amount == amount {
		t.TransactionTerms = was.Terms
		if _, mined, err := b.look(ctx, &t); err != nil {
			return err
		} else if mined != nil {
			t.TransactionTerms = pay.TransactionTerms{}
		}
	}
	keep := func(terms pay.TransactionTerms) error {
		write, cancel := detached(ctx)
		defer cancel()
		kept, err := b.treasury.Store.KeepApproving(write, b.wallet.ID, pay.Approving{At: b.treasury.Clock().UTC(), Amount: amount, Terms: terms})
		if err != nil {
			return fmt.Errorf("journaling an approval: %w", err)
		}
		b.wallet = kept
		failpoint.Here(failpoint.ApprovingKept)
		return nil
	}
	var err error
	if done.Transaction, done.Mined, err = b.send(ctx, t, keep); err != nil || done.Mined != nil {
		return err
	}
	if done.Mined, err = b.await(ctx, done.Transaction, time.Now().Add(minedWait)); err != nil {
		b.treasury.Logger.WarnContext(ctx, "transaction not looked for", "transaction", done.Transaction, "error", err)
	}
	if done.Mined != nil && !done.Mined.OK {
		return &RevertError{Reason: "transaction " + done.Transaction + " has failed"}
	}
	return nil
}
