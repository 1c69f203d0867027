package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// maxFaults bounds what Check reports.
const maxFaults = 50

// Check compares every index, counter and secret with the rows that they are made
// from, and returns the differences joined. It is for operators and tests: unlike
// everything else it reads the whole store in one transaction, so that what it sees
// belongs together.
func (d *DB) Check(ctx context.Context) error {
	c := &checker{
		vault: d.vault.Unseal, counters: map[pay.Counter]x402.Amount{},
		prices: map[pay.Counter][]x402.Amount{}, labels: map[string]int{}, found: map[string]int{},
	}
	err := d.view(ctx, func(tx *bbolt.Tx) error {
		c.tx = tx
		for _, part := range []func(context.Context) error{
			c.payments, c.indexes, c.events, c.keys, c.wallets,
		} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(append(c.faults, err)...)
}

type checker struct {
	tx     *bbolt.Tx
	vault  func(sealed []byte, identity string) ([]byte, error)
	faults []error
	// What the rows add up to.
	counters map[pay.Counter]x402.Amount
	prices   map[pay.Counter][]x402.Amount // what was paid; the counter has one of them
	labels   map[string]int
	found    map[string]int // index entries by bucket
}

var errTooManyFaults = errors.New("and more")

// fault notes a difference.
func (c *checker) fault(format string, args ...any) error {
	if len(c.faults) >= maxFaults {
		return errTooManyFaults
	}
	c.faults = append(c.faults, fmt.Errorf(format, args...))
	return nil
}

// each visits a bucket's entries while the caller wants to know.
func (c *checker) each(ctx context.Context, bucket []byte, visit func(k, v []byte) error) error {
	n := 0
	return c.tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		if n++; n%scanRows == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return visit(k, v)
	})
}

// payments reads every row once and looks for everything that must refer to it.
func (c *checker) payments(ctx context.Context) error {
	return c.each(ctx, paymentsBucket, func(k, v []byte) error {
		p, err := decodePayment(v)
		if err != nil {
			return c.fault("payment %s: %w", k, err)
		}
		if p.ID != string(k) {
			return c.fault("payment %s is stored as %s", p.ID, k)
		}
		if v[1] != labelBits(p.Labels()...) {
			err = c.fault("payment %s: label bits are %b", p.ID, v[1])
		}
		for _, e := range entries(p) {
			c.found[string(e.bucket)]++
			if !c.has(e.bucket, e.key) {
				err = c.fault("payment %s is missing in %s", p.ID, e.bucket)
			}
		}
		for _, label := range p.Labels() {
			c.labels[label]++
		}
		for _, r := range p.Reservations {
			if !r.Released {
				c.counters[r.Counter], _ = c.counters[r.Counter].Add(r.Amount)
			}
		}
		if p.Price != "" && p.State == pay.Settled && !p.Terms.Amount.IsZero() {
			c.prices[p.Price] = append(c.prices[p.Price], p.Terms.Amount)
		}
		if p.State == pay.Settled && !c.has(eventsBucket, join(p.KeyID, p.EventID)) {
			err = c.fault("payment %s is settled, but its spend event %q is missing", p.ID, p.EventID)
		}
		return err
	})
}

func (c *checker) has(bucket, key []byte) bool { return hasKey(c.tx.Bucket(bucket), key) }

// indexes compares numbers: every entry that must be there is, so an equal number
// means that there are no others.
func (c *checker) indexes(ctx context.Context) error {
	for _, bucket := range [][]byte{
		keyPaymentsBucket, labelsBucket, awaitedBucket, idempotencyBucket, hostsBucket, leasesBucket, dueBucket, transactionsBucket,
	} {
		n := 0
		if err := c.each(ctx, bucket, func(_, _ []byte) error { n++; return nil }); err != nil {
			return err
		}
		if want := c.found[string(bucket)]; n != want {
			if err := c.fault("%s has %d entries, the payments make %d", bucket, n, want); err != nil {
				return err
			}
		}
	}
	for _, label := range allLabels {
		n, err := labelCount(c.tx, label)
		if err == nil && n != c.labels[label] {
			err = fmt.Errorf("%d payments are counted as %s, and %d are", n, label, c.labels[label])
		}
		if err != nil {
			if err := c.fault("%w", err); err != nil {
				return err
			}
		}
	}
	err := c.each(ctx, countersBucket, func(k, _ []byte) error {
		name := pay.Counter(k)
		have, err := counterIn(c.tx, name)
		if err != nil {
			return c.fault("%w", err)
		}
		if paid := c.prices[name]; paid != nil {
			delete(c.prices, name)
			if !slices.Contains(paid, have) {
				return c.fault("price %s is %s, which was never paid", name, have)
			}
			return nil
		}
		want := c.counters[name]
		delete(c.counters, name)
		if have != want {
			return c.fault("counter %s is %s, the payments make %s", name, have, want)
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(c.counters)) {
		if want := c.counters[name]; err == nil && !want.IsZero() {
			err = c.fault("counter %s is missing, the payments make %s", name, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.prices)) {
		if err == nil {
			err = c.fault("price %s is missing", name)
		}
	}
	return err
}

// events looks for events of no payment, and whether they are found by their tasks.
func (c *checker) events(ctx context.Context) error {
	labelled, listed := 0, 0
	err := errors.Join(
		c.each(ctx, taskEventsBucket, func(_, _ []byte) error { listed++; return nil }),
		c.eachEvent(ctx, func(e pay.SpendEvent) error {
			if e.Task == "" {
				return nil
			}
			labelled++
			if !c.has(taskEventsBucket, join(e.KeyID, e.Task, e.ID)) {
				return c.fault("spend event %s is not found by its task", e.ID)
			}
			return nil
		}),
	)
	if err == nil && labelled != listed {
		err = c.fault("%d spend events have a task, %d are listed by it", labelled, listed)
	}
	return err
}

func (c *checker) eachEvent(ctx context.Context, visit func(pay.SpendEvent) error) error {
	return c.each(ctx, eventsBucket, func(k, v []byte) error {
		var e pay.SpendEvent
		if err := decodeRow(v, &e); err != nil {
			return c.fault("spend event %q: %w", k, err)
		}
		if !bytes.Equal(k, join(e.KeyID, e.ID)) {
			return c.fault("spend event %s is stored as %q", e.ID, k)
		}
		p, err := paymentIn(c.tx, e.PaymentID)
		switch {
		case err != nil:
			return c.fault("spend event %s: payment %s: %w", e.ID, e.PaymentID, err)
		case e.Corrects == "" && p.EventID != e.ID:
			return c.fault("spend event %s is not that of its payment %s", e.ID, p.ID)
		case e.Corrects != "" && p.EventID != e.Corrects:
			return c.fault("spend event %s corrects another one than that of payment %s", e.ID, p.ID)
		}
		return visit(e)
	})
}

func (c *checker) keys(ctx context.Context) error {
	hashes, members, keys, claimed := 0, 0, 0, 0
	err := errors.Join(
		c.each(ctx, keyHashBucket, func(_, id []byte) error {
			hashes++
			if _, err := keyIn(c.tx, string(id)); err != nil {
				return c.fault("hash of key %s: %w", id, err)
			}
			return nil
		}),
		c.each(ctx, orgKeysBucket, func(_, _ []byte) error { members++; return nil }),
		c.each(ctx, keysBucket, func(id, _ []byte) error {
			keys++
			k, err := keyIn(c.tx, string(id))
			if err != nil {
				return c.fault("%w", err)
			}
			if n, err := revisionIn(c.tx, k.ID); err != nil || n != k.PolicyRevision {
				if err := c.fault("key %s has its policy in revision %d, listed is %d, %v", id, k.PolicyRevision, n, err); err != nil {
					return err
				}
			}
			if !k.Claimed() {
				return nil
			}
			claimed++
			if !c.has(orgKeysBucket, join(k.OrganizationID, k.ID)) {
				return c.fault("key %s is missing in its organization", id)
			}
			if _, err := c.vault(c.tx.Bucket(keySecretsBucket).Get(id), keyIdentity(k.ID)); err != nil {
				return c.fault("secret of key %s: %w", id, err)
			}
			return nil
		}),
	)
	if err == nil && (hashes != keys || members != claimed) {
		err = c.fault("%d keys have %d hashes; %d claimed keys are %d in organizations", keys, hashes, claimed, members)
	}
	return err
}

func (c *checker) wallets(ctx context.Context) error {
	live, listed := 0, 0
	err := errors.Join(
		c.each(ctx, liveWalletsBucket, func(_, _ []byte) error { listed++; return nil }),
		c.each(ctx, walletsBucket, func(id, _ []byte) error {
			w, err := walletIn(c.tx, string(id))
			if err != nil {
				return c.fault("%w", err)
			}
			if w.Deleted == nil {
				live++
				if !c.has(liveWalletsBucket, join(w.KeyID, w.ID)) {
					return c.fault("wallet %s is live but not listed", id)
				}
			}
			return nil
		}),
		c.each(ctx, walletSecretsBucket, func(id, sealed []byte) error {
			if _, err := c.vault(sealed, walletIdentity(string(id))); err != nil {
				return c.fault("secret of wallet %s: %w", id, err)
			}
			return nil
		}),
	)
	if err == nil && live != listed {
		err = c.fault("%d wallets are live, %d are listed", live, listed)
	}
	return err
}
