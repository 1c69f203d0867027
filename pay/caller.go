package pay

import (
	"context"
	"time"
)

// caller is the context of the program whose call is being served. It ends when the caller
// leaves. Every question whether the caller has left is asked here.
type caller struct{ context.Context }

// left reports whether the caller has left.
func (c caller) left() bool { return c.Err() != nil }

// attended reports whether the first caller of a payment waits on this node, or has its answer
// before the release is written. The next call is then a purchase of its own.
func (p *Payer) attended(id string) bool {
	p.mu.Lock()
	h := p.holds[id]
	p.mu.Unlock()
	if h == nil {
		return false
	}
	select {
	case <-h.over:
		return h.answered
	default:
		return !h.caller.left()
	}
}

// callerGrace bounds the wait for news of an identical call.
const callerGrace = 50 * time.Millisecond

// awaitNews gives the end of identical calls' connections time to be noticed: a client that is cut
// off and repeats at once can get here first, and its repeat would be a second payment. It waits
// for calls that were here before own, so that many at once do not hold up each other. It reports
// whether this call's caller is still there.
func (p *Payer) awaitNews(c caller, b *Begin, own *hold) bool {
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

// identical lists the holds of identical calls that were made before own.
func (p *Payer) identical(b *Begin, own *hold) []*hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var same []*hold
	for _, h := range p.holds {
		if h.keyID == b.KeyID && h.identity == b.Identity && h != own && (own == nil || h.number < own.number) {
			same = append(same, h)
		}
	}
	return same
}

// end notes how the attempt ended, before its release is written.
func (h *hold) end(answered bool) {
	h.answered = answered
	close(h.over)
}
