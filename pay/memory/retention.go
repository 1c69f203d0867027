package memory

import (
	"context"
	"errors"

	"github.com/purserpay/purser/pay"
)

// attemptsOf names an idempotency key of an API key.
func attemptsOf(keyID, idempotencyKey string) string { return keyID + "\x00" + idempotencyKey }

// ClosedPayments lists settled and void payments, oldest first.
func (s *Store) ClosedPayments(ctx context.Context, q pay.ClosedQuery) (page pay.ClosedPage, err error) {
	err = s.do(ctx, func(r *rows) error {
		for id, p := range r.payments.ascending(q.After) {
			if !q.Wants(p) {
				continue
			}
			if len(page.Payments) == q.Limit {
				page.Next = page.Payments[q.Limit-1].ID
				break
			}
			closed := pay.ClosedPayment{Payment: p.Clone()}
			for _, e := range r.events.ascending("") {
				if e.PaymentID == id {
					closed.Events = append(closed.Events, e)
				}
			}
			page.Payments = append(page.Payments, closed)
		}
		return nil
	})
	return page, err
}

// RemovePayments removes payments whose time is over.
func (s *Store) RemovePayments(ctx context.Context, removal pay.Removal) (done pay.Removed, err error) {
	err = s.do(ctx, func(r *rows) error {
		if restore, err := r.Restored(); err != nil || restore != nil {
			return errors.Join(err, restore.Refusal())
		}
		var old []*pay.Payment
		for _, p := range r.payments.ascending(removal.After) {
			if !removal.Removes(p) {
				continue
			}
			if len(old) == removal.Limit {
				done.Next = old[len(old)-1].ID
				break
			}
			old = append(old, p)
		}
		for _, p := range old {
			r.remove(p)
		}
		if done.Count = len(old); done.Count > 0 && r.removed.Before(removal.Before) {
			r.removed = removal.Before
		}
		return nil
	})
	return done, err
}

// remove removes a payment. Of an attempt under an idempotency key it keeps the number.
func (r *rows) remove(p *pay.Payment) {
	if p.Attempt > 0 {
		of := attemptsOf(p.KeyID, p.IdempotencyKey)
		r.attempts[of] = max(r.attempts[of], p.Attempt)
	}
	var gone []pay.SpendEvent
	for _, e := range r.events.ascending("") {
		if e.PaymentID == p.ID {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		r.events.delete(e.ID)
	}
	r.gone = append(r.gone, gone...)
	r.payments.delete(p.ID)
}
