package boltstore

import (
	"context"
	"fmt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// History holds a settled payment with its spend events: the event of its settlement and, if it
// is disputed, the correcting one.
type History struct {
	Payment *pay.Payment
	Events  []pay.SpendEvent
}

// Import writes payments that were settled elsewhere, all or none, in one transaction instead of
// the two that paying takes. It decides nothing and changes no counter: the rows must reserve
// nothing. Only package boltfill calls it, to make long histories.
func (d *DB) Import(ctx context.Context, list []History) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		for _, h := range list {
			p := h.Payment
			if err := storekit.NewPayment(b, p.ID); err != nil {
				return fmt.Errorf("import: %w", err)
			}
			if p.State != pay.Settled || len(p.Reservations) > 0 || p.Lease.Owner != "" {
				return fmt.Errorf("import: payment %s is not settled, is leased or reserves something", p.ID)
			}
			for e := range h.Events {
				if err := storekit.NewEvent(b, &h.Events[e]); err != nil {
					return fmt.Errorf("import: %w", err)
				}
			}
		}
		for _, h := range list {
			if err := b.PutPayment(nil, h.Payment.Clone()); err != nil {
				return err
			}
			for e := range h.Events {
				if err := b.PutEvent(h.Payment, &h.Events[e]); err != nil {
					return err
				}
			}
		}
		return nil
	}})
}
