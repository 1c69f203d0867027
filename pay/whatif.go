package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// Bounds of a what-if, so that a key with a million payments costs no more than others.
const (
	MaxWhatIf     = 20_000                 // payments that are read
	whatIfReading = 80 * time.Millisecond  // for reading them
	whatIfTime    = 130 * time.Millisecond // for all of it
	whatIfPage    = 500
	// maxWhatIfExamples bounds the payments that are named for a rule.
	maxWhatIfExamples = 3
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
	Declined Sum
	// Rules sums them by rule, the most payments first.
	Rules []WhatIfRule
	// Held sums the payments that would have waited for a person's approval, and Asks by rule. The
	// replay goes on as if they had been approved. Of the hosts that were paid before the first
	// replayed payment, only the largest ones are known: see [Summary].
	Held Sum
	Asks []WhatIfRule
}

// WhatIfRule sums the payments that a rule would have declined.
type WhatIfRule struct {
	Rule string // as in PolicyError
	Sum
	Examples []*Payment // the last ones, newest first
}

// WhatIf replays a key's payments since a time by a policy in the place of its own; nil: by the
// defaults. It reads the newest MaxWhatIf payments, and fewer if the store is slow. It writes nothing.
func (p *Payer) WhatIf(ctx context.Context, k Key, pol *Policy, since time.Time) (WhatIf, error) {
	return p.whatIf(ctx, k, pol, since, MaxWhatIf, whatIfReading, whatIfTime)
}

func (p *Payer) whatIf(ctx context.Context, k Key, pol *Policy, since time.Time, most int, reading, whole time.Duration) (WhatIf, error) {
	k.Policy = pol
	w := WhatIf{Since: since.UTC()}
	limited, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	rows, all, err := p.paymentsSince(ctx, k.ID, since, most, reading)
	if err != nil {
		return w, err
	}
	if !all && len(rows) > 0 {
		w.From = rows[0].Created
	}
	base := func(c Counter) (x402.Amount, error) { return p.store.Counter(ctx, c) }
	list := func(prefix Counter) (names []Counter, err error) {
		err = p.store.VisitCounters(ctx, prefix, func(c Counter, _ x402.Amount) bool {
			names = append(names, c)
			return true
		})
		return names, err
	}
	policies := map[Door]Policy{}
	for _, door := range []Door{DoorProxy, DoorTransport, DoorAPI} {
		policies[door] = p.PolicyOf(k, door)
	}
	v := newReplay(rows, base, list)
	if policies[DoorProxy].asksAboutHosts() || policies[DoorAPI].asksAboutHosts() {
		if err := p.learnHosts(ctx, v, k.ID, since); err != nil {
			return w, err
		}
	}
	return w, w.replay(limited, v, rows, policies)
}

// learnHosts notes the hosts that a key paid before a day.
func (p *Payer) learnHosts(ctx context.Context, v *replayed, keyID string, since time.Time) error {
	last := DayOf(since).AddDate(0, 0, -1)
	past, err := p.store.SpendSummary(ctx, []string{keyID}, last.AddDate(0, 0, 2-MaxSummaryDays), last)
	if err != nil {
		return fmt.Errorf("reading the hosts of a key: %w", err)
	}
	for _, host := range past.Hosts {
		v.paid[host.Name] = true
	}
	return nil
}

// paymentsSince reads a key's payments since a time, oldest first; of too many the newest.
func (p *Payer) paymentsSince(ctx context.Context, keyID string, since time.Time, most int, reading time.Duration) (rows []*Payment, all bool, err error) {
	limited, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	defer func() { slices.Reverse(rows) }()
	q := PaymentQuery{KeyID: keyID}
	for len(rows) < most {
		q.Limit = min(whatIfPage, most-len(rows))
		page, err := p.store.Payments(limited, q)
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
func (p *Payment) counts() bool {
	return p.State == Settled && !p.Disputed || p.State == Open && !p.Refused
}

// replay journals payments again, oldest first, until ctx ends.
func (w *WhatIf) replay(ctx context.Context, v *replayed, rows []*Payment, policies map[Door]Policy) error {
	var declined, held ruleSums
	for i, row := range rows {
		if row.Withdraws() || row.Reconciled {
			continue // no policy was asked
		}
		if i%64 == 0 && ctx.Err() != nil {
			if i > 0 {
				w.Until = rows[i-1].Created
			}
			break
		}
		rule, ask, err := policies[row.Door].replays(v, row)
		if err != nil {
			return err
		}
		if row.counts() {
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
	all   Sum
	rules map[string]*WhatIfRule
}

func (s *ruleSums) add(rule string, row *Payment) {
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
	sum := Sum{Count: 1, Amount: row.Moved()}
	s.all.Add(sum)
	r.Add(sum)
	r.Examples = append([]*Payment{row}, r.Examples[:min(len(r.Examples), maxWhatIfExamples-1)]...)
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

// replays decides on an earlier payment as Begin.judge does on a new one, and counts it unless a rule
// refuses it. ask is the rule by which it needs an approval.
func (pol Policy) replays(v *replayed, row *Payment) (rule, ask string, err error) {
	again := row.Clone()
	// The books do not keep the method. Payments to one path with two methods share a price here.
	again.Price = priceCounter(row.KeyID, row.Currency, "", row.RequestURL)
	rate := pol.rate(again)
	err = pol.refuses(again)
	if err == nil {
		err = pol.guard(v, again)
	}
	if err == nil {
		err = pol.budgets(v, again, nil)
	}
	for _, l := range rate {
		if err == nil {
			err = check(v, l)
		}
	}
	if refused, ok := errors.AsType[*PolicyError](err); ok {
		return refused.Rule, "", nil
	} else if err != nil {
		return "", "", err
	}
	if ask, _, err = pol.asks(v, again); err != nil {
		return "", "", err
	}
	for _, l := range rate {
		v.add(l.Counter, l.Amount)
	}
	for _, r := range row.held() {
		v.add(r.Counter, r.Amount)
	}
	if row.State == Settled {
		v.now[again.Price] = row.Moved()
	}
	v.paid[row.Host] = v.paid[row.Host] || row.counts()
	return "", ask, nil
}

// held lists what a payment counts against budgets now.
func (p *Payment) held() (list []Reservation) {
	for _, r := range p.Reservations {
		if r.Release == ReleaseBudget && !r.Released {
			list = append(list, r)
		}
	}
	return list
}

// replayed holds counters as a replay leaves them. They begin as they are in the store, less what the
// replayed payments themselves count there.
type replayed struct {
	base  func(Counter) (x402.Amount, error)
	list  func(prefix Counter) ([]Counter, error)
	now   map[Counter]x402.Amount
	taken map[Counter]x402.Amount
	lists map[Counter][]Counter
	paid  map[string]bool // hosts
}

func newReplay(rows []*Payment, base func(Counter) (x402.Amount, error), list func(Counter) ([]Counter, error)) *replayed {
	v := &replayed{base: base, list: list, now: map[Counter]x402.Amount{}, taken: map[Counter]x402.Amount{}, lists: map[Counter][]Counter{}, paid: map[string]bool{}}
	for _, row := range rows {
		if row.Withdraws() || row.Reconciled {
			continue
		}
		for _, r := range row.held() {
			v.taken[r.Counter] = v.taken[r.Counter].AddSaturated(r.Amount)
		}
	}
	return v
}

// Counter reads a counter. Prices and minutes begin at zero: the store holds their last value, and
// not that at the beginning of the replay.
func (v *replayed) Counter(c Counter) (x402.Amount, error) {
	if have, known := v.now[c]; known {
		return have, nil
	}
	var have x402.Amount
	if taken, ours := v.taken[c]; ours || isBudget(c) {
		all, err := v.base(c)
		if err != nil {
			return have, err
		}
		have, _ = Sum{Amount: all, Corrected: taken}.Net()
		if all.Cmp(taken) < 0 {
			have = x402.Amount{}
		}
	}
	v.now[c] = have
	return have, nil
}

// Paid reports whether a host was paid before.
func (v *replayed) Paid(_, host string, _ bool) (bool, error) { return v.paid[host], nil }

// VisitCounters lists the counters of the store with a prefix. All that a replay adds to are there,
// because the payments were counted there.
func (v *replayed) VisitCounters(prefix Counter, visit func(Counter, x402.Amount) bool) error {
	names, known := v.lists[prefix]
	if !known {
		var err error
		if names, err = v.list(prefix); err != nil {
			return err
		}
		v.lists[prefix] = names
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

func (v *replayed) add(c Counter, a x402.Amount) {
	if have, err := v.Counter(c); err == nil {
		v.now[c] = have.AddSaturated(a)
	}
}

// isBudget reports whether a counter sums what was spent.
func isBudget(c Counter) bool {
	for _, kind := range []string{"day/", "task-day/", "site-day/"} {
		if strings.HasPrefix(string(c), kind) {
			return true
		}
	}
	return false
}
