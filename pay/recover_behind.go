package pay

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// openPage is how many open payments are read at once.
const openPage = 500

// openFirst puts the open payments that are due in front, when more is due than a batch has room
// for: they hold money back, while a settled payment only waits to be confirmed. Under sustained
// load there may be a long queue of those.
func (p *Payer) openFirst(ctx context.Context, due []*Payment, now time.Time) ([]*Payment, error) {
	if len(due) < recoverBatch {
		return due, nil
	}
	var first []*Payment
	for q := (LabelQuery{Label: string(Open), Limit: openPage}); len(first) < recoverBatch; {
		page, err := p.store.AllPayments(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing open payments: %w", err)
		}
		for _, row := range page {
			if !row.Check.IsZero() && !row.Check.After(now) {
				first = append(first, row)
			}
		}
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	due = slices.DeleteFunc(due, func(row *Payment) bool { return row.State == Open })
	return append(first, due...), nil
}
