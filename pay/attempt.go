package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// Attempt holds one call's signed payload, which may be sent while the lease is held. It belongs to
// one goroutine. Finish may be called from another one when the first is done with it.
type Attempt struct {
	payer   *Payer
	how     How
	revived Verdict  // see Begun.Revived
	row     *Payment // the last known row
	payload x402.Payload
	grip    *grip // nil for a stored answer
	caller  caller

	shown    bool // a facilitator has seen the payload
	departed bool // the payload is on its way to the seller, or may be settled
	opened   time.Time
	started  time.Time
	done     bool
	pending  sync.WaitGroup  // outcomes being written
	written  <-chan struct{} // closed when the last of them has been; nil before the first
	delayed  delayedSettlement
	failed   atomic.Pointer[Undelivered]  // what the seller has answered without delivering; nil: nothing is known
	heard    atomic.Pointer[func() Heard] // tells of the answer so far; nil: there is none
}

// Payment returns the payment as last written. Callers must not change it.
func (a *Attempt) Payment() *Payment { return a.row }

// Payload returns the content of the payment header.
func (a *Attempt) Payload() x402.Payload { return a.payload }

// Slim returns a payload with the same authorization and signature, and with no more than sellers need. It
// returns false if that is not smaller.
func (a *Attempt) Slim() (x402.Payload, bool) {
	if a.row.Signature == nil {
		return x402.Payload{}, false
	}
	slim, err := a.payer.payload(a.row, a.row.Offer.Slim())
	return slim, err == nil && len(slim.JSON) < len(a.payload.JSON)
}

// Repeats reports whether the payload is that of an earlier call's payment, and may have left
// before. As far as purser knows, that of a void one has not.
func (a *Attempt) Repeats() bool { return a.how != Created && a.revived != VerdictVoid }

// depart lets the payload leave: after it, purser cannot know what has not been sent. If the
// caller is gone, the lease is lost or too little validity is left, nothing may be sent.
func (a *Attempt) depart() error {
	if a.departed || a.grip == nil {
		return nil
	}
	switch {
	case a.caller.left():
		a.Abandon(ErrCallerGone.Error())
		return ErrCallerGone
	case a.grip.sending.Err() != nil:
		a.finish(false, true)
		// Another process may be sending it. To the caller, the payment is open.
		return fmt.Errorf("%w: %w", &OpenError{Payment: a.row}, ErrLeaseLost)
	case a.row.State == Open && !a.row.Sendable(a.payer.now()):
		a.Abandon("expired before it could be sent")
		return &FailedError{Stage: StageVerify, Payment: a.row, Detail: "the authorization expired before it could be sent"}
	}
	failpoint.Here(failpoint.Departing)
	a.departed, a.started = true, time.Now()
	a.payer.log.DebugContext(a.caller, "payment leaves", "payment", a.row.ID, "repeat", a.Repeats())
	return nil
}

// Abandon ends an attempt whose payload did not get to the seller. A new payment becomes void, a
// revived one what it was, and any other one stays what it is.
func (a *Attempt) Abandon(reason string) {
	if o := a.unsent(reason); o.Verdict != Unclear {
		_ = a.record(a.caller, o)
	}
	a.finish(false, true)
}

// unsent returns the outcome of an attempt that has sent nothing.
func (a *Attempt) unsent(reason string) Outcome {
	if a.grip == nil {
		return Outcome{Reason: reason}
	}
	return unsentOutcome(a.how, a.revived, a.shown, a.row.Signature != nil || a.revived != Unclear, reason)
}

// fresh reports whether a refusal of the payload can be taken for one.
func (a *Attempt) fresh() bool { return freshPayload(a.how, a.revived, a.row.RefusedAt) }

// SendContext returns the context of a send. It outlives the caller, ends when the lease is lost,
// and is bounded by the configured send timeout, or by least if that is longer.
func (a *Attempt) SendContext(least time.Duration) (context.Context, context.CancelFunc) {
	base := context.WithoutCancel(a.caller)
	if a.grip != nil {
		base = a.grip.sending
	}
	return context.WithTimeout(base, max(least, a.payer.opts.SendTimeout))
}

// SendTimeout returns the time that bounds one send.
func (p *Payer) SendTimeout() time.Duration { return p.opts.SendTimeout }

// Finish releases the lease. answered reports that the caller got its answer in full and without an
// error status. Otherwise the payment waits for the caller's repeat. Finish does not wait until the
// release is written.
func (a *Attempt) Finish(answered bool) { a.finish(answered, false) }

// Failed notes that the paid request has brought nothing, for Finish to record. nil takes it back, because it was sent
// again.
func (a *Attempt) Failed(u *Undelivered) {
	if u != nil {
		u = &Undelivered{Status: u.Status, Repeat: a.Repeats()}
	}
	a.failed.Store(u)
}

// Answers names what tells of the answer to the payload, as far as it has come when the attempt ends. nil takes it back,
// because the payload is sent again. It is called by another goroutine.
func (a *Attempt) Answers(heard func() Heard) {
	if heard == nil {
		a.heard.Store(nil)
		return
	}
	a.heard.Store(&heard)
}

// finishOnPanic ends the attempt on a panic: a bug must not leave a lease that is renewed for ever.
func (a *Attempt) finishOnPanic() {
	if v := recover(); v != nil {
		a.finish(false, false)
		panic(v)
	}
}

// Deliver is Finish for a door that can tell whether the caller has got an answer that was written in full.
// watch returns a function that waits for that; nil: it cannot be told, and the writing counts.
func (a *Attempt) Deliver(written bool, watch func() (got func() bool)) {
	if a.done || a.grip == nil || !written {
		a.Finish(written)
		return
	}
	got := watch()
	if got == nil {
		a.Finish(true)
		return
	}
	a.done = true
	a.grip.write(a.payer.calls.arrivals.step())
	go func() { a.release(got(), true) }() // waited for by Close through background
}

// Ending notes that the last of the caller's answer is on its way, or, with false, that more comes after all. A call
// that begins behind the last of an answer may be the caller's next one.
func (a *Attempt) Ending(last bool) {
	switch {
	case a.grip == nil:
	case last:
		a.grip.write(a.payer.calls.arrivals.step())
	default:
		a.grip.write(0)
	}
}

func (a *Attempt) finish(answered, wait bool) {
	if a.done {
		return
	}
	a.done = true
	if a.grip != nil {
		a.release(answered, wait)
	}
}

// release ends the grip and the lease.
func (a *Attempt) release(answered, wait bool) {
	if !a.started.IsZero() {
		a.payer.opts.Observer.Took("send", time.Since(a.started))
	}
	a.payer.end(a.grip, answered && !a.row.waitsForReceipt())
	o := a.outcome(Outcome{Release: true, Answered: answered, Undelivered: a.failed.Load()})
	if heard := a.heard.Load(); heard != nil {
		o.Heard = new((*heard)())
	}
	before, settlement := a.delayed.withdraw()
	if settlement != nil {
		a.pending.Done()
	}
	release := func() {
		defer a.payer.background.Done()
		defer a.payer.letGo(a.grip)
		a.pending.Wait()
		failpoint.Here(failpoint.Releasing)
		ctx, cancel := detached(a.caller)
		defer cancel()
		if settlement != nil {
			both := *settlement
			both.Release, both.Answered, both.Undelivered, both.Heard = true, answered, o.Undelivered, o.Heard
			if a.payer.write(ctx, before, both) {
				failpoint.Here(failpoint.Released)
				return
			}
		}
		a.payer.outcomeToTell(ctx, a.row, &o)
		row, fx, err := a.payer.store.Record(ctx, o)
		if err != nil && !errors.Is(err, ErrQueued) {
			// The lease lapses by itself; the payment then counts as unanswered.
			a.payer.log.WarnContext(ctx, "lease not released", "payment", o.PaymentID, "error", err)
		}
		a.payer.told(fx.Notices)
		a.payer.sawForNothing(ctx, row, fx)
		failpoint.Here(failpoint.Released)
	}
	if wait {
		release()
	} else {
		go release() // waited for by Close through background
	}
}

// detached returns a context that outlives its caller, for writes that must happen.
func detached(caller context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(caller), LeaseTime)
}

// outcome fills in what every outcome of this attempt carries.
func (a *Attempt) outcome(o Outcome) Outcome {
	o.PaymentID, o.At = a.row.ID, a.payer.now().UTC()
	if a.grip != nil {
		o.Fence = a.grip.fence
	}
	if a.row.Signature != nil {
		o.Signature = a.row.Signature
	}
	return o
}

// record writes an outcome of this attempt and returns once it is durable, or queued by the store.
func (a *Attempt) record(ctx context.Context, o Outcome) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	sig := a.row.Signature
	failpoint.Here(failpoint.Recording)
	row, err := a.payer.record(ctx, a.row, a.outcome(o))
	failpoint.Here(failpoint.Recorded)
	if row != nil {
		a.row = row
		if a.row.Signature == nil && sig != nil && !row.Retired {
			a.row.Signature = sig
		}
	}
	return err
}

// recordSoon writes an outcome without making the caller wait. The attempt's row shows it at once.
func (a *Attempt) recordSoon(o Outcome) {
	o = a.outcome(o)
	before := a.row
	after := before.Clone()
	if _, err := after.Apply(o); err == nil {
		a.row = after
	}
	// Finish waits for it through pending, and Close through background.
	a.pending.Add(1)
	if o.Verdict == VerdictSettled && a.delayed.keep(before, o) {
		a.payer.delays.add(a)
		return
	}
	earlier, written := a.written, make(chan struct{})
	a.written = written
	go func() {
		defer close(written)
		if earlier != nil {
			<-earlier // of two words of the seller the later one is kept
		}
		a.writeNow(before, o)
	}()
}

// writeNow writes an outcome that recordSoon has counted.
func (a *Attempt) writeNow(before *Payment, o Outcome) {
	defer a.pending.Done()
	ctx, cancel := detached(a.caller)
	defer cancel()
	a.payer.write(ctx, before, o)
}

// write records an outcome, and reports whether it was accepted. A refused settlement is noted.
func (p *Payer) write(ctx context.Context, row *Payment, o Outcome) bool {
	failpoint.Here(failpoint.Recording)
	_, err := p.record(ctx, row, o)
	failpoint.Here(failpoint.Recorded)
	if err != nil && o.Verdict == VerdictSettled {
		note := Outcome{PaymentID: o.PaymentID, Fence: o.Fence, At: o.At, Signature: o.Signature, Note: "receipt not accepted: " + err.Error()}
		_, _ = p.record(ctx, row, note)
	}
	return err == nil
}

// record writes an outcome, schedules recovery's next check, and tells the observer. An
// outcome that the store keeps queued counts as written.
func (p *Payer) record(ctx context.Context, row *Payment, o Outcome) (*Payment, error) {
	if o.EventID == "" && (o.Verdict == VerdictSettled || o.Verdict == VerdictDisputed) {
		id, err := p.eventIDs.at(o.At)
		if err != nil {
			return nil, fmt.Errorf("naming a spend event: %w", err)
		}
		o.EventID = id
	}
	// Whether hearsay settles it, only the stored row can tell: then the next look stays as it was.
	if o.Check.IsZero() && o.Verdict != Unclear && !o.Hearsay {
		after := row.Clone()
		if _, err := after.Apply(o); err == nil {
			o.Check = p.nextCheck(after, o.At)
		}
	}
	p.outcomeToTell(ctx, row, &o)
	written, fx, err := p.store.Record(ctx, o)
	if errors.Is(err, ErrQueued) {
		p.log.ErrorContext(ctx, "outcome kept in memory until the store can write", "payment", o.PaymentID, "outcome", string(o.Verdict), "error", err)
		err = nil
	}
	if err != nil {
		p.log.ErrorContext(ctx, "outcome not recorded", "payment", o.PaymentID, "outcome", string(o.Verdict), "transaction", o.Transaction, "error", err)
		return nil, fmt.Errorf("recording outcome %q: %w", o.Verdict, err)
	}
	p.told(fx.Notices)
	p.sawForNothing(ctx, written, fx)
	if o.Hearsay && written.State != Settled {
		o.Verdict, o.Note = Unclear, cmp.Or(o.Note, "said to be used")
	}
	if o.Verdict != Unclear {
		level := slog.LevelInfo
		if o.Verdict == VerdictConfirmed { // each settled payment is sooner or later
			level = slog.LevelDebug
		}
		if p.log.Enabled(ctx, level) {
			p.log.Log(ctx, level, "payment "+string(o.Verdict),
				append(aboutPayment(written), "was", string(fx.Was), "state", string(written.State), "transaction", written.Transaction, "reason", o.Reason)...)
		}
		p.opts.Observer.Changed(written, fx.Was, o.Verdict)
		if row.misbooked(o) && written.Confirmed {
			p.log.ErrorContext(ctx, "payment was booked with another amount than the chain has moved",
				"payment", written.ID, "booked", written.Moved().String(), "moved", o.Moved.String(), "transaction", written.Transaction)
		}
		if fx.Contradicted {
			p.log.ErrorContext(ctx, "payment moved money although it was refused or void", "payment", written.ID, "was", string(fx.Was), "transaction", written.Transaction)
			p.opts.Observer.Contradicted(written)
		}
	} else if seen := cmp.Or(o.Note, o.Reason); seen != "" {
		p.log.InfoContext(ctx, "payment observed", "payment", written.ID, "state", string(written.State), "what", words.Truncate(seen, 400))
	}
	return written, nil
}

// Asset looks up the pinned network and asset of the payment's terms, on a rail of package x402.
func (p *Payment) Asset() (x402.Network, x402.Asset, error) {
	n, ok := x402.NetworkByWire(p.Terms.Network)
	if !ok {
		return n, x402.Asset{}, fmt.Errorf("payment %s: unknown network %q", p.ID, p.Terms.Network)
	}
	a, ok := n.Asset(p.Terms.Asset)
	if !ok {
		return n, a, fmt.Errorf("payment %s: unknown asset %s", p.ID, p.Terms.Asset)
	}
	return n, a, nil
}
