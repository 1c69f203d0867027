package pay

import (
	"context"
	"fmt"
	"time"
)

// openPage is the number of open payments that are read at once.
const openPage = 500

// openFirst puts the open payments that are due in front, when more is due than a batch has room
// for: they hold money back, while a settled payment only waits to be confirmed. Under sustained
// load there may be a long queue of those. Of the open ones the longest due come first, so that
// newer ones do not hold them up for ever.
func (p *Payer) openFirst(ctx context.Context, due []*Payment, now time.Time) ([]*Payment, error) {
	if len(due) < recoverBatch {
		return due, nil
	}
	var first, others []*Payment
	listed := map[string]bool{}
	for _, row := range due {
		switch {
		case row.State != Open:
			others = append(others, row)
		case !p.beingSent(row, now): // those would fill the batch
			first, listed[row.ID] = append(first, row), true
		}
	}
	for q := (LabelQuery{Label: string(Open), Limit: openPage}); len(first) < recoverBatch; {
		page, err := p.store.AllPayments(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing open payments: %w", err)
		}
		for _, row := range page {
			if !row.Check.IsZero() && !row.Check.After(now) && !listed[row.ID] && !p.beingSent(row, now) {
				first = append(first, row)
			}
		}
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	return append(first, others...), nil
}
