package pay

import (
	"context"
	"fmt"
)

// Undelivered says how a seller answered a paid request without delivering anything: with an error or another 402, or
// with a body that ended early or was missing.
type Undelivered struct {
	Status int // of the answer; 0: none came
}

// firstError is the lowest status of an answer that is an error (RFC 9110, section 15.5).
const firstError = 400

// deliver notes whether the seller has delivered, when the lease ended. It has for good once the caller had its answer:
// what the seller answers to a repeat of that says nothing.
func (p *Payment) deliver(was Payment, o Outcome) {
	switch {
	case was.Answered && !was.Undelivered:
	case o.Undelivered != nil:
		p.Undelivered, p.AnswerStatus = true, o.Undelivered.Status
	case o.Answered:
		p.Undelivered, p.AnswerStatus = false, 0
	}
}

// NotDelivered reports whether the payment has moved money, or may have, and its request brought nothing.
func (p *Payment) NotDelivered() bool { return p.Undelivered && p.State != Void && !p.Disputed }

// PaidForNothing reports whether the payment has moved money, as far as is known, and its request brought nothing.
func (p *Payment) PaidForNothing() bool { return p.NotDelivered() && p.State == Settled }

// Answer says in words how the seller answered a request that it has not delivered, behind "the key has paid, and".
func (p *Payment) Answer() string {
	switch {
	case p.AnswerStatus == 0:
		return "no answer came"
	case p.AnswerStatus < firstError:
		return fmt.Sprintf("the answer %d was empty or broke off", p.AnswerStatus)
	}
	return fmt.Sprintf("the seller answered %d", p.AnswerStatus)
}

// Deliveries counts settled payments of a key to a host, and those of them that brought nothing.
type Deliveries struct{ Undelivered, Of int }

// String says the rate of payments that brought nothing, as the begin of a sentence.
func (d Deliveries) String() string {
	return fmt.Sprintf("%d of the last %d payments of this key to this host", d.Undelivered, d.Of)
}

const (
	// deliveriesOf bounds the payments in a rate, and deliveriesLooked those of the key among which they are looked for.
	deliveriesOf     = 20
	deliveriesLooked = 100
)

// deliveries counts the newest payments of a payment's key to its host, without the payment itself. It is for people:
// what cannot be read is left out.
func (p *Payer) deliveries(ctx context.Context, row *Payment) (d Deliveries) {
	list, err := p.store.Payments(ctx, PaymentQuery{KeyID: row.KeyID, Limit: deliveriesLooked})
	if err != nil {
		return d
	}
	for _, one := range list {
		if one.ID == row.ID || one.Host != row.Host || one.State != Settled || one.Disputed || d.Of == deliveriesOf-1 {
			continue
		}
		d.Of++
		if one.Undelivered {
			d.Undelivered++
		}
	}
	return d
}
