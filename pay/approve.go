package pay

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// Approving holds the last order by which an operator lets Permit2 move tokens of a wallet. It is journaled
// before the transaction is signed.
type Approving struct {
	At     time.Time   `json:"At"`
	Amount x402.Amount `json:"Amount"` // that Permit2 may move in all
	// Terms belong to the transaction of the order.
	Terms TransactionTerms `json:"Terms"`
}

// AllowanceOrder is an operator's order to let Permit2 move tokens of a wallet, up to an amount in all. It
// replaces what Permit2 may move by now; 0 takes that away.
type AllowanceOrder struct {
	Wallet Wallet
	Amount x402.Amount
	// MaxFee and MaxCost bound the price, as those of Cancel.
	MaxFee, MaxCost *x402.Amount
}

// AllowancePlan says what an order would do.
type AllowancePlan struct {
	Asset x402.Asset
	Have  x402.Amount // that Permit2 may move now
	// Cost is nil if nothing needs to be sent.
	Cost *TransactionCost
}

// AllowanceChange says what became of an order.
type AllowanceChange struct {
	Asset x402.Asset
	// Was and Have are the amounts that Permit2 could move before, and can move now.
	Was, Have x402.Amount
	// Transaction is the hash of the transaction; "": none was needed.
	Transaction string
	// Mined is set once the transaction is in a block.
	Mined *MinedTransaction
}

// approveSlack is the gas by which an approval may exceed its estimate.
const approveSlack = 20_000

// approver checks an order, and whether its transaction can be sent.
func (p *Payer) approver(ctx context.Context, o AllowanceOrder) (*broadcast, Allowances, error) {
	// Many programs approve the largest number there is.
	if o.Amount.Cmp(maxAmount) >= 0 {
		return nil, nil, &InputError{Field: "amount", Reason: "purser approves no unlimited amount"}
	}
	b, err := p.broadcaster(ctx, o.Wallet)
	if err != nil {
		return nil, nil, err
	}
	chain, can := p.opts.Chain.(Allowances)
	if !can {
		return nil, nil, p.noRPC(b.network)
	}
	b.bound(o.MaxFee, o.MaxCost)
	return b, chain, nil
}

// permitted reads what Permit2 may move, and whether transactions of the wallet wait that may change it.
func (b *broadcast) permitted(ctx context.Context, chain Allowances) (have x402.Amount, waits bool, err error) {
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
// Approve.
func (p *Payer) PlanAllowance(ctx context.Context, o AllowanceOrder) (AllowancePlan, error) {
	b, chain, err := p.approver(ctx, o)
	if err != nil {
		return AllowancePlan{}, err
	}
	plan := AllowancePlan{Asset: b.asset}
	var waits bool
	if plan.Have, waits, err = b.permitted(ctx, chain); err != nil || plan.Have == o.Amount && !waits {
		return plan, err
	}
	plan.Cost, err = b.cost(ctx, b.call(x402.ApproveCall(x402.Permit2, o.Amount)), approveSlack, 1)
	return plan, err
}

// Approve lets Permit2 move tokens of a wallet, by a transaction of the wallet. An equal order whose
// transaction waits for a block sends the same one again. If Permit2 may move that amount already, nothing
// is sent.
//
// Errors: *InputError, ErrNoAddress, CodeNoChain, ErrNoTransactions, *RPCError, *GasError, *RejectedError,
// *RevertError, *SignerError, ErrUnavailable.
func (p *Payer) Approve(ctx context.Context, o AllowanceOrder) (AllowanceChange, error) {
	if err := p.enter(); err != nil {
		return AllowanceChange{}, err
	}
	defer p.background.Done()
	if o.Wallet.Address == nil {
		return AllowanceChange{}, ErrNoAddress
	}
	giveBack, err := p.senders.take(ctx, *o.Wallet.Address)
	if err != nil {
		return AllowanceChange{}, err
	}
	defer giveBack()
	b, chain, err := p.approver(ctx, o)
	if err != nil {
		return AllowanceChange{}, err
	}
	if b.wallet, err = p.store.Wallet(ctx, o.Wallet.ID); err != nil {
		return AllowanceChange{}, err
	}
	defer p.balances.forget(choice{asset: b.asset, wallet: b.wallet}.allowanceKey())
	done := AllowanceChange{Asset: b.asset}
	var waits bool
	if done.Was, waits, err = b.permitted(ctx, chain); err != nil {
		return AllowanceChange{}, err
	}
	if done.Have = done.Was; done.Was == o.Amount && !waits {
		return done, nil
	}
	if err := b.approve(ctx, o.Amount, &done); err != nil {
		return AllowanceChange{}, err
	}
	if done.Have, _, err = b.permitted(ctx, chain); err != nil {
		p.log.WarnContext(ctx, "allowance not known", "wallet", b.wallet.ID, "error", err)
	}
	return done, nil
}

// approve sends the transaction of an order, and waits for its block.
func (b *broadcast) approve(ctx context.Context, amount x402.Amount, done *AllowanceChange) error {
	t := b.call(x402.ApproveCall(x402.Permit2, amount))
	// Terms whose transaction is in a block belong to an order that was carried out.
	if was := b.wallet.Approving; was != nil && was.Amount == amount {
		t.TransactionTerms = was.Terms
		if _, mined, err := b.look(ctx, &t); err != nil {
			return err
		} else if mined != nil {
			t.TransactionTerms = TransactionTerms{}
		}
	}
	keep := func(terms TransactionTerms) error {
		write, cancel := detached(ctx)
		defer cancel()
		kept, err := b.payer.store.KeepApproving(write, b.wallet.ID, Approving{At: b.payer.now().UTC(), Amount: amount, Terms: terms})
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
		b.payer.log.WarnContext(ctx, "transaction not looked for", "transaction", done.Transaction, "error", err)
	}
	if done.Mined != nil && !done.Mined.OK {
		return &RevertError{Reason: "transaction " + done.Transaction + " has failed"}
	}
	return nil
}
