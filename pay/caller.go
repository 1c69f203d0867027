package pay

import (
	"context"
	"time"
)

// caller is the program whose call is being served. Its context ends when it leaves. Every question
// whether the caller has left is asked here.
type caller struct {
	context.Context
	gone func() bool // see Request.Gone; nil: the context tells
}

// left reports whether the caller has left.
func (c caller) left() bool { return c.Err() != nil || c.gone != nil && c.gone() }

// attended reports whether a payment of this node belongs to another caller than that of a call: to one
// that is waiting, or that has its answer before the release is written. The call is then a purchase of
// its own. A call that comes while the other caller's answer is not acknowledged yet has to wait.
func (p *Payer) attended(id string, a *Arrival, anew bool) bool {
	p.mu.Lock()
	h := p.grips[id]
	p.mu.Unlock()
	if h == nil {
		return false
	}
	select {
	case <-h.over:
		return h.answered
	default:
	}
	switch wrote := h.written(); {
	case h.caller.left() && (wrote == 0 || anew): // whether it has its answer shows in the end
		return false
	case anew || a == nil:
		return true
	default:
		return !a.repeats(h.began) && (wrote == 0 || a.number < wrote)
	}
}

// repeats reports whether a call that finds a payment busy is no purchase beside it, however the
// payment's own caller fares.
func (p *Payer) repeats(b *Begin, busy *Payment) bool {
	switch {
	case b.IdempotencyKey != "" || b.Again != "":
		return false
	case b.Retried:
		return true
	case b.Anew || b.Arrival == nil:
		return false
	}
	p.mu.Lock()
	h := p.grips[busy.ID]
	p.mu.Unlock()
	if h == nil { // another node's, or one of this node that is over by now: then Begin.Answered tells
		return busy.Lease.Owner != p.owner && b.Arrival.repeats(busy.Began())
	}
	wrote := h.written()
	return b.Arrival.repeats(h.began) && (wrote == 0 || b.Arrival.number < wrote)
}

// callerGrace bounds the wait for news of an identical call.
const callerGrace = 50 * time.Millisecond

// awaitNews gives the end of identical calls' connections time to be noticed: a client that is cut
// off and repeats at once can get here first, and its repeat would be a second payment. It waits
// for calls that were here before own, so that many at once do not hold up each other. It reports
// whether this call's caller is still there.
func (p *Payer) awaitNews(c caller, b *Begin, own *grip) bool {
	if b.IdempotencyKey != "" || b.Again != "" {
		return !c.left()
	}
	same := p.identical(b, own)
	if len(same) == 0 { // a short timer wakes a thread that sleeps
		return !c.left()
	}
	grace := time.NewTimer(callerGrace)
	defer grace.Stop()
	for _, h := range same {
		select {
		case <-h.caller.Done():
		case <-h.over:
		case <-h.done:
		case <-grace.C:
			return !c.left()
		case <-c.Done():
			return false
		}
	}
	return !c.left()
}

// identical lists the grips of identical calls that were made before own.
func (p *Payer) identical(b *Begin, own *grip) []*grip {
	p.mu.Lock()
	defer p.mu.Unlock()
	var same []*grip
	for _, h := range p.grips {
		if h.keyID == b.KeyID && h.identity == b.Identity && h != own && (own == nil || h.number < own.number) {
			same = append(same, h)
		}
	}
	return same
}

// write notes that all of the caller's answer is on its way. The first step counts; 0 takes it back.
func (h *grip) write(step uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrote == 0 || step == 0 {
		h.wrote = step
	}
}

// written returns the step at which all of the caller's answer was on its way, 0 if it is not. A call that
// begins later may come from a client that has its answer.
func (h *grip) written() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrote
}

// end notes how the attempt ended, before its release is written.
func (p *Payer) end(h *grip, answered bool) {
	h.answered = answered
	if answered && !h.keyed {
		at := h.written()
		if at == 0 {
			at = p.calls.arrivals.step()
		}
		p.remember(h, at)
		p.calls.arrivals.end(h.keyID, ending{identity: h.identity, paymentID: h.id, began: h.began, number: at})
	}
	close(h.over)
}
