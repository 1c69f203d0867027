package boltstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// payloads looks for payloads of payments that have none.
func (c *checker) payloads(ctx context.Context) error {
	return c.each(ctx, payloadsBucket, func(k, _ []byte) {
		if p, err := paymentIn(c.tx, string(k)); errors.Is(err, pay.ErrPaymentNotFound) || err == nil && p.Retired {
			c.fault("there is a payload of payment %s, which has none", k)
		}
	})
}

// payments reads every row once and looks up every entry that must refer to it.
func (c *checker) payments(ctx context.Context) error {
	return c.each(ctx, paymentsBucket, func(k, v []byte) {
		c.report.Payments++
		p, err := codec.Decode(storedIn(c.tx, string(k)))
		if err != nil {
			c.fault("payment %s: %v", k, err)
			return
		}
		if p.ID != string(k) {
			c.fault("payment %s is stored as %s", p.ID, k)
		}
		if v[1] != codec.FirstLabels(p) {
			c.fault("payment %s: label bits are %b", p.ID, v[1])
		}
		for _, what := range p.Contradictions() {
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
		if err := c.counters.Add(p); err != nil {
			c.fault("%v", err)
		}
		if p.State == pay.Settled && !c.has(eventsBucket, joinKey(p.KeyID, p.EventID)) {
			c.fault("payment %s is settled, but its spend event %q is missing", p.ID, p.EventID)
		}
		if p.Disputed {
			c.disputed[p.ID] = 0
		}
	})
}

// indexes looks for entries that no payment makes. The payments check has found every entry that
// must exist, so an index with the right number of entries has no other.
func (c *checker) indexes(ctx context.Context) error {
	for _, bucket := range [][]byte{
		keyPaymentsBucket, labelsBucket, labelledBucket, awaitedBucket, livingBucket, hostsBucket, leasesBucket, dueBucket,
		transactionsBucket, attemptsBucket, noncesBucket,
	} {
		n := 0
		err := c.each(ctx, bucket, func(k, _ []byte) {
			if kept := &bucket[0] == &attemptsBucket[0] && isKeptAttempt(k); !kept {
				n++
			} else if c.report.Removed.IsZero() {
				c.fault("%s has an entry %q of a removed payment, and none was removed", bucket, k)
			}
		})
		if err != nil {
			return err
		}
		if n == c.found[string(bucket)] && !c.lacking[string(bucket)] {
			continue
		}
		err = c.each(ctx, bucket, func(k, _ []byte) {
			if &bucket[0] != &attemptsBucket[0] || !isKeptAttempt(k) {
				c.stray(bucket, k)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stray reports an index entry that its payment does not make. Every such key ends with the id.
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

// labelCounts compares the stored numbers of payments by label with the rows.
func (c *checker) labelCounts(ctx context.Context) error {
	for _, label := range codec.AllLabels() {
		n, err := labelCount(c.tx, label)
		switch {
		case err != nil:
			c.fault("%v", err)
		case n != c.labels[label]:
			c.fault("%d payments are counted as %s, and %d are", n, label, c.labels[label])
		}
	}
	return c.each(ctx, labelCountsBucket, func(k, _ []byte) {
		if !slices.Contains(codec.AllLabels(), string(k)) {
			c.fault("payments are counted by an unknown label %q", k)
		}
	})
}

// counted compares the counters with the reservations that payments hold, and prices with the
// amounts that were paid.
func (c *checker) counted(ctx context.Context) error {
	err := c.each(ctx, countersBucket, func(k, _ []byte) {
		name := pay.Counter(k)
		have, err := counterIn(c.tx, name)
		if err == nil {
			err = c.counters.Compare(name, have)
		}
		if err != nil {
			c.fault("%v", err)
		}
	})
	if err != nil {
		return err
	}
	for _, fault := range c.counters.Missing() {
		c.fault("%v", fault)
	}
	return nil
}
