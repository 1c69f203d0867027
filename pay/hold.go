package pay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// hold is this process's grip on one payment: its lease, renewed until the attempt is
// finished, and whether its caller is still waiting.
type hold struct {
	id    string
	fence uint64
	// what repeats without an idempotency key are recognized by
	keyID    string
	identity Hash
	// ctx ends when the lease is lost: whoever is sending must stop.
	ctx  context.Context
	lose context.CancelCauseFunc
	done chan struct{} // closed once the lease is released or given up

	caller context.Context
	// over is set when the attempt is finished, answered how: guarded by Payer.mu.
	over, answered bool
	turn           uint64 // holds are numbered in the order in which they were made

	mu       sync.Mutex
	timer    *time.Timer
	finished bool
}

// attend registers an attempt for a payment before the store knows it, so that no other
// call on this node mistakes it for one whose caller has left.
func (p *Payer) attend(caller context.Context, id string, b *Begin) *hold {
	h := &hold{id: id, keyID: b.KeyID, identity: b.Identity, caller: caller, done: make(chan struct{})}
	h.ctx, h.lose = context.WithCancelCause(context.WithoutCancel(caller))
	p.mu.Lock()
	p.turns++
	h.turn = p.turns
	p.holds[id] = h
	p.mu.Unlock()
	return h
}

// attended reports whether the first caller of a payment is waiting on this node, or has
// its answer and only the release is still to be written: the next call is then a
// purchase of its own. Otherwise a repeat gets the payment.
func (p *Payer) attended(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[id]
	switch {
	case h == nil:
		return false
	case h.over:
		return h.answered
	}
	return h.caller.Err() == nil
}

// held reports whether this process has a grip on the payment.
func (p *Payer) held(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds[id] != nil
}

// heldCount is how many payments this process has a grip on.
func (p *Payer) heldCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.holds)
}

// callerGrace is how long a call waits for news of an identical one before it counts as
// a purchase of its own.
const callerGrace = 50 * time.Millisecond

// awaitNews gives the end of identical calls' connections time to be noticed. A client
// that is cut off and repeats at once can get here before the server has told the first
// call's context, also at the proxy when the seller is near; without the wait, its repeat
// would be a second payment. Only calls that were here first are waited for, so that many
// identical ones at once are not held up by each other. own is this call's hold, if it
// has one. It reports whether this call's caller is still there.
func (p *Payer) awaitNews(ctx context.Context, b *Begin, own *hold) bool {
	const pause = time.Millisecond
	earlier := p.identical(b, own)
	for waited := time.Duration(0); waited < callerGrace && p.anyWaits(earlier); waited += pause {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// identical are the holds of identical calls that were made before own.
func (p *Payer) identical(b *Begin, own *hold) []*hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var same []*hold
	for _, h := range p.holds {
		if h.keyID == b.KeyID && h.identity == b.Identity && h != own && (own == nil || h.turn < own.turn) {
			same = append(same, h)
		}
	}
	return same
}

// anyWaits reports whether one of these calls is still waiting for its answer.
func (p *Payer) anyWaits(holds []*hold) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(holds, func(h *hold) bool {
		return p.holds[h.id] == h && !h.over && h.caller.Err() == nil
	})
}

// finished notes how the attempt ended, before its release is written.
func (p *Payer) finished(h *hold, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.over, h.answered = true, answered
}

// released is closed when this process is done with the payment; nil when it has no
// grip on it.
func (p *Payer) released(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.holds[id]; h != nil {
		return h.done
	}
	return nil
}

// letGo ends the grip. The lease is the store's affair.
func (p *Payer) letGo(h *hold) {
	h.mu.Lock()
	h.finished = true
	if h.timer != nil && h.timer.Stop() {
		p.background.Done()
	}
	h.mu.Unlock()
	p.mu.Lock()
	if p.holds[h.id] == h {
		delete(p.holds, h.id)
	}
	p.mu.Unlock()
	h.lose(nil)
	close(h.done)
}

// keep renews the lease every LeaseRenewal until letGo.
//
// A lease that was granted by a clock read long ago (a slow RPC, a slow disk) is renewed
// at once: until then somebody else may have taken it.
func (p *Payer) keep(ctx context.Context, h *hold, until time.Time) error {
	if now := p.now(); until.Sub(now) < LeaseTime-LeaseRenewal/2 {
		until = now.Add(LeaseTime)
		if err := p.store.Renew(ctx, h.id, h.fence, until); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.schedule(h, LeaseRenewal, until)
	return nil
}

// schedule is called with h.mu held.
func (p *Payer) schedule(h *hold, in time.Duration, until time.Time) {
	if h.finished {
		return
	}
	p.background.Add(1) // the attempt is counted as well, so the group is not at zero here
	h.timer = time.AfterFunc(in, func() {
		defer p.background.Done()
		p.renew(h, until)
	})
}

// renew extends the lease that runs until the given time. While the store cannot write
// it tries again every second; once the lease has run out the send must stop.
func (p *Payer) renew(h *hold, until time.Time) {
	ctx, cancel := context.WithTimeout(h.ctx, LeaseRenewal)
	defer cancel()
	next := p.now().Add(LeaseTime)
	err := p.store.Renew(ctx, h.id, h.fence, next)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		p.schedule(h, LeaseRenewal, next)
	case h.finished:
	case errors.Is(err, ErrLeaseLost) || !p.now().Before(until):
		p.log.Error("lease lost, send stopped", "payment", h.id, "error", err)
		h.lose(ErrLeaseLost)
	default:
		p.log.Warn("lease not renewed, trying again", "payment", h.id, "error", err)
		p.schedule(h, time.Second, until)
	}
}
