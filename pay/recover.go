package pay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Recovery's pace.
const (
	recoverEvery = 5 * time.Second
	recoverBatch = 200
	firstLook    = 20 * time.Second // after a payment was journaled
	maxBackoff   = 10 * time.Minute
	slowBackoff  = 24 * time.Hour // for what only a late RPC could close
	settleDelay  = 5 * time.Second
)

// nextCheck is when recovery should look at a payment next; zero is never.
func (p *Payer) nextCheck(row *Payment, now time.Time) time.Time {
	backoff := func(most time.Duration) time.Time {
		d := firstLook << min(row.Checks, 16)
		return now.Add(min(d, most))
	}
	expired := !now.Before(row.ValidBefore())
	switch {
	case row.Retired:
		return time.Time{}
	case row.State == Void, row.State == Settled && (p.opts.Chain == nil || row.Confirmed || row.Disputed):
		return row.Closed.Add(RetainPayload)
	case row.State == Settled:
		if at := row.ValidBefore().Add(settleDelay); at.After(now) {
			return at
		}
		return backoff(maxBackoff)
	case row.Refused && now.Before(row.ValidBefore().Add(RepeatGrace)):
		return row.ValidBefore().Add(RepeatGrace)
	case row.Refused && p.opts.Chain == nil && !now.Before(row.Created.Add(RetainPayload)):
		return time.Time{} // without an RPC, refused is all that will be known
	case p.opts.Chain == nil && !expired:
		return row.ValidBefore()
	case p.opts.Chain == nil:
		return backoff(slowBackoff)
	case !expired:
		// The window's end is when the chain can say no for good.
		if at := backoff(maxBackoff); at.Before(row.ValidBefore()) {
			return at
		}
		return row.ValidBefore().Add(settleDelay)
	}
	return backoff(maxBackoff)
}

// Recover runs recovery until ctx ends: it observes, closes what evidence allows, and
// never moves money (DESIGN §3).
func (p *Payer) Recover(ctx context.Context) {
	tick := time.NewTicker(recoverEvery)
	defer tick.Stop()
	for {
		for {
			n, err := p.RecoverOnce(ctx)
			if err != nil && ctx.Err() == nil {
				p.log.Warn("recovery", "error", err)
			}
			if n < recoverBatch || err != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// RecoverOnce looks at the payments that are due, at most a batch of them, and returns
// how many it looked at.
func (p *Payer) RecoverOnce(ctx context.Context) (int, error) {
	if err := p.enter(); err != nil {
		return 0, nil // closing: nothing to do any more
	}
	defer p.background.Done()
	now := p.now().UTC()
	if _, err := p.store.Lapse(ctx, now, p.held); err != nil {
		return 0, fmt.Errorf("ending lapsed leases: %w", err)
	}
	// Payments that are being sent now may be due as well; they must not fill the batch.
	due, err := p.store.Due(ctx, now, recoverBatch+p.heldCount())
	if err != nil {
		return 0, fmt.Errorf("listing due payments: %w", err)
	}
	looked := 0
	for _, row := range due {
		if ctx.Err() != nil {
			return looked, ctx.Err()
		}
		if row.Lease.Live(now) || row.Lease.Owner != "" && p.held(row.ID) {
			continue
		}
		switch err := p.recoverPayment(ctx, row.ID); {
		case errors.Is(err, ErrLeaseHeld), errors.Is(err, ErrLeaseLost):
		case errors.Is(err, ErrUnavailable):
			return looked, err
		case err != nil:
			p.log.Warn("payment not recovered", "payment", row.ID, "error", err)
		default:
			looked++
		}
	}
	return looked, nil
}

func (p *Payer) recoverPayment(ctx context.Context, id string) error {
	now := p.now().UTC()
	row, err := p.store.Acquire(ctx, id, p.owner, now, now.Add(LeaseTime))
	if err != nil {
		return err
	}
	look, cancel := context.WithTimeout(ctx, LeaseTime/2)
	defer cancel()
	o := p.look(look, row)
	o.PaymentID, o.Fence, o.At = row.ID, row.Lease.Fence, p.now().UTC()
	o.Looked = true
	after := row.Clone()
	probe := o
	probe.EventID = "probe"
	if _, err := after.Apply(probe); err == nil {
		o.Check = p.nextCheck(after, o.At)
	}
	o.Release, o.Answered = true, row.Answered
	write, cancelWrite := detached(ctx)
	defer cancelWrite()
	_, err = p.record(write, row, o)
	return err
}

// look gathers the evidence for one payment.
func (p *Payer) look(ctx context.Context, row *Payment) Outcome {
	now := p.now()
	if p.opts.Chain != nil && (row.State == Open || row.State == Settled && !row.Confirmed && !row.Disputed) {
		t, err := p.trace(ctx, row)
		if err == nil {
			if o := judge(row, t); o.Verdict != Unclear {
				return o
			}
		} else {
			p.log.Warn("chain not asked", "payment", row.ID, "error", err)
		}
	}
	switch {
	case row.State != Open && !now.Before(row.Closed.Add(RetainPayload)):
		return Outcome{Retire: true}
	case row.State != Open:
	case row.Refused && row.reserves(AtRefusedExpired) && !now.Before(row.ValidBefore().Add(RepeatGrace)):
		return Outcome{Verdict: VerdictExpired}
	case !row.Refused && !row.Unresolved && p.opts.Chain == nil && !now.Before(row.ValidBefore()):
		return Outcome{Verdict: VerdictAbsent}
	}
	return Outcome{}
}

// judge turns what the chain says into an outcome (DESIGN §3, evidence). Only what is at
// or before a safe block, and past the validity, can prove that money did not move.
func judge(row *Payment, t Trace) Outcome {
	over := !t.SafeTime.Before(row.ValidBefore())
	if row.State == Open {
		switch {
		case t.Used:
			return Outcome{Verdict: VerdictSettled, Transaction: t.Transaction}
		case t.Canceled && t.SafeLogs:
			return Outcome{Verdict: VerdictVoid, Reason: "authorization canceled on chain"}
		case over && !t.SafeUsed && !t.Canceled:
			return Outcome{Verdict: VerdictVoid, Reason: "expired unused on chain"}
		}
		return Outcome{}
	}
	switch {
	case t.Used && t.SafeLogs && over:
		return Outcome{Verdict: VerdictConfirm, Transaction: t.Transaction}
	case t.Canceled && t.SafeLogs:
		return Outcome{Verdict: VerdictDisprove, Reason: "authorization was canceled on chain"}
	case over && !t.SafeUsed && !t.Canceled:
		return Outcome{Verdict: VerdictDisprove, Reason: "authorization expired unused on chain"}
	}
	return Outcome{}
}
