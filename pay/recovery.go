package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/internal/failpoint"
)

// Recover runs recovery until ctx ends: it closes what evidence allows, removes what is older than
// Options.Retain, and never moves money.
func (p *Payer) Recover(ctx context.Context) {
	tick := time.NewTicker(failpoint.Every(recoverEvery))
	defer tick.Stop()
	var beside sync.WaitGroup
	beside.Go(func() { p.reconcileLoop(ctx) })
	defer beside.Wait()
	if p.opts.Retain > 0 {
		beside.Go(func() { p.retainLoop(ctx) })
	}
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

// RecoverOnce looks at a batch of due payments for a bounded time, and returns their number.
func (p *Payer) RecoverOnce(ctx context.Context) (int, error) {
	if err := p.enter(); err != nil {
		return 0, nil // closing: nothing to do any more
	}
	defer p.background.Done()
	now := p.now().UTC()
	if _, err := p.store.Lapse(ctx, now, p.gripped); err != nil {
		return 0, fmt.Errorf("ending lapsed leases: %w", err)
	}
	if err := p.catchUp(ctx, now); err != nil {
		// What is wrong with the RPC is told where it is asked about a payment, and by Health.
		p.log.Debug("payments from before the RPC not looked for", "error", err)
	}
	// Payments that are being sent now may be due as well; they must not fill the batch.
	due, err := p.store.Due(ctx, now, recoverBatch+p.gripCount())
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
	return row.Lease.Live(now) || row.Lease.Owner != "" && p.gripped(row.ID)
}

// recoverAll looks at payments until recoverTime is over or the store cannot write.
func (p *Payer) recoverAll(ctx context.Context, due []*Payment) (int, error) {
	batch, stop := context.WithTimeoutCause(ctx, recoverTime, errBatchOver)
	defer stop()
	batch, fail := context.WithCancelCause(batch)
	defer fail(nil)
	var looked atomic.Int64
	var all errgroup.Group
	all.SetLimit(atOnce(len(due)))
	for _, row := range due {
		all.Go(func() error {
			if batch.Err() != nil {
				return nil
			}
			switch err := p.recoverPayment(ctx, row); {
			case errors.Is(err, ErrUnavailable):
				fail(err)
			case err == nil:
				looked.Add(1)
			}
			return nil
		})
	}
	_ = all.Wait() // fail has the error
	if err := context.Cause(batch); err != nil && !errors.Is(err, errBatchOver) {
		return int(looked.Load()), err
	}
	return int(looked.Load()), nil
}

var errBatchOver = errors.New("the batch has had its time")

// recoverPayment looks at one payment. If that fails it is put off, so that it holds up no other.
func (p *Payer) recoverPayment(ctx context.Context, row *Payment) error {
	err := p.recoverLeased(ctx, row.ID, func(now *Payment) bool { return now.Checks == row.Checks })
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

// recoverLeased looks at one payment under its lease, unless wanted does not want it as it is now; nil: it does.
func (p *Payer) recoverLeased(ctx context.Context, id string, wanted func(*Payment) bool) error {
	now := p.now().UTC()
	row, err := p.store.Acquire(ctx, id, p.owner, now, now.Add(LeaseTime))
	if err != nil {
		return err
	}
	failpoint.Here(failpoint.RecoveryAcquired)
	if wanted != nil && !wanted(row) { // another node has looked since this one listed what is due
		write, cancelWrite := detached(ctx)
		defer cancelWrite()
		_, _, err := p.store.Record(write, Outcome{PaymentID: row.ID, Fence: row.Lease.Fence, At: p.now().UTC(), Release: true, Answered: row.Answered})
		return err
	}
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

// gather collects the evidence for one payment. looked is false if the look was cut short.
func (p *Payer) gather(ctx context.Context, row *Payment) (_ Outcome, looked bool) {
	now, evident := p.now(), false
	if p.opts.Chain != nil && row.unproven() {
		switch t, err := p.trace(ctx, row); {
		case err == nil:
			o := chainOutcome(row, t)
			if o.Verdict != Unclear {
				return o, true
			}
			evident = o.Evident
		case errors.Is(ctx.Err(), context.Canceled):
			return Outcome{}, false
		case !errors.Is(err, ErrUnwatched): // that is told once
			p.log.Warn("chain not asked", "payment", row.ID, "error", err)
		}
	}
	watched := p.watches(row.Terms.Network)
	var clock clockWord
	if row.Doubted && !watched && !now.Before(row.doubtDue()) {
		clock = clockWord{agrees: p.clockAgreed(ctx), wrong: p.time.wrong() != nil}
	}
	o := expiryOutcome(row, watched, now, clock)
	// Without an RPC nothing more will be known of what was held until evidence.
	o.Evident = row.Claimed() && (evident || !watched && !row.Doubted && (row.State == Settled || !now.Before(row.ValidBefore())))
	o.Retire = o.Verdict == Unclear && p.retires(ctx, row, now)
	return o, true
}

// Recovery's pace.
const (
	recoverEvery = 5 * time.Second
	recoverBatch = 200
	// recoverTime bounds a batch: what comes due meanwhile must not wait for a slow RPC.
	recoverTime = 20 * time.Second
	// recoverAtOnce bounds the payments that recovery looks at concurrently.
	recoverAtOnce = 8
	// recoverBehind is recoverAtOnce while a whole batch is due: a backlog would hold up open ones.
	recoverBehind = 32
	firstCheck    = 20 * time.Second // after a payment was journaled
	maxBackoff    = 10 * time.Minute
	lateBackoff   = time.Hour      // for what the RPC has given no answer about for long
	slowBackoff   = 24 * time.Hour // for what only a late RPC could close
	settleDelay   = 5 * time.Second
)

// nextCheck returns when recovery should look at a payment next; zero is never.
func (p *Payer) nextCheck(row *Payment, now time.Time) time.Time {
	backoff := func(most time.Duration) time.Time {
		d := firstCheck << min(row.Checks, 16)
		return now.Add(min(d, most))
	}
	watched := p.watches(row.Terms.Network)
	switch {
	case row.Retired:
		return time.Time{}
	case !row.unproven(), row.State == Settled && !watched && !row.Claimed():
		return row.retireCheck(now)
	case row.State == Settled:
		if at := row.ValidBefore().Add(settleDelay); at.After(now) && !row.metered() { // of that, budgets hold the rest
			return at
		}
		return backoff(maxBackoff)
	case row.Doubted && !watched:
		return row.doubtCheck(now)
	case row.Doubted:
		return p.nextEvidenceCheck(row, now, watched, backoff)
	case row.State == Void && !watched:
		return backoff(slowBackoff)
	case row.State == Void:
		return backoff(lateBackoff)
	case row.Refused && !watched: // all that will be known, unless there is an RPC one day
		return backoff(slowBackoff)
	}
	return p.nextEvidenceCheck(row, now, watched, backoff)
}

// nextEvidenceCheck is nextCheck for a payment that is open or doubted.
func (p *Payer) nextEvidenceCheck(row *Payment, now time.Time, watched bool, backoff func(time.Duration) time.Time) time.Time {
	expired := !now.Before(row.ValidBefore())
	switch {
	case !watched && !expired:
		return row.ValidBefore()
	case !watched:
		return backoff(slowBackoff)
	case !expired:
		// The window's end is when the chain can say no for good.
		if at := backoff(maxBackoff); at.Before(row.ValidBefore()) {
			return at
		}
		return row.ValidBefore().Add(settleDelay)
	case row.Unresolved:
		return backoff(lateBackoff)
	}
	at := backoff(maxBackoff)
	if told := row.ValidBefore().Add(evidenceWait); !row.Refused && row.State == Open && now.Before(told) && told.Before(at) {
		return told
	}
	return at
}

// atOnce returns how many of the due payments are looked at concurrently.
func atOnce(due int) int {
	if due >= recoverBatch {
		return recoverBehind
	}
	return recoverAtOnce
}

// openPage is the number of open payments that are read at once.
const openPage = 500

// openFirst puts the open payments that are due in front, the longest due first, when more is due
// than a batch has room for. They hold money back, while a settled payment only waits to be
// confirmed.
func (p *Payer) openFirst(ctx context.Context, due []*Payment, now time.Time) ([]*Payment, error) {
	if len(due) < recoverBatch {
		return due, nil
	}
	var first, others []*Payment
	listed := map[string]bool{}
	for _, row := range due {
		switch {
		case row.State != Open:
			others = append(others, row)
		case !p.beingSent(row, now): // those would fill the batch
			first, listed[row.ID] = append(first, row), true
		}
	}
	for q := (LabelQuery{Label: string(Open), Limit: openPage}); len(first) < recoverBatch; {
		page, err := p.store.AllPayments(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing open payments: %w", err)
		}
		for _, row := range page {
			if !row.Check.IsZero() && !row.Check.After(now) && !listed[row.ID] && !p.beingSent(row, now) {
				first = append(first, row)
			}
		}
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	return append(first, others...), nil
}

// earlier is this process's progress through the payments from a time without an RPC.
type earlier struct {
	mu     sync.Mutex
	kind   int    // index into earlierKinds; their number: done
	before string // the last payment that was seen
}

// earlierKinds selects the payments that were put off for want of an RPC.
var earlierKinds = []LabelQuery{
	{Label: string(Open)},
	{Label: string(Settled), Without: []string{"confirmed", "disputed"}},
}

// catchUp brings them forward, a page at a time, once per process and once the RPC answers.
func (p *Payer) catchUp(ctx context.Context, now time.Time) error {
	e := &p.earlier
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.opts.Chain == nil || e.kind == len(earlierKinds) {
		return nil
	}
	q := earlierKinds[e.kind]
	q.Before, q.Limit = e.before, recoverBatch
	rows, err := p.store.AllPayments(ctx, q)
	if err != nil {
		return fmt.Errorf("listing earlier payments: %w", err)
	}
	for _, row := range rows {
		if err := p.bringForward(ctx, row, now); err != nil {
			return err
		}
		e.before = row.ID
	}
	if len(rows) < q.Limit {
		e.kind, e.before = e.kind+1, ""
	}
	return nil
}

func (p *Payer) bringForward(ctx context.Context, row *Payment, now time.Time) error {
	if !row.Check.After(now.Add(maxBackoff)) { // soon enough, or retired
		return nil
	}
	n, a, err := p.assetOf(row)
	if err != nil {
		return nil //nolint:nilerr // the chain cannot be asked about it: that is told where it is looked at
	}
	look, cancel := context.WithTimeout(ctx, LeaseTime/2)
	defer cancel()
	switch err := p.CheckChain(look, n, a); {
	case errors.Is(err, ErrUnwatched):
		return nil
	case err != nil:
		return fmt.Errorf("checking the chain: %w", err)
	}
	if !p.nextCheck(row, now).Before(row.Check) {
		return nil
	}
	_, _, err = p.store.Record(ctx, Outcome{PaymentID: row.ID, At: now, Check: now})
	if errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		return fmt.Errorf("scheduling payment %s: %w", row.ID, err)
	}
	if err != nil { // it holds up no other
		p.log.Warn("payment not scheduled", "payment", row.ID, "error", err)
	}
	return nil
}
