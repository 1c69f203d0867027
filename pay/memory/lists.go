package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// newest copies the newest payments below one that are wanted, at most limit.
func (s *Store) newest(ctx context.Context, before string, limit int, wanted func(p *pay.Payment) bool) (list []*pay.Payment, err error) {
	err = s.do(ctx, func(r *rows) error {
		for _, p := range r.payments.descending(before) {
			if len(list) >= limit {
				break
			}
			if wanted(p) {
				list = append(list, p.Clone())
			}
		}
		return nil
	})
	return list, err
}

// Payment finds a payment.
func (s *Store) Payment(ctx context.Context, id string) (*pay.Payment, error) {
	return read(ctx, s, func(r *rows) (*pay.Payment, error) { return r.Payment(id) })
}

// PaymentsByTransaction lists payments with the hash of a transaction.
func (s *Store) PaymentsByTransaction(ctx context.Context, hash string, limit int) ([]*pay.Payment, error) {
	return read(ctx, s, func(r *rows) (list []*pay.Payment, err error) {
		for _, p := range r.payments.ascending("") {
			if len(list) < limit && p.Transaction != "" && strings.EqualFold(p.Transaction, hash) {
				list = append(list, p.Clone())
			}
		}
		return list, nil
	})
}

// Payments lists a key's payments, newest first.
func (s *Store) Payments(ctx context.Context, q pay.PaymentQuery) ([]*pay.Payment, error) {
	return s.newest(ctx, q.Before, q.Limit, func(p *pay.Payment) bool { return p.KeyID == q.KeyID && p.Labelled(q.Label) })
}

// AllPayments lists payments of all keys, newest first.
func (s *Store) AllPayments(ctx context.Context, q pay.LabelQuery) ([]*pay.Payment, error) {
	return s.newest(ctx, q.Before, q.Limit, q.Wants)
}

// PaymentsOf lists the keys' payments, newest first.
func (s *Store) PaymentsOf(ctx context.Context, keyIDs []string, label string, limit int) ([]*pay.Payment, error) {
	return s.newest(ctx, "", limit, func(p *pay.Payment) bool { return slices.Contains(keyIDs, p.KeyID) && p.Labelled(label) })
}

// count counts the payments that are wanted.
func (s *Store) count(ctx context.Context, wanted func(p *pay.Payment) bool) (int, error) {
	return read(ctx, s, func(r *rows) (n int, err error) {
		for _, p := range r.payments.ascending("") {
			if wanted(p) {
				n++
			}
		}
		return n, nil
	})
}

// CountOpen counts the payments with a label over all keys.
func (s *Store) CountOpen(ctx context.Context, label string) (int, error) {
	return s.count(ctx, func(p *pay.Payment) bool { return p.Labelled(label) })
}

// Due lists payments whose Check has come, the longest due first.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) (list []*pay.Payment, err error) {
	err = s.do(ctx, func(r *rows) error {
		for _, p := range r.payments.ascending("") {
			if !p.Check.IsZero() && !p.Check.After(now) {
				list = append(list, p.Clone())
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *pay.Payment) int { return cmp.Or(a.Check.Compare(b.Check), strings.Compare(a.ID, b.ID)) })
	return list[:min(len(list), limit)], err
}

// Counter reads a counter.
func (s *Store) Counter(ctx context.Context, c pay.Counter) (money.Amount, error) {
	return read(ctx, s, func(r *rows) (money.Amount, error) { return r.counters.row[string(c)], nil })
}

// VisitCounters visits the counters whose names begin with a prefix.
func (s *Store) VisitCounters(ctx context.Context, prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	return s.do(ctx, func(r *rows) error { return r.VisitCounters(prefix, visit) })
}

// SpendEvents lists a key's events without those of withdrawals, newest first.
func (s *Store) SpendEvents(ctx context.Context, keyID string, q pay.SpendQuery) (list []pay.SpendEvent, err error) {
	wanted := func(e pay.SpendEvent) bool { return e.KeyID == keyID && (q.Task == "" || e.Task == q.Task) }
	err = s.do(ctx, func(r *rows) error {
		if e, ok := r.events.get(q.Before); q.Before != "" && (!ok || !wanted(e)) {
			return pay.ErrEventNotFound
		}
		for _, e := range r.events.descending(q.Before) {
			if len(list) >= q.Limit {
				break
			}
			if wanted(e) && !e.Withdraws() {
				list = append(list, e)
			}
		}
		return nil
	})
	return list, err
}

// SpendSummary adds up the spend of the keys from one UTC day to another.
func (s *Store) SpendSummary(ctx context.Context, keyIDs []string, from, to time.Time) (pay.Summary, error) {
	t := pay.NewTally(from, to)
	err := s.do(ctx, func(r *rows) error {
		for _, e := range slices.Concat(r.gone, slices.Collect(maps.Values(r.events.row))) {
			if slices.Contains(keyIDs, e.KeyID) {
				t.Event(&e)
			}
		}
		return nil
	})
	if err != nil {
		return pay.Summary{}, err
	}
	return t.Summary(), nil
}

// ListSpend lists the keys' events, newest first.
func (s *Store) ListSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (found pay.SpendPage, err error) {
	err = s.do(ctx, func(r *rows) error {
		if e, ok := r.events.get(q.Before); q.Before != "" && (!ok || !slices.Contains(keyIDs, e.KeyID)) {
			return pay.ErrEventNotFound
		}
		if q.Limit < 1 {
			return nil
		}
		for _, e := range r.events.descending(q.Before) {
			if !slices.Contains(keyIDs, e.KeyID) || !q.Wants(&e) {
				continue
			}
			p, err := r.Payment(e.PaymentID)
			if err != nil {
				return err
			}
			if q.Payee != nil && p.Terms.PayTo != *q.Payee {
				continue
			}
			if len(found.Entries) == q.Limit {
				found.Next = found.Entries[q.Limit-1].ID
				break
			}
			found.Entries = append(found.Entries, p.Entry(e))
		}
		return nil
	})
	return found, err
}
