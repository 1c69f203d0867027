package boltstore

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/purserpay/purser/pay"
)

// payments reads every row once and looks for everything that must refer to it.
func (c *checker) payments(ctx context.Context) error {
	return c.each(ctx, paymentsBucket, func(k, v []byte) {
		c.report.Payments++
		p, err := decodePayment(v)
		if err != nil {
			c.fault("payment %s: %v", k, err)
			return
		}
		if p.ID != string(k) {
			c.fault("payment %s is stored as %s", p.ID, k)
		}
		if v[1] != labelBits(p.Labels()...) {
			c.fault("payment %s: label bits are %b", p.ID, v[1])
		}
		for _, what := range contradictions(p) {
			c.fault("payment %s %s", p.ID, what)
		}
		for _, e := range entries(p) {
			c.found[string(e.bucket)]++
			if !c.has(e.bucket, e.key) {
				c.lacking[string(e.bucket)] = true
				c.fault("payment %s is missing in %s", p.ID, e.bucket)
			}
		}
		for _, label := range p.Labels() {
			c.labels[label]++
		}
		c.add(p)
		if p.State == pay.Settled && !c.has(eventsBucket, join(p.KeyID, p.EventID)) {
			c.fault("payment %s is settled, but its spend event %q is missing", p.ID, p.EventID)
		}
		if p.Disputed {
			c.disputed[p.ID] = 0
		}
	})
}

// contradictions are what a row says that cannot be true together.
func contradictions(p *pay.Payment) (list []string) {
	known := p.State == pay.Open || p.State == pay.Settled || p.State == pay.Void
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		{!known, "has the unknown state " + string(p.State)},
		{known && p.Closed.IsZero() != (p.State == pay.Open), "is " + string(p.State) + ", which its time of closing contradicts"},
		{(p.EventID != "") != (p.State == pay.Settled), "is " + string(p.State) + ", which its spend event contradicts"},
		{(p.Confirmed || p.Disputed) && p.State != pay.Settled, "is confirmed or disputed without being settled"},
		{p.Confirmed && p.Disputed, "is both confirmed and disputed"},
		{p.Unresolved && p.State != pay.Open, "is unresolved without being open"},
		{p.Refused && p.State == pay.Settled, "is both refused and settled"},
		{p.Doubted && p.State == pay.Settled, "is both doubted and settled"},
		{p.Doubted && p.State == pay.Open && !p.Refused, "is doubted without being refused or void"},
		{p.Reconciled && (!p.Confirmed || p.Transaction == "" || p.Signature != nil), "is known from the chain only, which something else in it contradicts"},
		{p.Attempt > 0 && p.IdempotencyKey == "", "numbers the attempts under no idempotency key"},
		{p.Retired && p.State == pay.Open && !p.Refused, "is open, but its payload was dropped"},
	} {
		if rule.broken {
			list = append(list, rule.what)
		}
	}
	return list
}

// add adds a row to what the counters must be.
func (c *checker) add(p *pay.Payment) {
	for _, r := range p.Reservations {
		if r.Released {
			continue
		}
		sum, overflow := c.counters[r.Counter].Add(r.Amount)
		if overflow {
			c.fault("payment %s: counter %s overflows", p.ID, r.Counter)
		}
		c.counters[r.Counter] = sum
	}
	if p.Price != "" && p.State == pay.Settled && !p.Terms.Amount.IsZero() && !slices.Contains(c.prices[p.Price], p.Terms.Amount) {
		c.prices[p.Price] = append(c.prices[p.Price], p.Terms.Amount)
	}
}

// indexes looks for entries that no payment makes. Every entry that must be there was looked
// for, so none are superfluous where the number is right.
func (c *checker) indexes(ctx context.Context) error {
	for _, bucket := range [][]byte{
		keyPaymentsBucket, labelsBucket, labelledBucket, awaitedBucket, livingBucket, hostsBucket, leasesBucket, dueBucket,
		transactionsBucket, attemptsBucket, noncesBucket,
	} {
		n := 0
		if err := c.each(ctx, bucket, func(_, _ []byte) { n++ }); err != nil {
			return err
		}
		if n == c.found[string(bucket)] && !c.lacking[string(bucket)] {
			continue
		}
		if err := c.each(ctx, bucket, func(k, _ []byte) { c.stray(bucket, k) }); err != nil {
			return err
		}
	}
	return nil
}

// stray notes an index entry that its payment does not make. All of them end with its id.
func (c *checker) stray(bucket, key []byte) {
	id := key[bytes.LastIndexByte(key, 0)+1:]
	p, err := paymentIn(c.tx, string(id))
	if err != nil {
		c.fault("%s has an entry for payment %q: %v", bucket, id, err)
		return
	}
	if !slices.ContainsFunc(entries(p), indexEntry{bucket, key}.equal) {
		c.fault("%s has an entry %q that payment %s does not make", bucket, key, id)
	}
}

// labelCounts compares the numbers of payments by label.
func (c *checker) labelCounts(ctx context.Context) error {
	for _, label := range allLabels {
		n, err := labelCount(c.tx, label)
		switch {
		case err != nil:
			c.fault("%v", err)
		case n != c.labels[label]:
			c.fault("%d payments are counted as %s, and %d are", n, label, c.labels[label])
		}
	}
	return c.each(ctx, labelCountsBucket, func(k, _ []byte) {
		if !slices.Contains(allLabels, string(k)) {
			c.fault("payments are counted by an unknown label %q", k)
		}
	})
}

// counted compares the counters with the reservations that payments hold, and prices with
// what was paid.
func (c *checker) counted(ctx context.Context) error {
	err := c.each(ctx, countersBucket, func(k, _ []byte) {
		name := pay.Counter(k)
		if name.CountsFailures() {
			return // by the clock: the payments do not tell its value
		}
		have, err := counterIn(c.tx, name)
		if err != nil {
			c.fault("%v", err)
		}
		if paid := c.prices[name]; paid != nil {
			delete(c.prices, name)
			if err == nil && !slices.Contains(paid, have) {
				c.fault("price %s is %s, which was never paid", name, have)
			}
			return
		}
		want := c.counters[name]
		delete(c.counters, name)
		if err == nil && have != want {
			c.fault("counter %s is %s, the payments make %s", name, have, want)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.counters)) {
		if want := c.counters[name]; !want.IsZero() {
			c.fault("counter %s is missing, the payments make %s", name, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.prices)) {
		c.fault("price %s is missing", name)
	}
	return nil
}
