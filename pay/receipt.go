package pay

import (
	"context"
	"errors"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// Receipt takes the seller's receipt that came back on a send of this payload. The outcome is
// written with the release of the lease, or soon if that takes long; the caller need not wait.
func (a *Attempt) Receipt(r x402.Receipt) {
	if a.row.State == Settled && a.row.Transaction != "" {
		return
	}
	failpoint.Here(failpoint.ReceiptSeen)
	a.recordSoon(a.payer.weigh(a.caller, a.row, receiptClaim(a.row, r)))
}

// Answer402 takes the reason that the seller gave for a 402 after the payload had been sent.
func (a *Attempt) Answer402(reason string) {
	a.recordSoon(a.payer.weigh(a.caller, a.row, refusalClaim(a.row, reason, a.how != Created)))
}

// Observe notes what was seen on a send. The notes are the payment's story.
func (a *Attempt) Observe(note string) { a.recordSoon(Outcome{Note: note}) }

// weigh asks the chain about a claim where its word can change what the claim means.
func (p *Payer) weigh(ctx context.Context, row *Payment, c claim) Outcome {
	if !c.asksChain() {
		return c.outcome(chainWord{})
	}
	if c.kind == claimRefused {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, refusalWait)
		defer cancel()
	}
	t, err := p.trace(ctx, row)
	switch {
	case errors.Is(err, errUnwatched):
		return c.outcome(chainWord{})
	case err != nil:
		p.log.WarnContext(ctx, "chain not asked about a claim", "payment", row.ID, "error", err)
		return c.outcome(chainWord{watched: true})
	}
	return c.outcome(chainWord{watched: true, trace: &t})
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
	o := p.weigh(ctx, row, receiptClaim(row, r))
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
