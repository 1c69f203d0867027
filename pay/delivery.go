package pay

import (
	"context"
	"fmt"
)

// Undelivered says how a seller answered a paid request without delivering anything: with an error or another 402, or
// with a body that ended early or was missing.
type Undelivered struct {
	Status int  // of the answer; 0: none came
	Repeat bool // the request was sent before; set by [Attempt.Failed]
}

// Heard is the answer to a paid request, as it came from the seller.
type Heard struct {
	Status int // of HTTP
	Body   AnswerBody
}

// AnswerBody is the evidence of an answer's body. The body itself is not kept.
type AnswerBody struct {
	// Hash is the SHA-256 of the body's bytes as the seller sent them, with their Content-Encoding. Zero: not known.
	Hash Hash  `json:"Hash,omitzero"`
	Size int64 `json:"Size,omitempty"` // in bytes, of what was hashed
	// Cut: the body goes on behind what was hashed, or may. It broke off, or the client left, or the call ended first.
	Cut bool `json:"Cut,omitempty"`
}

// firstError is the lowest status of an answer that is an error (RFC 9110, section 15.5).
const firstError = 400

// deliver notes whether the seller has delivered, and with which answer, when the lease ended. It has for good once the
// caller had its answer: what the seller answers to a repeat of that says nothing.
func (p *Payment) deliver(was Payment, o Outcome) {
	var heard Heard
	if o.Heard != nil {
		heard = *o.Heard
	}
	switch {
	case was.Answered && !was.Undelivered:
		return
	case o.Undelivered != nil:
		heard.Status = o.Undelivered.Status
		p.Undelivered, p.Withheld = true, p.Withheld || !o.Undelivered.Repeat
	case o.Answered:
		heard.Body.Cut = false // an answer may have an end of its own, where its client leaves
		p.Undelivered, p.Withheld = false, false
	case p.Undelivered || o.Heard == nil: // the client has left, which says nothing
		return
	}
	p.AnswerStatus, p.AnswerBody = heard.Status, heard.Body
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
	// runPages bounds the pages of spend events in which a run of payments that brought nothing is looked for.
	runPages = 10
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

// sawForNothing tells of a payment that has moved money and brought nothing. It pauses the host for the key after too
// many of them in a row.
func (p *Payer) sawForNothing(ctx context.Context, row *Payment, fx Effects) {
	if !fx.ForNothing || row == nil {
		return
	}
	p.log.WarnContext(ctx, "payment is paid and not delivered", append(aboutPayment(row), "answer", row.AnswerStatus, "transaction", row.Transaction)...)
	p.opts.Observer.Undelivered(row)
	most := p.opts.Failures.ForNothing
	if most == 0 || row.Host == "" || !row.Withheld {
		return
	}
	nothing, err := p.forNothing(ctx, row, most)
	if err == nil && nothing {
		err = p.pauseHost(ctx, row, most)
	}
	if err != nil { // the next such payment does it
		p.log.WarnContext(ctx, "host not paused for a key that pays it for nothing", "key", row.KeyID, "host", row.Host, "error", err)
	}
}

// forNothing reports whether the newest settled payments of a payment's key to its host, so many, brought nothing. Payments
// for which only a repeat brought nothing are left out.
func (p *Payer) forNothing(ctx context.Context, row *Payment, most int) (bool, error) {
	query := OrganizationSpendQuery{Host: row.Host, Limit: most}
	for range runPages {
		page, err := p.store.ListSpend(ctx, []string{row.KeyID}, query)
		if err != nil {
			return false, err
		}
		for _, e := range page.Entries {
			one, err := p.store.Payment(ctx, e.PaymentID)
			switch {
			case err != nil || !one.PaidForNothing():
				return false, err
			case !one.Withheld: // it says nothing of the seller
			case most == 1:
				return true, nil
			default:
				most--
			}
		}
		if query.Before = page.Next; query.Before == "" {
			break
		}
	}
	return false, nil
}

// pauseHost pauses a payment's host for its key.
func (p *Payer) pauseHost(ctx context.Context, row *Payment, after int) error {
	pause := Pause{At: p.now().UTC(), Reason: fmt.Sprintf("%d payments in a row brought nothing", after), By: Actor{Kind: ActorPurser}}
	k, err := p.store.StopKey(WithActor(ctx, pause.By), row.KeyID, KeyStop{Do: StopPause, Host: row.Host, At: pause.At, Reason: pause.Reason, By: pause.By})
	if err != nil {
		return fmt.Errorf("pausing host %s for key %s: %w", row.Host, row.KeyID, err)
	}
	if k.PausedHosts[row.Host] != pause {
		return nil // it was paused before
	}
	p.log.WarnContext(ctx, "host paused for a key", "key", row.KeyID, "host", row.Host, "reason", pause.Reason)
	if p.opts.Telling.On {
		p.tellSoon([]untold{{row.KeyID, func(name string) Notice { return hostPausedNotice(name, row, pause) }}}, nil)
	}
	return nil
}
