package pay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Receipt takes the seller's receipt that came back on a send of this payload. The outcome is
// written with the release of the lease, or soon if that takes long; the caller need not wait.
func (a *Attempt) Receipt(r x402.Receipt) {
	signed, known := a.payer.signedReceipt(a.caller, a.row, r), a.row.State == Settled && a.row.Transaction != ""
	if known && (signed == nil || a.row.SignedReceipt != nil) {
		return
	}
	failpoint.Here(failpoint.ReceiptSeen)
	var o Outcome
	if !known {
		o = a.payer.weigh(a.caller, a.row, receiptClaim(a.row, r))
	}
	o.SignedReceipt, o.Check, o.SellerSaid = signed, a.payer.chargedCheck(a.row, r), saidIn(r)
	a.recordSoon(o)
}

// receiptSlack bounds the difference of clocks that the time in a signed receipt may show.
const receiptSlack = 5 * time.Minute

// signedReceipt returns the seller's signed receipt, if it is one for the payment. Another one is
// logged, and changes nothing: the money has moved, and the caller has an answer.
func (p *Payer) signedReceipt(ctx context.Context, row *Payment, r x402.Receipt) json.RawMessage {
	if !r.Signed() {
		return nil
	}
	var pol policy.Policy
	if k, err := p.store.Key(ctx, row.KeyID); err == nil { // else only the payee's counts
		pol = p.PolicyOf(k, row.Door)
	}
	signed, err := r.SignedReceipt(x402.ReceiptTerms{
		Network: row.Terms.Network, Payer: row.Authorization.From, Payee: row.Terms.PayTo, Signers: pol.OfferSigners,
		Resources: []string{row.Offer.ResourceURL(), row.RequestURL},
		NotBefore: row.Created.Add(-receiptSlack), NotAfter: p.now().Add(receiptSlack),
	})
	if err != nil {
		p.log.WarnContext(ctx, "signed receipt not kept", "payment", row.ID, "host", row.Host, "error", err)
		return nil
	}
	return signed
}

// uptoCheck is the time from a receipt for a metered payment to the look at what was charged.
const uptoCheck = 2 * time.Second

// maxUptoChecks bounds the looks of recovery that receipts bring forward. Clients and sellers decide how
// many receipts there are.
const maxUptoChecks = 3

// chargedCheck returns when recovery looks at a payment whose receipt is no evidence; zero: as planned,
// which a receipt never puts off.
func (p *Payer) chargedCheck(row *Payment, r x402.Receipt) time.Time {
	at := p.now().UTC().Add(uptoCheck)
	if !r.Success || !row.metered() || row.State != Open || row.Checks >= maxUptoChecks || !row.Check.IsZero() && !at.Before(row.Check) {
		return time.Time{}
	}
	return at
}

// Answer402 takes the reason that the seller gave for a 402 after the payload had been sent.
func (a *Attempt) Answer402(reason string) {
	a.refused(reason, refusalClaim(a.row, reason, a.how != Created))
}

// AnswerUsed takes the reason of an answer that says by its status that the payload was used, such as 403 and 409 of
// MPP.
func (a *Attempt) AnswerUsed(reason string) {
	c := refusalClaim(a.row, reason, true)
	if a.row.State == Open {
		c = usedClaim(reason, nil)
	}
	a.refused(reason, c)
}

func (a *Attempt) refused(reason string, c claim) {
	o := a.payer.weigh(a.caller, a.row, c)
	o.SellerSaid = reason
	a.recordSoon(o)
}

// Hear keeps what the seller said against the payload. It is for people, and no evidence.
func (a *Attempt) Hear(said string) { a.recordSoon(Outcome{SellerSaid: said}) }

// Observe notes what was seen on a send. The notes are the payment's story.
func (a *Attempt) Observe(note string) { a.recordSoon(Outcome{Note: note}) }

// weigh asks the chain about a claim where its word can change what the claim means. Where it cannot be
// asked, recovery looks later.
func (p *Payer) weigh(ctx context.Context, row *Payment, c claim) Outcome {
	o, _ := p.weighed(ctx, row, c)
	return o
}

// weighed is weigh, with a *QuestionsError if the payment's key has had the chain asked too often.
func (p *Payer) weighed(ctx context.Context, row *Payment, c claim) (Outcome, error) {
	if !c.asksChain() {
		return c.outcome(chainWord{}), nil
	}
	look := p.traceSoon
	if c.kind == claimRefused || c.kind == claimCharged { // of our facilitator, which was asked to settle it
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, refusalWait)
		defer cancel()
		look = p.trace
	}
	t, err := look(ctx, row)
	switch {
	case errors.Is(err, ErrUnwatched):
		return c.outcome(chainWord{}), nil
	case err != nil:
		p.log.WarnContext(ctx, "chain not asked about a claim", "payment", row.ID, "error", err)
		return c.outcome(chainWord{watched: true}), err
	}
	return c.outcome(chainWord{watched: true, trace: &t}), nil
}

// PostReceipt takes a receipt that the payment's key posted. ErrPaymentNotFound, *QuestionsError.
func (p *Payer) PostReceipt(ctx context.Context, k Key, id string, r x402.Receipt) (*Payment, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.background.Done()
	row, err := p.Payment(ctx, k, id)
	if err == nil && row.Door == policy.DoorOperator { // no seller has it, so no client has a receipt
		err = ErrPaymentNotFound
	}
	if err != nil {
		return nil, err
	}
	// The lease is not needed: a posted receipt can only settle. A void for a used
	// authorization that was canceled is left to recovery, which leases.
	o, err := p.weighed(ctx, row, receiptClaim(row, r))
	if is[*QuestionsError](err) {
		return nil, err
	}
	if o.Verdict == VerdictVoid {
		o = Outcome{Note: o.Note}
	}
	o.PaymentID, o.At, o.SignedReceipt = row.ID, p.now().UTC(), p.signedReceipt(ctx, row, r)
	o.SellerSaid = saidIn(r)
	// A failure proves nothing about the money, nor does a claim that the chain does not bear out about a
	// refused or void payment: the repeat must still get this payment.
	o.Receipted = r.Success && (o.Verdict == VerdictSettled || row.State != Void && !row.Refused)
	o.Check = p.chargedCheck(row, r)
	if row.Retired {
		return row, nil
	}
	failpoint.Here(failpoint.ReceiptPosted)
	written, err := p.record(ctx, row, o)
	failpoint.Here(failpoint.ReceiptRecorded)
	if err != nil && o.Verdict == VerdictSettled {
		o.Verdict, o.Transaction, o.EventID, o.SignedReceipt = Unclear, "", "", nil
		o.Note = "receipt not accepted: " + err.Error()
		written, err = p.record(ctx, row, o)
	}
	return written, err
}
