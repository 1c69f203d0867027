package boltstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/purserpay/purser/pay"
)

// events compares each event with its payment.
func (c *checker) events(ctx context.Context) error {
	days, left := spendDays{checker: c}, walletDays{checker: c, want: map[string]pay.WalletDay{}}
	err := c.each(ctx, eventsBucket, func(k, v []byte) {
		c.report.Events++
		e, err := decodeEvent(k, v)
		if err != nil {
			c.fault("spend event %q: %v", k, err)
			return
		}
		days.add(&e)
		p, err := paymentIn(c.tx, e.PaymentID)
		if err != nil {
			c.fault("spend event %s: payment %s: %v", e.ID, e.PaymentID, err)
			return
		}
		left.add(p, &e)
		switch {
		case e.Corrects == "" && p.EventID != e.ID:
			c.fault("spend event %s is not that of its payment %s", e.ID, p.ID)
		case e.Corrects != "" && p.EventID != e.Corrects:
			c.fault("spend event %s corrects another one than that of payment %s", e.ID, p.ID)
		case e.Corrects != "" && !p.Disputed:
			c.fault("spend event %s takes back that of payment %s, which is not disputed", e.ID, p.ID)
		case e.Corrects != "":
			c.disputed[p.ID]++
		}
		if e.KeyID != p.KeyID || e.Amount != p.Moved() || e.Currency != p.Currency || e.Task != p.Task ||
			e.Host != p.Host || e.RequestURL != p.RequestURL {
			c.fault("spend event %s says something else than its payment %s", e.ID, p.ID)
		}
		if e.Task != "" {
			c.indexed(taskEventsBucket, joinKey(e.KeyID, e.Task, e.ID), "task", &e)
		}
		if e.Host != "" {
			c.indexed(hostEventsBucket, hostEventKey(&e), "host", &e)
		}
	})
	if err != nil {
		return err
	}
	if err := days.end(ctx); err != nil {
		return err
	}
	if err := left.end(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.disputed)) {
		if n := c.disputed[id]; n != 1 {
			c.fault("payment %s is disputed, and %d spend events take its own back", id, n)
		}
	}
	return nil
}

// indexed looks up an event in an index.
func (c *checker) indexed(bucket, key []byte, by string, e *pay.SpendEvent) {
	c.found[string(bucket)]++
	if !c.has(bucket, key) {
		c.lacking[string(bucket)] = true
		c.fault("spend event %s is not found by its %s", e.ID, by)
	}
}

// eventIndexes looks for entries by task and host that no event makes.
func (c *checker) eventIndexes(ctx context.Context) error {
	for _, index := range []struct {
		bucket []byte
		made   func(key []byte) bool
	}{
		{taskEventsBucket, func(k []byte) bool {
			parts := bytes.Split(k, []byte{0})
			if len(parts) != 3 {
				return false
			}
			e, ok := c.event(parts[0], parts[2])
			return ok && e.Task == string(parts[1])
		}},
		{hostEventsBucket, func(k []byte) bool {
			keyID, rest, _ := bytes.Cut(k, []byte{0})
			if len(rest) <= sha256.Size || rest[sha256.Size] != 0 {
				return false
			}
			e, ok := c.event(keyID, rest[sha256.Size+1:])
			return ok && e.Host != "" && hashed(e.Host) == string(rest[:sha256.Size])
		}},
	} {
		n := 0
		if err := c.each(ctx, index.bucket, func(_, _ []byte) { n++ }); err != nil {
			return err
		}
		if n == c.found[string(index.bucket)] && !c.lacking[string(index.bucket)] {
			continue
		}
		err := c.each(ctx, index.bucket, func(k, _ []byte) {
			if !index.made(k) {
				c.fault("%s has an entry %q that no spend event makes", index.bucket, k)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// event reads a spend event, if it can be read.
func (c *checker) event(keyID, id []byte) (e pay.SpendEvent, ok bool) {
	key := joinKey(string(keyID), string(id))
	e, err := decodeEvent(key, c.tx.Bucket(eventsBucket).Get(key))
	return e, err == nil
}
