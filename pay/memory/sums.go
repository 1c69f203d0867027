package memory

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// VisitSpendDays visits the daily sums of the keys.
func (s *Store) VisitSpendDays(ctx context.Context, keyIDs []string, from, to time.Time, visit pay.SpendDays) error {
	from, to = pay.DayOf(from), pay.DayOf(to)
	return s.do(ctx, func(r *rows) error {
		for _, e := range slices.Concat(r.gone, slices.Collect(maps.Values(r.events.row))) {
			day := pay.DayOf(e.Created)
			if !slices.Contains(keyIDs, e.KeyID) || day.Before(from) || day.After(to) {
				continue
			}
			var sum pay.Sum
			sum.Event(&e)
			if e.Withdraws() {
				if visit.Withdrawn != nil {
					visit.Withdrawn(e.KeyID, day, sum)
				}
				continue
			}
			if visit.Day != nil {
				visit.Day(e.KeyID, day, sum)
			}
			if visit.Host != nil {
				visit.Host(e.KeyID, day, []byte(e.SumHost()), sum)
			}
			if visit.Task != nil {
				visit.Task(e.KeyID, day, []byte(pay.SumName(e.Task)), sum)
			}
		}
		return nil
	})
}

// dayOf is the id of what left a wallet on the UTC day of a time.
func dayOf(walletID string, t time.Time) string {
	return walletID + " " + pay.DayOf(t).Format(time.DateOnly)
}

// VisitWalletDays visits what left wallets.
func (s *Store) VisitWalletDays(ctx context.Context, walletIDs []string, from, to time.Time, visit func(string, pay.WalletDay)) error {
	return s.do(ctx, func(r *rows) error {
		for _, id := range walletIDs {
			for day := pay.DayOf(from); !day.After(pay.DayOf(to)); day = day.AddDate(0, 0, 1) {
				if d, ok := r.left.get(dayOf(id, day)); ok {
					visit(id, d)
				}
			}
		}
		return nil
	})
}

// SumSpend adds up the keys' events.
func (s *Store) SumSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (t pay.Totals, err error) {
	q.Before, q.Limit = "", math.MaxInt
	page, err := s.ListSpend(ctx, keyIDs, q)
	for _, e := range page.Entries {
		t.Event(&e.SpendEvent, func() bool { return slices.Contains(e.Flags, "undelivered") })
	}
	return t, err
}

// ListPayments lists the keys' payments, newest first.
func (s *Store) ListPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (page pay.PaymentPage, err error) {
	if f.Limit < 1 {
		return page, nil
	}
	more := 0
	if f.Limit < math.MaxInt {
		more = 1
	}
	page.Payments, err = s.newest(ctx, f.Before, f.Limit+more, func(p *pay.Payment) bool {
		return (f.All || slices.Contains(keyIDs, p.KeyID)) && f.Wants(p)
	})
	if len(page.Payments) > f.Limit {
		page.Payments = page.Payments[:f.Limit]
		page.Next = page.Payments[f.Limit-1].ID
	}
	return page, err
}

// SumPayments adds up the keys' payments.
func (s *Store) SumPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (t pay.Totals, err error) {
	f.Before, f.Limit = "", math.MaxInt
	with, without := f.Summed()
	f.Label = with
	page, err := s.ListPayments(ctx, keyIDs, f)
	for _, p := range page.Payments {
		if without == "" || !p.Labelled(without) {
			t.Row(p.Currency, p.Withdraws(), pay.Sum{Count: 1, Amount: p.Moved()}, p.Created)
		}
	}
	return t, err
}
