package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// earlier is this process's progress through the payments from a time without an RPC.
type earlier struct {
	mu     sync.Mutex
	kind   int    // index into earlierKinds; their number: done
	before string // the last payment that was seen
}

// earlierKinds selects the payments that an RPC may say something about. Without an RPC they wait for
// a day or for good, and that schedule must not outlive its reason.
var earlierKinds = []LabelQuery{
	{Label: string(Open)},
	{Label: string(Settled), Without: []string{"confirmed", "disputed"}},
}

// catchUp brings payments forward that were put off while there was no RPC for them, a
// page at a time, once per process. It waits until the RPC answers.
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
	n, a, err := row.asset()
	if err != nil {
		return nil //nolint:nilerr // the chain cannot be asked about it: that is told where it is looked at
	}
	look, cancel := context.WithTimeout(ctx, LeaseTime/2)
	defer cancel()
	switch err := p.checkChain(look, n, a); {
	case errors.Is(err, errUnwatched):
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
