package pay

import (
	"context"
	"errors"
	"strings"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// Receipt takes the seller's receipt that came back on a send of this attempt's payload.
// It settles the payment when it fits; anything else is noted (DESIGN §3, evidence). The
// outcome is written with the release of the lease or soon, if that takes long; the
// caller need not wait for it.
func (a *Attempt) Receipt(r x402.Receipt) {
	if a.row.State == Settled && a.row.Transaction != "" {
		return
	}
	failpoint.Here(failpoint.ReceiptSeen)
	a.recordSoon(a.payer.receiptOutcome(a.caller, a.row, r))
}

// Answer402 takes the reason that the seller gave for a 402 after the payload had been
// sent. Only a used authorization means anything for the money. Some sellers do not name
// it, so a payload that was sent before is looked up on the chain, if there is an RPC.
func (a *Attempt) Answer402(reason string) {
	o := Outcome{Note: "seller answered 402: " + reason}
	if a.row.State == Open && (UsedReason(reason) || a.how != Created && a.payer.watches(a.row.Terms.Network)) {
		used := a.payer.usedOutcome(a.caller, a.row, reason)
		if used.Verdict != Unclear || UsedReason(reason) {
			o = used
		}
	}
	a.recordSoon(o)
}

// Observe notes what was seen on a send, for whoever reads the payment's story.
func (a *Attempt) Observe(note string) { a.recordSoon(Outcome{Note: note}) }

// receiptOutcome judges a receipt for a payment.
func (p *Payer) receiptOutcome(ctx context.Context, row *Payment, r x402.Receipt) Outcome {
	if !r.Success {
		if row.State == Open && UsedReason(r.ErrorReason) {
			return p.usedOutcome(ctx, row, r.ErrorReason)
		}
		return Outcome{Note: "receipt says failure: " + r.ErrorReason}
	}
	if why := misfit(row, r); why != "" {
		return Outcome{Note: "receipt does not fit: " + why}
	}
	return Outcome{Verdict: VerdictSettled, Transaction: strings.ToLower(r.Transaction), ClaimedTransaction: true}
}

// misfit says why a successful receipt is no evidence for a payment, or "".
func misfit(row *Payment, r x402.Receipt) string {
	switch {
	case !x402.SameNetwork(r.Network, row.Terms.Network):
		return "network " + truncate(r.Network, 40)
	case r.Payer != "" && !strings.EqualFold(r.Payer, row.Authorization.From.String()):
		return "payer " + truncate(r.Payer, 60)
	case r.Amount != nil && r.Amount.Cmp(row.Terms.Amount) != 0:
		return "amount " + r.Amount.String()
	case !x402.ValidTransaction(r.Transaction):
		return "transaction " + truncate(r.Transaction, 80)
	}
	return ""
}

// usedOutcome judges the words that an authorization is used already. They are never a
// refusal: with an RPC the log decides, without one the money is taken to have moved.
func (p *Payer) usedOutcome(ctx context.Context, row *Payment, word string) Outcome {
	note := "authorization said to be used: " + word
	t, err := p.trace(ctx, row)
	switch {
	case errors.Is(err, errUnwatched):
		return Outcome{Verdict: VerdictSettled, Note: note}
	case err != nil:
		p.log.WarnContext(ctx, "chain not asked about a used authorization", "payment", row.ID, "error", err)
		return Outcome{Note: note}
	case t.Used:
		return Outcome{Verdict: VerdictSettled, Transaction: t.Transaction, Note: note}
	case t.Canceled && t.SafeLogs:
		return Outcome{Verdict: VerdictVoid, Reason: "authorization canceled on chain", Note: note}
	}
	return Outcome{Note: note}
}

// PostReceipt takes a receipt that the payment's key posted. ErrPaymentNotFound.
func (p *Payer) PostReceipt(ctx context.Context, k Key, id string, r x402.Receipt) (*Payment, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.background.Done()
	row, err := p.Payment(ctx, k, id)
	if err != nil {
		return nil, err
	}
	// The lease is not needed: a posted receipt can only settle. A void for a used
	// authorization that was canceled is left to recovery, which leases.
	o := p.receiptOutcome(ctx, row, r)
	if o.Verdict == VerdictVoid {
		o = Outcome{Note: o.Note}
	}
	o.PaymentID, o.At = row.ID, p.now().UTC()
	// A failure proves nothing about the money: the repeat must still get this payment.
	o.Receipted = r.Success
	if row.Retired {
		return row, nil
	}
	failpoint.Here(failpoint.ReceiptPosted)
	written, err := p.record(ctx, row, o)
	failpoint.Here(failpoint.ReceiptRecorded)
	if err != nil && o.Verdict == VerdictSettled {
		o.Verdict, o.Transaction, o.EventID = Unclear, "", ""
		o.Note = "receipt not accepted: " + err.Error()
		written, err = p.record(ctx, row, o)
	}
	return written, err
}
