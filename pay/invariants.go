package pay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
)

// Contradictions lists the facts of a row that cannot be true together, each as the end of a
// sentence that begins with the payment. Stores check their rows with it.
func (p *Payment) Contradictions() (list []string) {
	known := p.State == Open || p.State == Settled || p.State == Void
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		{!known, "has the unknown state " + string(p.State)},
		{known && p.Closed.IsZero() != (p.State == Open), "is " + string(p.State) + ", which its time of closing contradicts"},
		{(p.EventID != "") != (p.State == Settled), "is " + string(p.State) + ", which its spend event contradicts"},
		{(p.Confirmed || p.Disputed) && p.State != Settled, "is confirmed or disputed without being settled"},
		{p.Confirmed && p.Disputed, "is both confirmed and disputed"},
		{p.Unresolved && p.State != Open, "is unresolved without being open"},
		{p.Refused && p.State == Settled, "is both refused and settled"},
		{p.Doubted && p.State == Settled, "is both doubted and settled"},
		{p.Doubted && p.State == Open && !p.Refused, "is doubted without being refused or void"},
		{p.Reconciled && (!p.Confirmed || p.Transaction == "" || p.Signature != nil), "is known from the chain only, which something else in it contradicts"},
		{p.Attempt > 0 && p.IdempotencyKey == "", "numbers the attempts under no idempotency key"},
		{p.Retired && p.State == Open && !p.Refused && !p.Unresolved, "is open, but its payload was dropped"},
	} {
		if rule.broken {
			list = append(list, rule.what)
		}
	}
	return list
}

// CounterCheck compares counters with the payments that make them up. Add every payment, then
// compare every counter, then ask for the missing ones.
type CounterCheck struct {
	// Removed is the time before which spend events may be gone from the store; zero: it has all payments. Counters of
	// windows that began earlier, and of what wallets moved, may have more than the payments make up,
	// and prices anything.
	Removed time.Time

	sums   map[Counter]money.Amount
	prices map[Counter][]money.Amount // each amount that was paid, once; the counter has one of them
}

// Add adds the reservations that a payment holds. It fails if a sum overflows.
func (c *CounterCheck) Add(p *Payment) error {
	if c.sums == nil {
		c.sums, c.prices = map[Counter]money.Amount{}, map[Counter][]money.Amount{}
	}
	add := func(name Counter, amount money.Amount) error {
		sum, overflow := c.sums[name].Add(amount)
		if overflow {
			return fmt.Errorf("payment %s: counter %s overflows", p.ID, name)
		}
		c.sums[name] = sum
		return nil
	}
	for _, r := range p.Reservations {
		if !r.Released {
			if err := add(r.Counter, r.Amount); err != nil {
				return err
			}
		}
		if moved := r.Moved(); moved != "" && p.State == Settled && r.Released {
			if err := add(moved, r.Amount); err != nil {
				return err
			}
		}
	}
	if p.Price != "" && p.State == Settled && !p.Terms.Amount.IsZero() && !slices.Contains(c.prices[p.Price], p.Paid()) {
		c.prices[p.Price] = append(c.prices[p.Price], p.Paid())
	}
	return nil
}

// Compare fails unless the payments make up a stored counter. Those of failures are left out.
func (c *CounterCheck) Compare(name Counter, have money.Amount) error {
	if name.CountsFailures() {
		return nil
	}
	gone := !c.Removed.IsZero()
	if paid := c.prices[name]; paid != nil || gone && strings.HasPrefix(string(name), pricePrefix) {
		delete(c.prices, name)
		if !gone && !slices.Contains(paid, have) {
			return fmt.Errorf("price %s is %s, which was never paid", name, have)
		}
		return nil
	}
	want := c.sums[name]
	delete(c.sums, name)
	begin, ok := name.window()
	lacks := ok && begin.Before(c.Removed) || gone && strings.HasPrefix(string(name), movedPrefix)
	if lacks && have.Cmp(want) >= 0 {
		return nil
	}
	if have != want {
		return fmt.Errorf("counter %s is %s, the payments make %s", name, have, want)
	}
	return nil
}

// Missing lists the counters that payments make up and that were not compared.
func (c *CounterCheck) Missing() (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(c.sums)) {
		if want := c.sums[name]; !want.IsZero() {
			faults = append(faults, fmt.Errorf("counter %s is missing, the payments make %s", name, want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.prices)) {
		faults = append(faults, fmt.Errorf("price %s is missing", name))
	}
	return faults
}
