package pay

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/x402"
)

// SummaryQuery selects what a Summary is of.
type SummaryQuery struct {
	From, To time.Time // UTC days, both included, at most MaxSummaryDays
	KeyID    string    // one key of the organization; "" is all of them
}

// Summary adds up what an organization's keys spent: *InputError for days that are none or
// too many, ErrKeyNotFound for a key that is not the organization's.
func (p *Payer) Summary(ctx context.Context, orgID string, q SummaryQuery) (Summary, error) {
	from, to := DayOf(q.From), DayOf(q.To)
	switch days := int(to.Sub(from) / (24 * time.Hour)); {
	case q.From.IsZero() || q.To.IsZero() || days < 0:
		return Summary{}, &InputError{Field: "from", Reason: "the first day must not be behind the last one"}
	case days >= MaxSummaryDays:
		return Summary{}, &InputError{Field: "from", Reason: fmt.Sprintf("at most %d days", MaxSummaryDays)}
	}
	keys, err := p.organizationKeyIDs(ctx, orgID, q.KeyID)
	if err != nil {
		return Summary{}, err
	}
	return p.store.SpendSummary(ctx, keys, from, to)
}

// OrganizationPayments lists payments of all keys of an organization, newest first. label is a
// state, a flag or "". At most 500. *InputError for another label.
func (p *Payer) OrganizationPayments(ctx context.Context, orgID, label string, limit int) ([]*Payment, error) {
	if label != "" && !ValidLabel(label) {
		return nil, &InputError{Field: "state", Reason: "neither a state nor a flag"}
	}
	keys, err := p.organizationKeyIDs(ctx, orgID, "")
	if err != nil {
		return nil, err
	}
	return p.store.PaymentsOf(ctx, keys, label, pageSize(limit))
}

// OrganizationPayment finds a payment of one of an organization's keys: ErrPaymentNotFound,
// also for another's.
func (p *Payer) OrganizationPayment(ctx context.Context, orgID, id string) (*Payment, error) {
	row, err := p.store.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	k, err := p.store.Key(ctx, row.KeyID)
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", id, err)
	}
	if orgID == "" || k.OrganizationID != orgID {
		return nil, ErrPaymentNotFound
	}
	return row, nil
}

// OrganizationPending is what the open payments of an organization's keys amount to.
func (p *Payer) OrganizationPending(ctx context.Context, orgID string) (Pending, error) {
	var all Pending
	keys, err := p.organizationKeyIDs(ctx, orgID, "")
	if err != nil {
		return all, err
	}
	for _, id := range keys {
		n, sum := PendingCounters(id)
		for c, to := range map[Counter]*x402.Amount{n: &all.Count, sum: &all.Amount} {
			one, err := p.store.Counter(ctx, c)
			if err != nil {
				return all, err
			}
			*to = saturated(*to, one)
		}
	}
	return all, nil
}

// MaxCounted is up to what OrganizationCount counts.
const MaxCounted = 10_000

// Countable reports whether payments with a label are counted: those that most payments get
// (settled, confirmed) are not.
func Countable(label string) bool {
	return ValidLabel(label) && label != string(Settled) && label != "confirmed"
}

// OrganizationCount counts the payments of an organization's keys with a label, such as
// "open", "unresolved" or "disputed", up to MaxCounted. *InputError unless it is Countable.
func (p *Payer) OrganizationCount(ctx context.Context, orgID, label string) (int, error) {
	if !Countable(label) {
		return 0, &InputError{Field: "state", Reason: "not a label that is counted"}
	}
	keys, err := p.organizationKeyIDs(ctx, orgID, "")
	if err != nil {
		return 0, err
	}
	return p.store.CountPayments(ctx, keys, label, MaxCounted)
}
