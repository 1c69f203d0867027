package books

import (
	"context"
	"errors"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Pending counts and adds up open payments, in the smallest unit.
type Pending struct{ Count, Amount money.Amount }

// Spend lists the key's spend events, newest first, and adds up all open payments of the key.
// ErrEventNotFound; *InputError for an invalid task.
func (b *Books) Spend(ctx context.Context, k pay.Key, q pay.SpendQuery) ([]pay.SpendEvent, Pending, error) {
	if err := checkTask(q.Task); err != nil {
		return nil, Pending{}, err
	}
	events, err := b.reader.SpendEvents(ctx, k.ID, q)
	if err != nil {
		return nil, Pending{}, err
	}
	n, sum := pay.PendingCounters(k.ID)
	count, err1 := b.reader.Counter(ctx, n)
	amount, err2 := b.reader.Counter(ctx, sum)
	return events, Pending{Count: count, Amount: amount}, errors.Join(err1, err2)
}

// SpendIn lists the spend events of a scope's keys, newest first. ErrKeyNotFound for a key,
// ErrEventNotFound for a position that the scope does not see; *InputError for an invalid task.
func (b *Books) SpendIn(ctx context.Context, s Scope, q pay.OrganizationSpendQuery) (pay.SpendPage, error) {
	if err := checkTask(q.Task); err != nil {
		return pay.SpendPage{}, err
	}
	keys, err := b.keyIDsIn(ctx, s, q.KeyID)
	if err != nil {
		return pay.SpendPage{}, err
	}
	q.Limit = pageSize(q.Limit)
	q.Host, q.Tool = pay.RecordedPlace(q.Host)
	return b.reader.ListSpend(ctx, keys, q)
}

// pageSize bounds the rows of a page: 50 by default, 500 at most.
func pageSize(limit int) int {
	if limit < 1 {
		return 50
	}
	return min(limit, 500)
}

// AnySpend lists the spend events of any keys, newest first, for operators. ErrEventNotFound for a
// position that none of these keys has; *InputError for an invalid task.
func (b *Books) AnySpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (pay.SpendPage, error) {
	if err := checkTask(q.Task); err != nil {
		return pay.SpendPage{}, err
	}
	q.Limit = pageSize(q.Limit)
	q.Host, q.Tool = pay.RecordedPlace(q.Host)
	return b.reader.ListSpend(ctx, keyIDs, q)
}

// checkTask finds what is wrong with the task that a list is filtered by: *InputError. "" is any.
func checkTask(task string) error {
	if task != "" && !policy.ValidTask(task) {
		return &pay.InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	return nil
}

// SumSpendIn adds up the spend events that SpendIn lists, of a bounded number of rows: see [pay.Totals].
func (b *Books) SumSpendIn(ctx context.Context, s Scope, q pay.OrganizationSpendQuery) (pay.Totals, error) {
	if err := checkTask(q.Task); err != nil {
		return pay.Totals{}, err
	}
	keys, err := b.keyIDsIn(ctx, s, q.KeyID)
	if err != nil {
		return pay.Totals{}, err
	}
	q.Host, q.Tool = pay.RecordedPlace(q.Host)
	return b.reader.SumSpend(ctx, keys, q)
}

// VisitSpendIn visits the daily sums of a scope's keys: see [pay.SpendBook]. ErrKeyNotFound.
func (b *Books) VisitSpendIn(ctx context.Context, s Scope, keyID string, from, to time.Time, visit pay.SpendDays) error {
	keys, err := b.keyIDsIn(ctx, s, keyID)
	if err != nil {
		return err
	}
	return b.reader.VisitSpendDays(ctx, keys, from, to, visit)
}
