package pay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/words"
)

// ErrNotSent: a facilitator was not reached at all: nothing of the request got to it.
var ErrNotSent = errors.New("not sent")

// Pay opens a payment for the REST door, and settles it or hands out its payload. The caller must call
// Finish when it has written its answer. When Pay returns an error, there is no attempt to finish.
func (p *Payer) Pay(ctx context.Context, r Request) (*Attempt, error) {
	r = r.withoutUserinfo()
	started := time.Now()
	total := func() { p.opts.Observer.Took("total", time.Since(started)) }
	if r.Settlement == SettlePayer && UsedReason(r.Challenge.Error) {
		return nil, p.alreadyUsed(ctx, r)
	}
	a, err := p.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	switch {
	case a.row.State == Settled:
	case a.row.Terms.Settlement == SettlePayer:
		a, err = a.ready(a.settle)
	default:
		a, err = a.ready(a.prepare)
	}
	if err == nil {
		total()
	}
	return a, err
}

// ready takes the attempt to where its payload may be handed out, or ends it.
func (a *Attempt) ready(step func() error) (*Attempt, error) {
	defer a.finishOnPanic()
	if err := step(); err != nil {
		a.Finish(false)
		return nil, err
	}
	return a, nil
}

// alreadyUsed refuses to settle again for a seller that settles by itself, after the
// checks that come before (docs/design/surfaces.md, order of checks).
func (p *Payer) alreadyUsed(ctx context.Context, r Request) error {
	b, c, err := p.propose(ctx, r)
	c.unused()
	if err != nil {
		return err
	}
	if b.Place.Max == nil && b.Declined != nil { // it could not be paid anyway
		return b.Declined
	}
	if b.Place.Max != nil {
		have, err := p.store.Counter(ctx, b.Place.Counter)
		if err != nil {
			return err
		}
		if have.Cmp(*b.Place.Max) >= 0 {
			return ErrQuota
		}
	}
	sellers := new(SellerSettlesError)
	rows, err := p.store.Payments(ctx, PaymentQuery{KeyID: r.Key.ID, Limit: 100})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.RequestURL == r.URL && row.Terms.Settlement == SettlePayer {
			sellers.Earlier = row.ID
			break
		}
	}
	return failedFor(nil, sellers)
}

// settle calls our facilitator's /verify and /settle. It returns nil once the settlement is recorded.
func (a *Attempt) settle() error {
	if a.payer.opts.Facilitator == nil { // a repeat, made when there still was one
		return failedFor(a.row, ErrNoFacilitator)
	}
	if err := a.depart(); err != nil {
		return err
	}
	x := Exchange{Payload: a.payload, Requirement: a.row.Offer.Accepted, KeyID: a.row.KeyID}
	if err := a.verify(x); err != nil || a.row.State == Settled {
		return err
	}
	if a.caller.left() {
		return &FailedError{Stage: StageSettle, Payment: a.row, Detail: "caller gone between verification and settlement", Cause: ErrCallerGone}
	}
	ctx, cancel := a.SendContext(0)
	defer cancel()
	settling, settled := a.payer.stage(ctx, "settle", a.row.ID)
	failpoint.Here(failpoint.BeforeSettle)
	ans, err := a.payer.opts.Facilitator.Settle(settling, x)
	failpoint.Here(failpoint.AfterSettle)
	settled(err)
	if err != nil {
		o := Outcome{Reason: "settlement unclear: " + (&SilentError{err}).Error()}
		if failpoint.Off(failpoint.Evidence) {
			o.Verdict = VerdictVoid
		}
		_ = a.record(ctx, o)
		return silence(StageSettle, a.row, err)
	}
	o := a.payer.weigh(ctx, a.row, settleClaim(ans, a.fresh()).of(a.row))
	if err := a.record(ctx, o); err != nil && o.Verdict == VerdictSettled {
		// The money moved; losing the write would lose it from the books. The caller has
		// paid and gets its payload; the journal's open row is recovery's to close.
		a.payer.log.ErrorContext(ctx, "settlement not recorded", "payment", a.row.ID, "transaction", o.Transaction, "error", err)
		a.row = a.row.Clone()
		a.row.State, a.row.Transaction = Settled, o.Transaction
	}
	if a.row.State == Settled {
		return nil
	}
	return &FailedError{Stage: StageSettle, Payment: a.row, Detail: ans.Reason, Facilitator: ans.Raw, Funds: FundsReason(ans.Reason)}
}

// refusalWait bounds how long a refused caller waits for the chain's word on the refusal.
const refusalWait = 5 * time.Second

// verify shows the payload to our facilitator: nil when it is accepted or settled already. A
// refusal counts only for a fresh payload: see [freshPayload].
func (a *Attempt) verify(x Exchange) error {
	ctx, cancel := a.SendContext(0)
	defer cancel()
	verifying, verified := a.payer.stage(ctx, "verify", a.row.ID)
	failpoint.Here(failpoint.BeforeVerify)
	ans, err := a.payer.opts.Facilitator.Verify(verifying, x)
	failpoint.Here(failpoint.AfterVerify)
	verified(err)
	switch {
	case err != nil:
		o := Outcome{Reason: "verification unclear: " + (&SilentError{err}).Error()}
		if !errors.Is(err, ErrNotSent) {
			a.shown = true
		} else if a.row.Terms.Settlement == SettlePayer {
			o = a.unsent(o.Reason)
		}
		_ = a.record(ctx, o)
		return silence(StageVerify, a.row, err)
	case ans.Valid:
		a.shown = true
		return nil
	}
	a.shown = true
	_ = a.record(ctx, a.payer.weigh(ctx, a.row, verifyClaim(ans, a.fresh())))
	if a.row.State == Settled {
		return nil
	}
	return &FailedError{Stage: StageVerify, Payment: a.row, Detail: ans.Reason, Facilitator: ans.Raw, Funds: FundsReason(ans.Reason)}
}

// prepare makes a payload ready to leave for a seller that settles. Without an RPC it is shown to
// /verify, until one has succeeded for these terms. An unreachable facilitator does not stop it.
func (a *Attempt) prepare() error {
	p := a.payer
	if p.opts.Facilitator != nil && !p.watches(a.row.Terms.Network) && a.fresh() {
		known := verifiedKey{wallet: a.row.WalletID, terms: a.row.Terms}
		if _, once := p.verified.Get(known); !once {
			if a.caller.left() {
				return a.depart()
			}
			if _, err := p.ready(a.row.KeyID); err != nil {
				p.log.WarnContext(a.caller, "facilitator not asked, payload leaves unverified", "payment", a.row.ID, "error", err)
				return a.depart()
			}
			err := a.verify(Exchange{Payload: a.payload, Requirement: a.row.Offer.Accepted, KeyID: a.row.KeyID})
			var failed *FailedError
			switch {
			case err == nil && a.row.State == Open:
				p.verified.Add(known, struct{}{})
			case errors.As(err, &failed) && failed.Cause != nil && a.row.State == Open:
				p.log.WarnContext(a.caller, "facilitator not reached, payload leaves unverified", "payment", a.row.ID, "error", failed.Cause)
			case err != nil && a.row.State != Settled:
				return err
			}
		}
	}
	return a.depart()
}

// faultDetail makes the `facilitator` object for a call that brought no verdict.
func faultDetail(err error) json.RawMessage {
	detail, _ := json.Marshal(map[string]string{"error": words.Truncate(err.Error(), 400)})
	return detail
}

// ready asks whether the facilitator is worth asking.
func (p *Payer) ready(keyID string) (giveBack func(), err error) {
	if f, ok := p.opts.Facilitator.(Breaking); ok {
		return f.Ready(keyID)
	}
	return func() {}, nil
}

// verifiedKey names terms for which a wallet's payload was verified once.
type verifiedKey struct {
	wallet string
	terms  Terms
}

// maxVerified bounds the memory; a forgotten entry costs one more /verify.
const maxVerified = 10_000

// ParseSettlement reads the word for a settlement; "" gives the default.
func ParseSettlement(s string, def Settlement) (Settlement, error) {
	switch Settlement(s) {
	case "":
		return def, nil
	case SettlePayer, SettleSeller:
		return Settlement(s), nil
	}
	return "", &InputError{Field: "settlement", Reason: fmt.Sprintf("%q is neither payer nor seller", words.Truncate(s, 40))}
}
