package pay

import (
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// repeat serves a call that an earlier payment answers.
func (b *Begin) repeat(v BeginView) (Begun, bool, error) {
	if failpoint.Off(failpoint.Repeats) {
		return Begun{}, false, nil
	}
	if b.Again != "" {
		p, err := v.Payment(b.Again)
		switch {
		case err != nil:
			return Begun{}, false, err
		case !p.Lives() || p.Retired:
			return Begun{How: Expired, Payment: p}, true, nil
		}
		return b.serve(p), true, nil
	}
	if b.IdempotencyKey != "" {
		p, err := v.ByIdempotencyKey(b.KeyID, b.IdempotencyKey)
		if err != nil {
			return Begun{}, false, err
		}
		if p == nil || !p.Lives() || p.Retired {
			return b.lost(v)
		}
		if p.Fingerprint != b.Fingerprint && (p.Fingerprint != b.Earlier.Fingerprint || p.Fingerprint == (Hash{})) {
			if err := b.redirected(v, nil); err != nil { // a client follows redirects with the key that it asked with
				return Begun{}, false, err
			}
			return Begun{}, false, ErrIdempotencyReused
		}
		return b.serve(p), true, nil
	}
	begun, found, err := b.awaited(v, b.Identity)
	if err == nil && !found && b.Earlier.Identity != (Hash{}) {
		begun, found, err = b.awaited(v, b.Earlier.Identity)
	}
	if err != nil || found || b.Answered == nil {
		return begun, found, err
	}
	answered := b.Answered()
	if answered == "" {
		return Begun{}, false, nil
	}
	p, err := v.Payment(answered)
	if err != nil || !p.Lives() || p.Retired {
		return Begun{}, false, err
	}
	return b.serve(p), true, nil
}

// awaited serves a call by a payment without an answer that was awaited when the call came: its seller may have taken
// long to say what it costs.
func (b *Begin) awaited(v BeginView, identity Hash) (Begun, bool, error) {
	var found *Begun
	came := b.Now
	if b.Arrival != nil && b.Arrival.at.Before(came) {
		came = b.Arrival.at
	}
	err := v.VisitAwaited(b.KeyID, identity, came, func(id string) (bool, error) {
		if b.Attended != nil && b.Attended(id) {
			return true, nil
		}
		p, err := v.Payment(id)
		if err != nil {
			return false, err
		}
		if !p.Awaited() || b.Anew && p.State == Settled {
			return true, nil
		}
		begun := b.serve(p)
		found = &begun
		return false, nil
	})
	if err != nil || found == nil {
		return Begun{}, false, err
	}
	return *found, true, nil
}

// serve says how a living earlier payment answers this call.
func (b *Begin) serve(p *Payment) Begun {
	switch {
	case p.State == Settled && p.Reconciled && b.Resend: // its payload is lost: nothing is signed for it
		return Begun{How: Spent, Payment: p}
	case p.State == Settled && (p.Reconciled || b.IdempotencyKey != "" && !b.Resend):
		return Begun{How: Stored, Payment: p}
	case p.Lease.Live(b.Now) || p.Lease.Owner != "" && b.Gripped != nil && b.Gripped(p.ID):
		return Begun{How: Busy, Payment: p}
	case p.State != Settled && !p.Sendable(b.Now):
		return Begun{How: Expired, Payment: p}
	}
	p = p.Clone()
	if p.Lease.Owner != "" {
		p.Lapse()
	}
	p.Grant(b.Owner, b.Now.Add(LeaseTime))
	if p.State != Settled {
		return Begun{How: Driven, Payment: p}
	}
	return Begun{How: Resent, Payment: p}
}

// revive takes the monthly place of a doubted payment again, if there still is one.
func (b *Begin) revive(v BeginView, begun Begun) (Begun, []CounterChange, error) {
	if err := b.current(v, nil); err != nil {
		return Begun{}, nil, err
	}
	if err := b.running(v, nil); err != nil { // as far as purser knows, nothing of it has left
		return Begun{}, nil, err
	}
	p := begun.Payment // a copy
	for _, r := range p.Reservations {
		if r.Released && r.Release == ReleasePlace {
			place := b.Place
			if place.Max == nil {
				place = b.Revival
			}
			if place.Max != nil && b.OrganizationID != "" && p.OrganizationID == "" {
				place.Max = &b.Unclaimed // its key was linked since, but its place stayed
			}
			place.Reservation = r
			if err := check(v, place); err != nil {
				return Begun{}, nil, err
			}
		}
	}
	begun.Revived = VerdictVoid
	if p.Refused {
		begun.Revived = VerdictRefused
	}
	return begun, p.revive(), nil
}

// lost serves a repeat whose payment only the chain has. If there is none, it leaves the number of
// the next attempt.
//
// The nonce under an idempotency key is derived from the key, the number of the attempt and a
// secret of the store. After a backup took the place of the books, the repeat has the nonce that
// the chain knows, and the token refuses to move the money twice. Where a challenge has chosen the nonce, the payment has
// the mark of the order.
func (b *Begin) lost(v BeginView) (Begun, bool, error) {
	last, err := v.Attempts(b.KeyID, b.IdempotencyKey)
	if err != nil {
		return Begun{}, false, err
	}
	p, number, err := v.Reconciled(b.KeyID, b.IdempotencyKey)
	if err != nil {
		return Begun{}, false, err
	}
	b.attempt = max(last, number) + 1
	if number <= last {
		p = nil // the books have a newer attempt
	}
	if b.Order > 0 && (p == nil || p.Retired) {
		if p, err = v.ByIdempotencyKey("", orderName(b.Order)); err != nil {
			return Begun{}, false, err
		}
	}
	// The terms are all that is known of the purchase.
	switch {
	case p == nil || p.Retired:
		return Begun{}, false, nil
	case b.Terms.Asset != (x402.Address{}) && !p.buys(b.Terms) && !p.buys(b.First):
		return Begun{}, false, ErrIdempotencyReused
	}
	return b.serve(p), true, nil
}

// buys reports whether the chain would see the same purchase. The chain does not tell the maximum of scheme upto, but
// what was taken.
func (p *Payment) buys(terms Terms) bool {
	t, fits := p.Terms, p.Terms.Amount == terms.Amount
	if t.Scheme == x402.SchemeUpto {
		fits = t.Amount.Cmp(terms.Amount) <= 0
	}
	return fits && t.bought().Scheme == terms.bought().Scheme && t.Network == terms.Network && t.Asset == terms.Asset && t.PayTo == terms.PayTo
}
