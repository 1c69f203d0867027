package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// cancellation returns the message that cancels the payment's authorization.
func cancellation(p *pay.Payment) x402.Cancellation {
	return x402.Cancellation{Authorizer: p.Authorization.From, Nonce: p.Authorization.Nonce}
}

// Cancel is an operator's order to cancel authorizations of a wallet.
type Cancel struct {
	Wallet    pay.Wallet // a deleted one, too
	PaymentID string     // "": all that may still move money
	// Sign: the signed cancellations are handed out, and no transaction is sent.
	Sign bool
	// MaxFee bounds the price of a unit of gas, and MaxCost the cost of each transaction, both in wei;
	// nil: no bound. Without both, the network's GasBound bounds the cost.
	MaxFee, MaxCost *money.Amount
}

// Cancellation says what became of the order for one payment.
type Cancellation struct {
	Payment *pay.Payment
	// Earlier: an earlier order had begun to cancel it.
	Earlier bool
	// Transaction is the hash of the transaction; "": none was sent.
	Transaction string
	// Mined is set once the transaction is in a block.
	Mined *MinedTransaction
	// Signature is that of the cancellation, if it was handed out.
	Signature *x402.Signature
	// Refused has the token's words if it would refuse the cancellation: the authorization is used or
	// canceled already.
	Refused string
	// Err says why nothing was sent, or what may not have been; nil: all is well.
	Err error
}

// Message returns the message that was signed.
func (c Cancellation) Message() x402.Cancellation { return cancellation(c.Payment) }

// CancelPlan says what an order would do.
type CancelPlan struct {
	Payments []*pay.Payment // whose authorizations would be canceled
	Expired  int            // payments that nothing can move any more, and the chain has not told so yet
	// Cost is that of all transactions; nil if none would be sent.
	Cost *TransactionCost
}

// TransactionCost says what transactions would cost.
type TransactionCost struct {
	Network x402.Network
	Count   int
	// MaxFee is the highest price of a unit of gas, in wei.
	MaxFee money.Amount
	// Each bounds the cost of one transaction, and Most that of all, in wei. Now is what all of them
	// cost at the present price.
	Each, Most, Now money.Amount
	Have            money.Amount // the wallet's
}

// cancelWork bounds the gas that the token takes for a cancellation, beside that of a bare transaction
// with as much data. USDC took 35,000.
const cancelWork = 60_000

// PlanCancel checks an order and tells what it would cost. Nothing is signed. Its errors are those of
// Cancel.
func (t Treasury) PlanCancel(ctx context.Context, o Cancel) (CancelPlan, error) {
	var plan CancelPlan
	var err error
	if plan.Payments, plan.Expired, err = t.toCancel(ctx, o); err != nil || o.Sign {
		return plan, err
	}
	b, err := t.broadcaster(ctx, o.Wallet)
	plan.Payments = slices.DeleteFunc(plan.Payments, (*pay.Payment).Canceled)
	if err != nil || len(plan.Payments) == 0 {
		return plan, err
	}
	// The call itself cannot be tried without its signature.
	bare := b.call(slices.Repeat([]byte{0xff}, len(x402.Cancellation{}.Call(x402.Signature{}))))
	bare.To = bare.From
	plan.Cost, err = b.cost(ctx, bare, cancelWork, len(plan.Payments))
	return plan, err
}

// cost tells what a number of transactions would cost, each of which takes some more gas than t.
func (b *broadcast) cost(ctx context.Context, t Transaction, more uint64, count int) (*TransactionCost, error) {
	gas, err := b.chain.EstimateGas(ctx, b.network, t)
	if err != nil {
		return nil, b.unanswered(err)
	}
	t.Gas, t.MaxFee = gas+more, b.fees.most()
	data, err := b.chain.DataFee(ctx, b.network, t)
	if err != nil {
		return nil, b.unanswered(err)
	}
	have, err := b.chain.AccountState(ctx, b.network, t.From)
	if err != nil {
		return nil, b.unanswered(err)
	}
	c := &TransactionCost{Network: b.network, Count: count, MaxFee: t.MaxFee, Each: costOf(t.Gas, t.MaxFee, data), Have: have.Coins}
	c.Most = c.Each.TimesSaturated(uint64(count))
	c.Now = b.fees.now().TimesSaturated(t.Gas).AddSaturated(data).TimesSaturated(uint64(count))
	return c, b.affords(have, c.Most)
}

// Cancel cancels authorizations on the chain, by one transaction of the wallet each. It works while
// payments are paused, and for deleted wallets and revoked keys. A transfer that reaches the chain
// first wins; the chain's word closes the payment in any case.
//
// An equal order goes on with an earlier one: it sends the same transaction again, unless the chain
// has it. If an error comes after something was sent, it is that of the payment.
//
// Errors: *InputError, ErrPaymentNotFound, *UncancelableError, ErrNoAddress, CodeNoChain,
// ErrNoTransactions, *RPCError, *GasError, *RejectedError, *SignerError, ErrUnavailable.
func (t Treasury) Cancel(ctx context.Context, o Cancel) ([]Cancellation, error) {
	leave, err := t.payer.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, _, err := t.toCancel(ctx, o)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if o.Sign {
		return t.signCancellations(ctx, o.Wallet, rows)
	}
	giveBack, err := t.payer.Turn(ctx, o.Wallet)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	b, err := t.broadcaster(ctx, o.Wallet)
	if err != nil {
		return nil, err
	}
	b.bound(o.MaxFee, o.MaxCost)
	list, err := b.cancelAll(ctx, rows)
	t.awaitCancellations(ctx, b, list)
	return list, err
}

// cancelAll sends one transaction after another, and waits for none. After an error nothing more is
// sent; one that comes first is returned.
func (b *broadcast) cancelAll(ctx context.Context, rows []*pay.Payment) (list []Cancellation, err error) {
	for _, row := range rows {
		c := Cancellation{Payment: row, Err: err}
		if err == nil {
			c = b.cancel(ctx, row)
		}
		if is[*pay.UncancelableError](c.Err) && len(rows) > 1 { // since the list was made
			continue
		}
		if err = c.Err; err != nil && len(list) == 0 {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// toCancel lists the payments that an order is for, oldest first, and counts those that have expired.
func (t Treasury) toCancel(ctx context.Context, o Cancel) (rows []*pay.Payment, expired int, err error) {
	if o.PaymentID != "" {
		row, err := t.Store.Payment(ctx, o.PaymentID)
		switch {
		case err != nil:
			return nil, 0, err
		case row.WalletID != o.Wallet.ID:
			return nil, 0, &pay.InputError{Field: "payment", Reason: "it draws from the wallet " + row.WalletID}
		case row.Canceled(): // this order has been carried out
			return []*pay.Payment{row}, 0, nil
		}
		return []*pay.Payment{row}, 0, row.Cancelable(t.Clock())
	}
	all, err := t.Authorizations(ctx, o.Wallet.ID)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range slices.Backward(all) {
		switch {
		case row.Cancelable(t.Clock()) == nil:
			rows = append(rows, row)
		case row.State != pay.Settled:
			expired++
		}
	}
	return rows, expired, nil
}

// cancel sends the transaction that cancels the authorization of one payment.
func (b *broadcast) cancel(ctx context.Context, row *pay.Payment) (c Cancellation) {
	c = Cancellation{Payment: row, Earlier: row.Canceling != nil}
	if row.Canceled() {
		return c
	}
	if c.Payment, c.Err = b.treasury.keepCanceling(ctx, row, pay.Canceling{}); c.Err != nil {
		return c
	}
	t, err := b.cancelingCall(ctx, c.Payment)
	if err != nil {
		c.Err = err
		return c
	}
	t.TransactionTerms = c.Payment.Canceling.Terms
	c.Transaction, c.Mined, err = b.send(ctx, t, func(terms pay.TransactionTerms) error {
		kept, err := b.treasury.keepCanceling(ctx, c.Payment, pay.Canceling{Terms: terms})
		if err == nil {
			c.Payment = kept
		}
		return err
	})
	if refusal, is := errors.AsType[*RevertError](err); is {
		c.Refused = refusal.Reason
		return c
	}
	if c.Err = err; err == nil {
		b.treasury.noteCanceling(ctx, row.ID, c.Transaction)
	}
	return c
}

// cancelingCall is the call that cancels the authorization of a payment. Permit2 has its owner's word in
// the sender, and the token in a signature.
func (b *broadcast) cancelingCall(ctx context.Context, row *pay.Payment) (Transaction, error) {
	if row.Authorization.Rail.Permit2() {
		t := b.call(row.Authorization.GiveUpCall())
		t.To = x402.Permit2
		return t, nil
	}
	signature, err := b.treasury.signCancellation(ctx, b.wallet, row)
	return b.call(cancellation(row).Call(signature)), err
}

// keepCanceling journals that a payment is being canceled. Words of an earlier order stay.
func (t Treasury) keepCanceling(ctx context.Context, row *pay.Payment, c pay.Canceling) (*pay.Payment, error) {
	if was := row.Canceling; was != nil {
		c.At, c.HandedOut = was.At, c.HandedOut || was.HandedOut
		if c.Terms.Gas == 0 {
			c.Terms = was.Terms
		}
		if c == *was {
			return row, nil
		}
	} else {
		c.At = t.Clock().UTC()
	}
	write, cancel := detached(ctx)
	defer cancel()
	kept, _, err := t.Store.Record(write, pay.Outcome{PaymentID: row.ID, At: t.Clock().UTC(), Canceling: &c})
	if errors.Is(err, pay.ErrQueued) { // it may be lost, so nothing may be signed
		err = pay.ErrUnavailable
	}
	if err != nil {
		return nil, fmt.Errorf("journaling a cancellation: %w", err)
	}
	failpoint.Here(failpoint.CancelingKept)
	return kept, nil
}

// noteCanceling adds a transaction to a payment's story, once.
func (t Treasury) noteCanceling(ctx context.Context, id, transaction string) {
	text := "transaction " + transaction + " cancels its authorization"
	row, err := t.Store.Payment(ctx, id)
	if err == nil && !slices.ContainsFunc(row.Notes, func(n pay.Note) bool { return n.Text == text }) {
		err = t.payer.Note(ctx, row, text)
	}
	if err != nil {
		t.Logger.WarnContext(ctx, "cancellation not noted", "payment", id, "transaction", transaction, "error", err)
	}
}

func (t Treasury) signCancellation(ctx context.Context, w pay.Wallet, row *pay.Payment) (x402.Signature, error) {
	n, asset, err := row.Asset()
	if err != nil {
		return x402.Signature{}, err
	}
	c := cancellation(row)
	return pay.SignMessage(ctx, t.Wallets, w, pay.Message{
		From: c.Authorizer, Digest: c.Digest(asset, n.ChainID),
		TypedData: func() x402.TypedData { return c.TypedData(asset, n.ChainID) },
	})
}

// signCancellations hands out signed cancellations.
func (t Treasury) signCancellations(ctx context.Context, w pay.Wallet, rows []*pay.Payment) (list []Cancellation, err error) {
	if err := t.provides(w); err != nil {
		return nil, err
	}
	for _, row := range rows {
		c := Cancellation{Payment: row, Earlier: row.Canceling != nil}
		if row.Authorization.Rail.Permit2() && !row.Canceled() {
			c.Err = &pay.UncancelableError{Payment: row.ID, Reason: "Permit2 takes that from the wallet only, by a transaction"}
			if len(rows) == 1 {
				return nil, c.Err
			}
		} else if !row.Canceled() {
			if c.Payment, err = t.keepCanceling(ctx, row, pay.Canceling{HandedOut: true}); err != nil {
				return nil, err
			}
			signature, err := t.signCancellation(ctx, w, row)
			if err != nil {
				return nil, err
			}
			c.Signature = &signature
		}
		list = append(list, c)
	}
	return list, nil
}

// awaitCancellations waits for the blocks of the transactions, and has recovery look at the payments.
func (t Treasury) awaitCancellations(ctx context.Context, b *broadcast, list []Cancellation) {
	until := time.Now().Add(minedWait)
	for i := range list {
		c := &list[i]
		if c.Transaction != "" && c.Mined == nil {
			var err error
			if c.Mined, err = b.await(ctx, c.Transaction, until); err != nil {
				t.Logger.WarnContext(ctx, "transaction not looked for", "transaction", c.Transaction, "error", err)
			}
		}
		if c.Err != nil || c.Transaction != "" && c.Mined == nil || c.Payment.Canceled() {
			continue
		}
		// A send that has the payment keeps its lease. Then recovery comes later, by itself.
		if err := t.payer.Look(ctx, c.Payment.ID); err != nil && !errors.Is(err, pay.ErrLeaseHeld) {
			t.Logger.WarnContext(ctx, "canceled payment not looked at", "payment", c.Payment.ID, "error", err)
		}
		if row, err := t.Store.Payment(ctx, c.Payment.ID); err == nil {
			c.Payment = row
		}
		if c.Mined != nil && !c.Mined.OK && c.Payment.Cancelable(t.Clock()) == nil {
			c.Err = &RevertError{Reason: "transaction " + c.Transaction + " has failed"}
		}
	}
}
