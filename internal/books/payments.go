package books

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Payments lists the key's payments, newest first. label is a state, a flag or "".
func (b *Books) Payments(ctx context.Context, k pay.Key, label string, limit int, before string) ([]*pay.Payment, error) {
	return b.store.Payments(ctx, pay.PaymentQuery{KeyID: k.ID, Label: label, Limit: limit, Before: before})
}

// SummaryQuery selects the spend events that a summary adds up.
type SummaryQuery struct {
	From, To time.Time // UTC days, both included, at most MaxSummaryDays
	KeyID    string    // one key of the organization; "" is all of them
}

// Summary adds up the spending of an organization's keys. *InputError for no days or too many,
// ErrKeyNotFound for a key of another organization.
func (b *Books) Summary(ctx context.Context, orgID string, q SummaryQuery) (pay.Summary, error) {
	from, to := pay.DayOf(q.From), pay.DayOf(q.To)
	switch days := int(to.Sub(from) / (24 * time.Hour)); {
	case q.From.IsZero() || q.To.IsZero() || days < 0:
		return pay.Summary{}, &pay.InputError{Field: "from", Reason: "the first day must not be behind the last one"}
	case days >= pay.MaxSummaryDays:
		return pay.Summary{}, &pay.InputError{Field: "from", Reason: fmt.Sprintf("at most %d days", pay.MaxSummaryDays)}
	}
	keys, err := b.organizationKeyIDs(ctx, orgID, q.KeyID)
	if err != nil {
		return pay.Summary{}, err
	}
	return b.store.SpendSummary(ctx, keys, from, to)
}

// OrganizationPayments lists payments of all keys of an organization, newest first. label is a
// state, a flag or "". At most 500. *InputError for another label.
func (b *Books) OrganizationPayments(ctx context.Context, orgID, label string, limit int) ([]*pay.Payment, error) {
	if label != "" && !pay.ValidLabel(label) {
		return nil, &pay.InputError{Field: "state", Reason: "neither a state nor a flag"}
	}
	keys, err := b.organizationKeyIDs(ctx, orgID, "")
	if err != nil {
		return nil, err
	}
	return b.store.PaymentsOf(ctx, keys, label, pageSize(limit))
}

// OrganizationPayment finds a payment of one of an organization's keys: ErrPaymentNotFound.
func (b *Books) OrganizationPayment(ctx context.Context, orgID, id string) (*pay.Payment, error) {
	row, err := b.store.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	k, err := b.store.Key(ctx, row.KeyID)
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", id, err)
	}
	if orgID == "" || k.OrganizationID != orgID {
		return nil, pay.ErrPaymentNotFound
	}
	return row, nil
}

// OrganizationPending counts and adds up the open payments of an organization's keys.
func (b *Books) OrganizationPending(ctx context.Context, orgID string) (Pending, error) {
	var all Pending
	keys, err := b.organizationKeyIDs(ctx, orgID, "")
	if err != nil {
		return all, err
	}
	for _, id := range keys {
		n, sum := pay.PendingCounters(id)
		for c, to := range map[pay.Counter]*x402.Amount{n: &all.Count, sum: &all.Amount} {
			one, err := b.store.Counter(ctx, c)
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
	return b.store.Payment(ctx, id)
}
