package pay

import "github.com/purserpay/purser/x402"

// The nonce of a payment under an idempotency key is derived from the key and the number of
// the attempt, with a secret of the store. Where the books are lost and a backup takes their
// place, the repeat of a request has the nonce again that the chain knows it by: the payment
// is recognized, or, if nobody has reconciled the books, the token refuses to move the money
// twice.

// attempts is what the sequence of an idempotency key says.
type attempts struct {
	next uint64 // number of the next attempt
	// last is the newest reconciled payment behind the books' own; nil: none.
	last *Payment
}

// sequence finds the first attempt that neither the books nor the chain know.
func sequence(v BeginView, keyID, idempotencyKey string) (a attempts, err error) {
	last, err := v.Attempts(keyID, idempotencyKey)
	if err != nil {
		return a, err
	}
	p, number, err := v.Reconciled(keyID, idempotencyKey)
	if err != nil {
		return a, err
	}
	if number > last {
		a.last = p
	}
	a.next = max(last, number) + 1
	return a, nil
}

// lost serves a repeat whose payment is not in the books, or not any more, but on the chain.
// If there is none, it leaves the number of the next attempt.
func (b *Begin) lost(v BeginView) (Begun, bool, error) {
	a, err := sequence(v, b.KeyID, b.IdempotencyKey)
	if err != nil {
		return Begun{}, false, err
	}
	b.attempt = a.next
	return b.again(a.last)
}

// again serves a repeat whose payment is known from the chain only: what it was for is not
// known beyond its terms, and its payload is lost. Nothing is signed for it.
func (b *Begin) again(p *Payment) (Begun, bool, error) {
	switch {
	case p == nil || p.Retired:
		return Begun{}, false, nil
	case b.Terms.Asset != (x402.Address{}) && !p.Terms.buys(b.Terms):
		return Begun{}, false, ErrIdempotencyReused
	case b.Resend:
		return Begun{How: Spent, Payment: p}, true, nil
	}
	return Begun{How: Stored, Payment: p}, true, nil
}

// buys reports whether the chain would see the same purchase.
func (t Terms) buys(other Terms) bool {
	return t.Network == other.Network && t.Asset == other.Asset && t.PayTo == other.PayTo && t.Amount == other.Amount
}
