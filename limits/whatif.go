// Package limits tells what the limits of keys leave and what other ones would have declined. It decides nothing.
package limits

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const (
	whatIfPage = 500
	// maxExamples bounds the payments that are named for a rule.
	maxExamples = 3
)

// WhatIf tells which of a key's payments another policy would have declined. The rules are those by
// which payments are made: the payments are journaled again in memory, in their order.
type WhatIf struct {
	Since time.Time // payments since then were asked for
	// Payments counts those that were replayed and moved money, or may still move it.
	Payments int
	// From holds the time of the first of them if not all since Since were read; Until that of the
	// last one if the replay did not reach the end. Zero: no payment was left out there.
	From, Until time.Time
	// Declined sums the payments that the policy declines.
	Declined pay.Sum
	// Rules sums them by rule, the most payments first.
	Rules []WhatIfRule
	// Held sums the payments that would have waited for a person's approval, and Asks by rule. The
	// replay goes on as if they had been approved. It knows only the largest hosts among those
	// that were paid before the first replayed payment: see [Summary].
	Held pay.Sum
	Asks []WhatIfRule
}

// WhatIfRule sums the payments that a rule would have declined.
type WhatIfRule struct {
	Rule string // as in PolicyError
	pay.Sum
	Examples []*pay.Payment // the last ones, newest first
}

// Bounds of a what-if, so that a key with a million payments costs no more than others. Zero: the usual ones.
// A slow store never passes for a key without payments: the first page is read, and its first payments are
// judged, whatever time that takes.
type Bounds struct {
	Most    int           // payments that are read; default: 20,000
	Reading time.Duration // for reading them; default: 80 ms
	Whole   time.Duration // for all of it; default: 130 ms
}

// Replay replays a key's payments since a time by a policy in the place of its own; nil: by the
// defaults. It reads the newest ones within the bounds, and fewer if the store is slow. It writes nothing.
func Replay(ctx context.Context, p *pay.Payer, k pay.Key, pol *policy.Policy, since time.Time, most Bounds) (WhatIf, error) {
	store := p.Options().Store
	most.Most, most.Reading, most.Whole = cmp.Or(most.Most, 20_000), cmp.Or(most.Reading, 80*time.Millisecond), cmp.Or(most.Whole, 130*time.Millisecond)
	if pol != nil { // a raise and a total hold for no payment of the past
		lasting := pol.WithoutTotals()
		lasting.Raise, pol = nil, &lasting
	}
	k.Policy = pol
	w := WhatIf{Since: since.UTC()}
	limited, cancel := context.WithTimeout(ctx, most.Whole)
	defer cancel()
	rows, all, err := paymentsSince(ctx, store, k.ID, since, most)
	if err != nil {
		return w, err
	}
	if !all && len(rows) > 0 {
		w.From = rows[0].Created
	}
	base := func(c pay.Counter) (money.Amount, error) { return store.Counter(ctx, c) }
	list := func(prefix pay.Counter) (names []pay.Counter, err error) {
		err = store.VisitCounters(ctx, prefix, func(c pay.Counter, _ money.Amount) bool {
			names = append(names, c)
			return true
		})
		return names, err
	}
	policies := map[policy.Door]policy.Policy{}
	for _, door := range []policy.Door{policy.DoorProxy, policy.DoorTransport, policy.DoorAPI} {
		policies[door] = p.PolicyOf(k, door)
	}
	v := newReplay(rows, base, list)
	if asksAboutHosts(policies[policy.DoorProxy]) || asksAboutHosts(policies[policy.DoorAPI]) {
		if err := v.learnHosts(ctx, store, k.ID, since); err != nil {
			return w, err
		}
	}
	return w, w.replay(limited, v, rows, policies)
}

// learnHosts notes the hosts that a key paid before a day.
func (v *replayed) learnHosts(ctx context.Context, store pay.Store, keyID string, since time.Time) error {
	last := pay.DayOf(since).AddDate(0, 0, -1)
	past, err := store.SpendSummary(ctx, []string{keyID}, last.AddDate(0, 0, 2-pay.MaxSummaryDays), last)
	if err != nil {
		return fmt.Errorf("reading the hosts of a key: %w", err)
	}
	for _, host := range past.Hosts {
		v.paid[host.Name] = true
	}
	return nil
}

// paymentsSince reads a key's payments since a time, oldest first; of too many the newest.
func paymentsSince(ctx context.Context, store pay.Store, keyID string, since time.Time, most Bounds) (rows []*pay.Payment, all bool, err error) {
	limited, cancel := context.WithTimeout(ctx, most.Reading)
	defer cancel()
	defer func() { slices.Reverse(rows) }()
	q := pay.PaymentQuery{KeyID: keyID}
	for len(rows) < most.Most {
		q.Limit = min(whatIfPage, most.Most-len(rows))
		reading := limited
		if len(rows) == 0 {
			reading = ctx
		}
		page, err := store.Payments(reading, q)
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil:
			return rows, false, nil // the newest ones are read
		case err != nil:
			return nil, false, fmt.Errorf("reading the payments of a key: %w", err)
		}
		for _, row := range page {
			if row.Created.Before(since) {
				return rows, true, nil
			}
			rows = append(rows, row)
		}
		if len(page) < q.Limit {
			return rows, true, nil
		}
		q.Before = page[len(page)-1].ID
	}
	return rows, false, nil
}

// counts reports whether a payment moved money, or may still do so.
func counts(p *pay.Payment) bool {
	return p.State == pay.Settled && !p.Disputed || p.State == pay.Open && !p.Refused
}

// replay journals payments again, oldest first, until ctx ends.
func (w *WhatIf) replay(ctx context.Context, v *replayed, rows []*pay.Payment, policies map[policy.Door]policy.Policy) error {
	var declined, held ruleSums
	for i, row := range rows {
		if row.Withdraws() || row.Reconciled {
			continue // no policy was asked
		}
		if i > 0 && i%64 == 0 && ctx.Err() != nil {
			w.Until = rows[i-1].Created
			break
		}
		rule, ask, err := v.take(policies[row.Door], row)
		if err != nil {
			return err
		}
		if counts(row) {
			w.Payments++
			declined.add(rule, row)
			held.add(ask, row)
		}
	}
	w.Declined, w.Rules = declined.all, declined.list()
	w.Held, w.Asks = held.all, held.list()
	return nil
}

// ruleSums sums payments by rule.
type ruleSums struct {
	all   pay.Sum
	rules map[string]*WhatIfRule
}

func (s *ruleSums) add(rule string, row *pay.Payment) {
	if rule == "" {
		return
	}
	if s.rules == nil {
		s.rules = map[string]*WhatIfRule{}
	}
	r := s.rules[rule]
	if r == nil {
		r = &WhatIfRule{Rule: rule}
		s.rules[rule] = r
	}
	sum := pay.Sum{Count: 1, Amount: row.Moved()}
	s.all.Add(sum)
	r.Add(sum)
	r.Examples = append([]*pay.Payment{row}, r.Examples[:min(len(r.Examples), maxExamples-1)]...)
}

func (s *ruleSums) list() (list []WhatIfRule) {
	for _, r := range s.rules {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b WhatIfRule) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Rule, b.Rule))
	})
	return list
}

// take decides on an earlier payment, and counts it unless a rule refuses it.
func (v *replayed) take(pol policy.Policy, row *pay.Payment) (rule, ask string, err error) {
	got, err := pay.Replay(pol, v, row)
	if err != nil || got.Rule != "" {
		return got.Rule, "", err
	}
	spent := held(row)
	for _, r := range append(got.Rate, spent...) {
		v.add(r.Counter, r.Amount)
	}
	for _, r := range got.Hours {
		if len(spent) > 0 {
			v.add(r.Counter, spent[0].Amount)
		}
	}
	if row.State == pay.Settled {
		v.now[got.Price] = row.Paid()
	}
	v.paid[row.Host] = v.paid[row.Host] || counts(row)
	return "", got.Ask, nil
}

// held lists what a payment counts against budgets now. Hours are left out: the policy that is tried may be the first one
// to count them.
func held(p *pay.Payment) (list []pay.Reservation) {
	for _, r := range p.Reservations {
		if r.Release == pay.ReleaseBudget && !r.Released && isBudget(r.Counter) {
			list = append(list, r)
		}
	}
	return list
}

// replayed holds counters as a replay leaves them. They begin as they are in the store, less what the
// replayed payments themselves count there.
type replayed struct {
	base  func(pay.Counter) (money.Amount, error)
	list  func(prefix pay.Counter) ([]pay.Counter, error)
	now   map[pay.Counter]money.Amount
	taken map[pay.Counter]money.Amount
	lists map[pay.Counter][]pay.Counter
	paid  map[string]bool // hosts
}

func newReplay(rows []*pay.Payment, base func(pay.Counter) (money.Amount, error), list func(pay.Counter) ([]pay.Counter, error)) *replayed {
	v := &replayed{base: base, list: list, now: map[pay.Counter]money.Amount{}, taken: map[pay.Counter]money.Amount{}, lists: map[pay.Counter][]pay.Counter{}, paid: map[string]bool{}}
	for _, row := range rows {
		if row.Withdraws() || row.Reconciled {
			continue
		}
		for _, r := range held(row) {
			v.taken[r.Counter] = v.taken[r.Counter].AddSaturated(r.Amount)
		}
	}
	return v
}

// Counter reads a counter. Prices, minutes and hours begin at zero: the store holds their last value, and
// not that at the beginning of the replay.
func (v *replayed) Counter(c pay.Counter) (money.Amount, error) {
	if have, known := v.now[c]; known {
		return have, nil
	}
	var have money.Amount
	if taken, ours := v.taken[c]; ours || isBudget(c) {
		all, err := v.base(c)
		if err != nil {
			return have, err
		}
		have, _ = pay.Sum{Amount: all, Corrected: taken}.Net()
		if all.Cmp(taken) < 0 {
			have = money.Amount{}
		}
	}
	v.now[c] = have
	return have, nil
}

// Paid reports whether a host was paid before.
func (v *replayed) Paid(_, host string, _ bool) (bool, error) { return v.paid[host], nil }

// VisitCounters lists the counters of the store with a prefix. All that a replay adds to are there,
// because the payments were counted there, or in a name that only the replay has: that of an hour.
func (v *replayed) VisitCounters(prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	names, known := v.lists[prefix]
	if !known {
		var err error
		if names, err = v.list(prefix); err != nil {
			return err
		}
		v.lists[prefix] = names
	}
	if !isBudget(prefix) {
		names = slices.Clone(names)
		for c := range v.now {
			if strings.HasPrefix(string(c), string(prefix)) && !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	for _, c := range names {
		have, err := v.Counter(c)
		if err != nil {
			return err
		}
		if !have.IsZero() && !visit(c, have) {
			return nil
		}
	}
	return nil
}

func (v *replayed) add(c pay.Counter, a money.Amount) {
	if have, err := v.Counter(c); err == nil {
		v.now[c] = have.AddSaturated(a)
	}
}

// isBudget reports whether a counter sums what was spent on a day.
func isBudget(c pay.Counter) bool {
	for _, kind := range []string{"day/", "task-day/", "site-day/"} {
		if strings.HasPrefix(string(c), kind) {
			return true
		}
	}
	return false
}

// asksAboutHosts reports whether payments to hosts that were never paid need an approval.
func asksAboutHosts(pol policy.Policy) bool {
	return pol.RequireApprovalNewHosts != nil && *pol.RequireApprovalNewHosts
}
