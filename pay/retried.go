package pay

import (
	"cmp"
	"time"
)

const (
	// retriedTime bounds how long after an answer a call that says that it repeats an earlier one gets its payment.
	retriedTime = 2 * time.Minute
	// maxRecent bounds the answered payments of a key that are remembered for that.
	maxRecent = 32
)

// recent is a payment whose caller was answered.
type recent struct {
	paymentID string
	at        time.Time
}

// remember keeps a payment whose caller was answered, for calls that say that they repeat its call.
func (p *Payer) remember(h *hold) {
	p.recent.Set(h.keyID, h.identity, recent{h.id, p.now()})
}

// repeatedBy returns the answered payment that a call repeats, by when both began or by its own word; "": none.
func (p *Payer) repeatedBy(r Request, identity Hash, anew bool) (paymentID string) {
	if !anew && r.Arrival != nil {
		paymentID = cmp.Or(r.repeated, r.Arrival.repeated(identity))
	}
	if paymentID == "" && r.Retried {
		paymentID = p.remembered(r, identity)
	}
	return paymentID
}

// remembered returns the payment that a call says to repeat, which was answered a short time ago; "": none.
func (p *Payer) remembered(r Request, identity Hash) string {
	last := p.recent.Get(r.Key.ID, identity)
	if age := p.now().Sub(last.at); age > retriedTime || age < -retriedTime {
		return ""
	}
	return last.paymentID
}

// forget drops what a call without a payment could have been told from: a repeat that comes now is that call's.
func (p *Payer) forget(r Request) {
	if r.HTTP != nil && !r.Retried && r.IdempotencyKey == "" && r.Again == "" {
		p.recent.Remove(r.Key.ID, identityOf(r.Task, r.HTTP.fingerprint(r.HTTP.Body)))
	}
}
