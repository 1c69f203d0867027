package pay

import (
	"context"
	"errors"
	"sync"
	"time"
)

// grip is this process's claim to send one payment. It renews the lease until the attempt ends, and
// knows whether the caller still waits.
type grip struct {
	id    string
	fence uint64
	// keyID and identity recognize repeats without an idempotency key.
	keyID    string
	identity Hash
	keyed    bool // its call has an idempotency key
	// sending ends when the lease is lost: the send must stop then.
	sending context.Context
	lose    context.CancelCauseFunc
	done    chan struct{} // closed once the lease is released or given up

	caller caller
	began  time.Time     // when its call did
	over   chan struct{} // closed when the attempt ends
	// answered says how the attempt ended. It is written before over is closed.
	answered bool
	number   uint64 // grips are numbered in the order in which they were taken

	mu       sync.Mutex
	wrote    uint64 // the step at which all of the answer was on its way to the caller; 0: not yet
	timer    *time.Timer
	finished bool
}

// take registers an attempt for a payment before the store knows it, so that no other call on
// this node takes its caller for one that has left.
func (p *Payer) take(c caller, id string, b *Begin) *grip {
	h := &grip{id: id, keyID: b.KeyID, identity: b.Identity, keyed: b.IdempotencyKey != "", caller: c, began: p.now(), done: make(chan struct{}), over: make(chan struct{})}
	if b.Arrival != nil {
		h.began = b.Arrival.at
	}
	h.sending, h.lose = context.WithCancelCause(context.WithoutCancel(c))
	p.mu.Lock()
	p.taken++
	h.number = p.taken
	p.grips[id] = h
	p.mu.Unlock()
	return h
}

// gripped reports whether this process has a grip on the payment.
func (p *Payer) gripped(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grips[id] != nil
}

// gripCount counts the payments that this process has a grip on.
func (p *Payer) gripCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.grips)
}

// released returns a channel that is closed when this process lets the payment go; nil when it has
// no grip on it.
func (p *Payer) released(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.grips[id]; h != nil {
		return h.done
	}
	return nil
}

// letGo ends the grip. The store ends the lease.
func (p *Payer) letGo(h *grip) {
	h.mu.Lock()
	h.finished = true
	if h.timer != nil && h.timer.Stop() {
		p.background.Done()
	}
	h.mu.Unlock()
	p.mu.Lock()
	if p.grips[h.id] == h {
		delete(p.grips, h.id)
	}
	p.mu.Unlock()
	h.lose(nil)
	close(h.done)
}

// keep renews the lease every LeaseRenewal until letGo. One whose grant was slow is renewed at
// once, because another node may have taken it meanwhile.
func (p *Payer) keep(ctx context.Context, h *grip, until time.Time) error {
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
func (p *Payer) schedule(h *grip, in time.Duration, until time.Time) {
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
func (p *Payer) renew(h *grip, until time.Time) {
	now, wait := p.now(), LeaseRenewal
	if left := until.Sub(now); left > 0 { // a store that hangs must not delay the end of the send
		wait = min(wait, left)
	}
	ctx, cancel := context.WithTimeout(h.sending, wait)
	defer cancel()
	next := now.Add(LeaseTime)
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
		p.schedule(h, min(time.Second, until.Sub(p.now())), until)
	}
}
