package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// MinRetain is the shortest time for which closed payments can be kept. Payments are retired by
// then, and the days and months in which they counted against limits are over.
const MinRetain = 2 * RetainPayload

// ArchiveReader reads closed payments.
type ArchiveReader interface {
	// ClosedPayments lists the payments of all keys that [ClosedQuery.Wants] with their spend events,
	// oldest first. A call looks at a bounded number of rows.
	ClosedPayments(ctx context.Context, q ClosedQuery) (ClosedPage, error)
}

// Archive lists closed payments and removes them.
type Archive interface {
	ArchiveReader

	// RemovePayments removes payments that [Removal.Removes], oldest first, with their spend events
	// and all index entries, in one step. Counters and the sums of days stay. The number of the
	// last attempt under an idempotency key stays: no nonce is derived twice. A call looks at a
	// bounded number of rows. *ReconcilingError.
	RemovePayments(ctx context.Context, r Removal) (Removed, error)
}

// ClosedQuery selects payments that are not open, and those that are retired.
type ClosedQuery struct {
	Before time.Time // only payments that ended earlier; zero is no bound
	After  string    // ClosedPage.Next of the page before; "" for the first
	Limit  int       // from 1 to 1,000
}

// ClosedPage is a part of a listing, oldest first.
type ClosedPage struct {
	Payments []ClosedPayment
	// Next is the cursor of the following page; "" at the end. A page with few payments, or none,
	// may have one.
	Next string
}

// ClosedPayment is a payment with its spend events: none for a void one, two for a disputed one.
type ClosedPayment struct {
	*Payment
	Events []SpendEvent
}

// Removal selects payments to remove.
type Removal struct {
	Before time.Time // only payments that were closed earlier
	// Unwatched reports a network without an RPC, whose payments are never confirmed. It must not
	// call the store.
	Unwatched func(network string) bool
	After     string // Removed.Next of the call before; "" for the first
	Limit     int    // payments in one step, at least 1
}

// Removed is the result of a Removal.
type Removed struct {
	Count int
	Next  string // where the next call goes on; "" at the end
}

// Removes reports whether a payment is to be removed: it is retired, so nothing looks at it any more, and
// nothing can ask for it. An unresolved or disputed one has had as long for its operator. One that only the
// chain tells of stays, because its nonce tells the number of its attempt.
func (r Removal) Removes(p *Payment) bool {
	switch {
	case !p.Retired, p.Doubted, p.Reconciled:
		return false
	case p.Lease.Owner != "", !p.Check.IsZero(), !p.ended().Before(r.Before):
		return false
	case p.State == Settled:
		return p.Confirmed || p.Disputed || r.Unwatched(p.Terms.Network)
	}
	return p.State == Void || p.State == Open
}

// Wants reports whether the query selects a payment.
func (q ClosedQuery) Wants(p *Payment) bool {
	return (p.State != Open || p.Retired) && (q.Before.IsZero() || p.ended().Before(q.Before))
}

// ended returns when a payment was closed. If the clock was set back at its closing, it is when the
// payment was made.
func (p *Payment) ended() time.Time {
	if p.Closed.Before(p.Created) {
		return p.Created
	}
	return p.Closed
}

const (
	// retainEvery is the pause between two looks for payments to remove.
	retainEvery = time.Minute
	// retainBatch is the number of payments that one step removes. retainPause follows it, because
	// payments wait for the step.
	retainBatch = 50
	retainPause = 50 * time.Millisecond
)

// retaining holds this process's progress in removing payments.
type retaining struct {
	mu      sync.Mutex
	looked  time.Time // the last look that began or ended a sweep
	before  time.Time // bound of the sweep that goes on; zero: there is none
	after   string    // where it goes on
	removed int       // by it
}

// retainLoop removes payments until ctx ends.
func (p *Payer) retainLoop(ctx context.Context) {
	for {
		more, err := p.retainOnce(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("old payments not removed", "error", err)
		}
		wait := failpoint.Every(retainEvery)
		if more {
			wait = retainPause
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// retainOnce removes some of the payments that were closed longer ago than Options.Retain, and
// reports whether there are more. The bound comes from a look that is an hour old: a clock that is
// wrong at one look removes nothing. Each step needs a clock that can be right.
func (p *Payer) retainOnce(ctx context.Context) (more bool, err error) {
	if p.opts.Retain <= 0 {
		return false, nil
	}
	if err := p.enter(); err != nil {
		return false, nil //nolint:nilerr // closing: nothing to do any more
	}
	defer p.background.Done()
	s := &p.retaining
	s.mu.Lock()
	defer s.mu.Unlock()
	now := p.now().UTC()
	if s.looked.IsZero() || now.Before(s.looked) { // the clock was set back
		s.looked, s.before = now, time.Time{}
		return false, nil
	}
	if s.before.IsZero() && now.Before(s.looked.Add(retireAgain)) {
		return false, nil
	}
	if !p.clockAgreed(ctx) {
		s.looked, s.before = now, time.Time{}
		return false, nil
	}
	if s.before.IsZero() {
		s.before, s.after, s.removed = s.looked.Add(-p.opts.Retain), "", 0
		s.looked = now
	}
	done, err := p.store.RemovePayments(ctx, Removal{
		Before: s.before, Unwatched: func(network string) bool { return !p.watches(network) }, After: s.after, Limit: retainBatch,
	})
	switch {
	case errors.Is(err, ErrUnavailable): // Health tells it
		return false, nil
	case err != nil:
		s.before = time.Time{}
		return false, fmt.Errorf("removing old payments: %w", err)
	}
	s.after, s.removed = done.Next, s.removed+done.Count
	if done.Next != "" {
		return true, nil
	}
	if s.removed > 0 {
		p.log.Info("old payments removed", "payments", s.removed, "closed_before", s.before)
	}
	s.before = time.Time{}
	return false, nil
}
