package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// Recover runs recovery until ctx ends: it observes, closes what evidence allows, and
// never moves money (docs/design.md §3).
func (p *Payer) Recover(ctx context.Context) {
	tick := time.NewTicker(failpoint.Every(recoverEvery))
	defer tick.Stop()
	var reconciling sync.WaitGroup
	reconciling.Go(func() { p.reconcileLoop(ctx) })
	defer reconciling.Wait()
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

// RecoverOnce looks at the payments that are due, at most a batch of them and for a
// bounded time, and returns how many it looked at.
func (p *Payer) RecoverOnce(ctx context.Context) (int, error) {
	if err := p.enter(); err != nil {
		return 0, nil // closing: nothing to do any more
	}
	defer p.background.Done()
	now := p.now().UTC()
	if _, err := p.store.Lapse(ctx, now, p.held); err != nil {
		return 0, fmt.Errorf("ending lapsed leases: %w", err)
	}
	if err := p.catchUp(ctx, now); err != nil {
		// What is wrong with the RPC is told where it is asked about a payment, and by Health.
		p.log.Debug("payments from before the RPC not looked for", "error", err)
	}
	// Payments that are being sent now may be due as well; they must not fill the batch.
	due, err := p.store.Due(ctx, now, recoverBatch+p.heldCount())
	if err != nil {
		return 0, fmt.Errorf("listing due payments: %w", err)
	}
	if due, err = p.openFirst(ctx, due, now); err != nil {
		return 0, err
	}
	due = slices.DeleteFunc(due, func(row *Payment) bool { return p.beingSent(row, now) })
	return p.recoverAll(ctx, due)
}

// beingSent reports whether a send has the payment. Recovery then leaves it alone.
func (p *Payer) beingSent(row *Payment, now time.Time) bool {
	return row.Lease.Live(now) || row.Lease.Owner != "" && p.held(row.ID)
}

// recoverAll looks at payments, several at a time, until recoverTime is over or the
// store cannot write.
func (p *Payer) recoverAll(ctx context.Context, due []*Payment) (int, error) {
	batch, stop := context.WithTimeoutCause(ctx, recoverTime, errBatchOver)
	defer stop()
	batch, fail := context.WithCancelCause(batch)
	defer fail(nil)
	var looked atomic.Int64
	var all sync.WaitGroup
	rows := make(chan *Payment)
	for range min(atOnce(len(due)), len(due)) {
		all.Go(func() {
			for row := range rows {
				switch err := p.recoverPayment(ctx, row); {
				case errors.Is(err, ErrUnavailable):
					fail(err)
				case err == nil:
					looked.Add(1)
				}
			}
		})
	}
	for _, row := range due {
		select {
		case rows <- row:
			continue
		case <-batch.Done():
		}
		break
	}
	close(rows)
	all.Wait()
	if err := context.Cause(batch); err != nil && !errors.Is(err, errBatchOver) {
		return int(looked.Load()), err
	}
	return int(looked.Load()), nil
}

var errBatchOver = errors.New("the batch has had its time")

// recoverPayment looks at one payment. If that fails, the payment is put off, so that it holds up no
// other.
func (p *Payer) recoverPayment(ctx context.Context, row *Payment) error {
	err := p.recoverLeased(ctx, row.ID)
	switch {
	case err == nil, errors.Is(err, ErrLeaseHeld), errors.Is(err, ErrLeaseLost), errors.Is(err, ErrUnavailable), ctx.Err() != nil:
		return err
	}
	p.log.Warn("payment not recovered", "payment", row.ID, "error", err)
	now := p.now().UTC()
	if _, _, perr := p.store.Record(ctx, Outcome{PaymentID: row.ID, At: now, Check: now.Add(maxBackoff)}); perr != nil {
		p.log.Warn("payment not put off", "payment", row.ID, "error", perr)
	}
	return err
}

func (p *Payer) recoverLeased(ctx context.Context, id string) error {
	now := p.now().UTC()
	row, err := p.store.Acquire(ctx, id, p.owner, now, now.Add(LeaseTime))
	if err != nil {
		return err
	}
	failpoint.Here(failpoint.RecoveryAcquired)
	look, cancel := context.WithTimeout(WithPayment(ctx, id), LeaseTime/2)
	defer cancel()
	o, looked := p.gather(look, row)
	failpoint.Here(failpoint.RecoveryLooked)
	o.PaymentID, o.Fence, o.At = row.ID, row.Lease.Fence, p.now().UTC()
	if looked {
		o.Checked = true
		after := row.Clone()
		probe := o
		probe.EventID = "probe"
		if _, err := after.Apply(probe); err == nil {
			o.Check = after.beforeRetiring(p.nextCheck(after, o.At), o.At)
		}
	}
	o.Release, o.Answered = true, row.Answered
	write, cancelWrite := detached(ctx)
	defer cancelWrite()
	_, err = p.record(write, row, o)
	failpoint.Here(failpoint.RecoveryRecorded)
	return err
}

// gather collects the evidence for one payment. If another instance takes over or the process ends
// meanwhile, looked is false and the payment stays due: reloads must not make it wait longer.
func (p *Payer) gather(ctx context.Context, row *Payment) (_ Outcome, looked bool) {
	now := p.now()
	if p.opts.Chain != nil && row.unproven() {
		switch t, err := p.trace(ctx, row); {
		case err == nil:
			if o := chainOutcome(row, t); o.Verdict != Unclear {
				return o, true
			}
		case errors.Is(ctx.Err(), context.Canceled):
			return Outcome{}, false
		case !errors.Is(err, errUnwatched): // that is told once
			p.log.Warn("chain not asked", "payment", row.ID, "error", err)
		}
	}
	watched := p.watches(row.Terms.Network)
	var clock clockWord
	if row.Doubted && !watched && !now.Before(row.doubtDue()) {
		clock = clockWord{agrees: p.clockAgreed(ctx), wrong: p.time.wrong() != nil}
	}
	if o := expiryOutcome(row, watched, now, clock); o.Verdict != Unclear {
		return o, true
	}
	if p.retires(ctx, row, now) {
		return Outcome{Retire: true}, true
	}
	return Outcome{}, true
}
