package pay_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// The memStore as pay.SpendBook: it looks at every event there is.

func (m *memStore) SpendSummary(_ context.Context, keyIDs []string, from, to time.Time) (pay.Summary, error) {
	defer m.lock()()
	t := pay.NewTally(from, to)
	for _, e := range m.events {
		day := pay.DayOf(e.Created)
		if !slices.Contains(keyIDs, e.KeyID) || day.Before(pay.DayOf(from)) || day.After(pay.DayOf(to)) {
			continue
		}
		var s pay.Sum
		s.Event(&e)
		t.Day(day, s)
		t.Host([]byte(e.Host), s)
		t.Task([]byte(e.Task), s)
	}
	return t.Summary(), nil
}

func (m *memStore) ListSpend(_ context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (page pay.SpendPage, err error) {
	defer m.lock()()
	known := q.Before == ""
	var list []pay.SpendEntry
	for _, e := range m.events {
		if !slices.Contains(keyIDs, e.KeyID) {
			continue
		}
		known = known || e.ID == q.Before
		day := pay.DayOf(e.Created)
		if q.Before != "" && e.ID >= q.Before || q.Host != "" && e.Host != q.Host || q.Task != "" && e.Task != q.Task ||
			!q.From.IsZero() && day.Before(pay.DayOf(q.From)) || !q.To.IsZero() && day.After(pay.DayOf(q.To)) {
			continue
		}
		p := m.payments[e.PaymentID]
		list = append(list, pay.SpendEntry{
			SpendEvent: e, Transaction: p.Transaction, Network: p.Terms.Network, Settlement: string(p.Terms.Settlement), Flags: p.Flags(),
		})
	}
	if !known {
		return page, pay.ErrEventNotFound
	}
	slices.SortFunc(list, func(a, b pay.SpendEntry) int { return strings.Compare(b.ID, a.ID) })
	if len(list) > q.Limit {
		list = list[:q.Limit]
		page.Next = list[q.Limit-1].ID
	}
	page.Entries = list
	return page, nil
}

func (m *memStore) PaymentsOf(_ context.Context, keyIDs []string, label string, limit int) (list []*pay.Payment, err error) {
	defer m.lock()()
	for _, p := range slices.Backward(m.sorted()) {
		if slices.Contains(keyIDs, p.KeyID) && (label == "" || slices.Contains(p.Labels(), label)) && len(list) < limit {
			list = append(list, p.Clone())
		}
	}
	return list, nil
}

func (m *memStore) CountPayments(_ context.Context, keyIDs []string, label string, most int) (n int, err error) {
	defer m.lock()()
	for _, p := range m.payments {
		if slices.Contains(keyIDs, p.KeyID) && slices.Contains(p.Labels(), label) {
			n++
		}
	}
	return min(n, most), nil
}

func (m *memStore) OrganizationKeys(_ context.Context, orgID string) (list []pay.Key, err error) {
	defer m.lock()()
	for _, id := range slices.Sorted(maps.Keys(m.keys)) {
		if k := m.keys[id]; k.OrganizationID == orgID && orgID != "" {
			list = append(list, k)
		}
	}
	return list, nil
}
