package pay

import (
	"context"
	"sync"
	"time"

	"github.com/purserpay/purser/policy"
)

const (
	// clockAskTime bounds how long a payment waits for the sources to tell their time.
	clockAskTime = 3 * time.Second
	// clockAskAgain bounds how often the sources are asked while one stops payments, clockAskLate
	// while none answers: payments do not wait for sources that are down.
	clockAskAgain = 5 * time.Second
	clockAskLate  = 30 * time.Second
	// retireAgain lies between the two checks that retire a payment: a clock that is wrong at one
	// check must not make purser forget idempotency keys.
	retireAgain = time.Hour
)

// Clock tells how our clock compares with those of others.
func (p *Payer) Clock() ClockState { return p.time.State() }

// clockRefusal returns why no new payment of this validity may be made by our clock, or nil. If no source has
// told its time of late, or one stops payments, they are asked first. Silence stops nothing.
func (p *Payer) clockRefusal(ctx context.Context, validity time.Duration) error {
	err := p.time.refuses(validity)
	if p.time.compares() && (err != nil || !p.time.known()) {
		p.askTime(ctx)
		err = p.time.refuses(validity)
	}
	return err
}

// askTime has every source tell its time, at most every few seconds, and one that is far off twice.
func (p *Payer) askTime(ctx context.Context) {
	k := p.time
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return
	}
	again := clockAskLate
	if k.known() || k.wrong() != nil {
		again = clockAskAgain
	}
	if now := k.wall(); !k.asked.IsZero() && now.Sub(k.asked).Abs() < again {
		return
	}
	// Other calls wait for the same answers, so the questions do not end with the caller that asks.
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), clockAskTime)
	defer cancel()
	for range 2 {
		p.askSources(ask)
		if !k.unsure() {
			break
		}
	}
	k.asked = k.wall()
}

func (p *Payer) askSources(ctx context.Context) {
	var all sync.WaitGroup
	if f := p.opts.Facilitator; f != nil {
		all.Go(func() { _ = f.Probe(ctx) }) // its Date is all that is asked for
	}
	for s, c := range map[TimeSource]Chain{SourceRPC: p.opts.Chain, SourceSecondRPC: p.opts.Second} {
		h, ok := c.(Header)
		if !ok {
			continue
		}
		for _, n := range p.opts.Networks {
			all.Go(func() {
				sent := p.now()
				if head, err := h.Head(ctx, n); err == nil {
					p.time.sawBlock(p.sourceOn(s, n), sent, p.now(), head.Time)
				}
			})
		}
	}
	all.Wait()
}

// kept returns when a payment's payload and idempotency key have been kept long enough.
func (p *Payment) kept() time.Time { return p.ended().Add(RetainPayload) }

// abandoned reports whether an open payment is kept only for evidence that is late. A withdrawal waits for
// its operator.
func (p *Payment) abandoned() bool {
	return p.State == Open && (p.Refused || p.Unresolved && p.Door != policy.DoorOperator)
}

// retires reports whether a check may drop a payment's payload and idempotency key: an earlier check
// has put it off, and our clock can be right.
func (p *Payer) retires(ctx context.Context, row *Payment, now time.Time) bool {
	switch {
	case row.Doubted:
		return false
	case row.State == Open && !row.abandoned():
		return false
	case now.Before(row.kept()), row.Check.Before(row.kept().Add(retireAgain)):
		return false
	}
	return p.clockAgreed(ctx)
}

// clockAgreed reports whether our clock can be right, asking the sources if none has told its time
// of late.
func (p *Payer) clockAgreed(ctx context.Context) bool {
	if p.time.compares() && !p.time.known() {
		p.askTime(ctx)
	}
	return p.time.agreed()
}

// doubtCheck returns when a check may end the doubt about a payment next.
func (p *Payment) doubtCheck(now time.Time) time.Time {
	if due := p.doubtDue(); now.Before(due) {
		return due
	}
	return now.Add(maxBackoff)
}

// beforeRetiring moves the next check forward to the first one that could retire the payment.
func (p *Payment) beforeRetiring(check, now time.Time) time.Time {
	if due := p.retireCheck(now); check.After(due) && (p.State != Open || p.abandoned()) {
		return due
	}
	return check
}

// retireCheck returns when a check may retire a payment next.
func (p *Payment) retireCheck(now time.Time) time.Time {
	if due := p.kept(); now.Before(due) {
		return due
	}
	return now.Add(retireAgain)
}
