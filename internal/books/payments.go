package books

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Payments lists the key's payments, newest first. label is a state, a flag or "".
func (b *Books) Payments(ctx context.Context, k pay.Key, label string, limit int, before string) ([]*pay.Payment, error) {
	return b.reader.Payments(ctx, pay.PaymentQuery{KeyID: k.ID, Label: label, Limit: limit, Before: before})
}

// SummaryQuery selects the spend events that a summary adds up.
type SummaryQuery struct {
	From, To time.Time // UTC days, both included, at most MaxSummaryDays
	KeyID    string    // one key of the scope; "" is all of them
}

// check finds what is wrong with the days: *InputError.
func (q SummaryQuery) check() error {
	switch days := int(pay.DayOf(q.To).Sub(pay.DayOf(q.From)) / (24 * time.Hour)); {
	case q.From.IsZero() || q.To.IsZero() || days < 0:
		return &pay.InputError{Field: "from", Reason: "the first day must not be behind the last one"}
	case days >= pay.MaxSummaryDays:
		return &pay.InputError{Field: "from", Reason: fmt.Sprintf("at most %d days", pay.MaxSummaryDays)}
	}
	return nil
}

// SummaryIn adds up the spending of a scope's keys. *InputError for no days or too many,
// ErrKeyNotFound for a key that the scope does not see.
func (b *Books) SummaryIn(ctx context.Context, s Scope, q SummaryQuery) (pay.Summary, error) {
	if err := q.check(); err != nil {
		return pay.Summary{}, err
	}
	keys, err := b.keyIDsIn(ctx, s, q.KeyID)
	if err != nil {
		return pay.Summary{}, err
	}
	return b.reader.SpendSummary(ctx, keys, pay.DayOf(q.From), pay.DayOf(q.To))
}

// PaymentsIn lists payments of all keys of a scope, newest first. label is a state, a flag or "". At
// most 500. *InputError for another label.
func (b *Books) PaymentsIn(ctx context.Context, s Scope, label string, limit int) ([]*pay.Payment, error) {
	if label != "" && !pay.ValidLabel(label) {
		return nil, &pay.InputError{Field: "state", Reason: "neither a state nor a flag"}
	}
	if s.all {
		return b.reader.AllPayments(ctx, pay.LabelQuery{Label: label, Limit: pageSize(limit)})
	}
	keys, err := b.keyIDsIn(ctx, s, "")
	if err != nil {
		return nil, err
	}
	return b.reader.PaymentsOf(ctx, keys, label, pageSize(limit))
}

// PaymentIn finds a payment of one of a scope's keys: ErrPaymentNotFound.
func (b *Books) PaymentIn(ctx context.Context, s Scope, id string) (*pay.Payment, error) {
	row, err := b.reader.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	k, err := b.reader.Key(ctx, row.KeyID)
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", id, err)
	}
	if !s.sees(k) {
		return nil, pay.ErrPaymentNotFound
	}
	return row, nil
}

// maxSameTransaction bounds the payments of one transaction that a search looks at. A facilitator may settle several in one.
const maxSameTransaction = 100

// TransactionIn lists payments of a scope's keys that moved money in a transaction, by id: at most 100.
func (b *Books) TransactionIn(ctx context.Context, s Scope, hash string) ([]*pay.Payment, error) {
	list, err := b.reader.PaymentsByTransaction(ctx, hash, maxSameTransaction)
	if err != nil {
		return nil, err
	}
	var seen []*pay.Payment
	for _, p := range list {
		k, err := b.reader.Key(ctx, p.KeyID)
		if err != nil {
			return nil, fmt.Errorf("payment %s: %w", p.ID, err)
		}
		if s.sees(k) {
			seen = append(seen, p)
		}
	}
	return seen, nil
}

// PendingIn counts and adds up the open payments of a scope's keys.
func (b *Books) PendingIn(ctx context.Context, s Scope) (Pending, error) {
	var all Pending
	keys, err := b.keyIDsIn(ctx, s, "")
	if err != nil {
		return all, err
	}
	for _, id := range keys {
		n, sum := pay.PendingCounters(id)
		for c, to := range map[pay.Counter]*money.Amount{n: &all.Count, sum: &all.Amount} {
			one, err := b.reader.Counter(ctx, c)
			if err != nil {
				return all, err
			}
			*to = to.AddSaturated(one)
		}
	}
	return all, nil
}

// AnyPayment finds a payment of any key: ErrPaymentNotFound. For operators.
func (b *Books) AnyPayment(ctx context.Context, id string) (*pay.Payment, error) {
	return b.reader.Payment(ctx, id)
}

// DeclinesIn lists what was declined to a scope's keys from one UTC day to another, in no order.
// Operators see requests without a key, too. ErrKeyNotFound for a key that the scope does not see.
func (b *Books) DeclinesIn(ctx context.Context, s Scope, q SummaryQuery) ([]pay.Declined, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	keys, err := b.keyIDsIn(ctx, s, q.KeyID)
	if err != nil {
		return nil, err
	}
	if s.all && q.KeyID == "" {
		keys = append(keys, "")
	}
	return b.reader.Declines(ctx, keys, q.From, q.To)
}

// PaymentListIn lists payments of a scope's keys, or of one of them, newest first, in pages of at
// most 500. ErrKeyNotFound; *InputError for an invalid state or task.
func (b *Books) PaymentListIn(ctx context.Context, s Scope, keyID string, f pay.PaymentFilter) (pay.PaymentPage, error) {
	keys, err := b.filterIn(ctx, s, keyID, &f)
	if err != nil {
		return pay.PaymentPage{}, err
	}
	f.Limit = pageSize(f.Limit)
	return b.reader.ListPayments(ctx, keys, f)
}

// SumPaymentsIn adds up the payments that PaymentListIn lists, of a bounded number of rows: see
// [pay.Totals].
func (b *Books) SumPaymentsIn(ctx context.Context, s Scope, keyID string, f pay.PaymentFilter) (pay.Totals, error) {
	keys, err := b.filterIn(ctx, s, keyID, &f)
	if err != nil {
		return pay.Totals{}, err
	}
	return b.reader.SumPayments(ctx, keys, f)
}

// filterIn checks a filter and returns the keys of a scope that it selects.
func (b *Books) filterIn(ctx context.Context, s Scope, keyID string, f *pay.PaymentFilter) ([]string, error) {
	if f.Label != "" && !pay.ValidLabel(f.Label) {
		return nil, &pay.InputError{Field: "state", Reason: "neither a state nor a flag"}
	}
	if err := checkTask(f.Task); err != nil {
		return nil, err
	}
	f.Host, f.Tool = pay.RecordedPlace(f.Host)
	if f.All = s.all && keyID == ""; f.All {
		return nil, nil
	}
	return b.keyIDsIn(ctx, s, keyID)
}
