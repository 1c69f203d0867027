package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// Enter numbers and writes an audit entry.
func (b *batch) Enter(e *pay.AuditEntry) error {
	entries := b.tx.Bucket(auditBucket)
	if at, _ := last(entries, entries.Cursor()); at != nil {
		e.Number = decodeNumber(at)
	}
	e.Number++
	row, err := encodeRow(e)
	if err != nil {
		return err
	}
	if err := b.put(auditBucket, []byte(encodeNumber(int64(e.Number))), row); err != nil {
		return err
	}
	for _, list := range auditLists(*e) {
		if err := b.put(auditOfBucket, list, nil); err != nil {
			return err
		}
	}
	return nil
}

// auditLists makes the index keys of an entry: one in the list of its key, one in that of its
// organization.
func auditLists(e pay.AuditEntry) (keys [][]byte) {
	at := encodeNumber(int64(e.Number))
	if e.KeyID != "" {
		keys = append(keys, joinKey("key", e.KeyID, at))
	}
	if e.OrganizationID != "" {
		keys = append(keys, joinKey("organization", e.OrganizationID, at))
	}
	return keys
}

// AuditEntries lists entries, newest first.
func (d *DB) AuditEntries(ctx context.Context, q pay.AuditQuery) (list []pay.AuditEntry, err error) {
	limit, before := min(q.Limit, maxPage), q.Before
	if before == 0 {
		before = math.MaxInt64
	}
	name, prefix := auditBucket, []byte(nil)
	switch {
	case q.KeyID != "":
		name, prefix = auditOfBucket, keyPrefix("key", q.KeyID)
	case q.OrganizationID != "":
		name, prefix = auditOfBucket, keyPrefix("organization", q.OrganizationID)
	}
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(name)
		c := bucket.Cursor()
		k, _ := below(bucket, c, append(slices.Clone(prefix), encodeNumber(int64(min(before, math.MaxInt64)))...))
		for ; bytes.HasPrefix(k, prefix) && k != nil && len(list) < limit; k, _ = previous(bucket, c, k) {
			e, err := auditEntryIn(tx, k[len(prefix):])
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	return list, err
}

func auditEntryIn(tx *bbolt.Tx, at []byte) (e pay.AuditEntry, err error) {
	if err := decodeRow(tx.Bucket(auditBucket).Get(at), &e); err != nil {
		return e, fmt.Errorf("audit entry %x: %w", at, err)
	}
	return e, nil
}

// audit checks that both lists have every entry, and nothing else.
func (c *checker) audit(ctx context.Context) error {
	listed := 0
	err := c.each(ctx, auditBucket, func(at, _ []byte) {
		e, err := auditEntryIn(c.tx, at)
		if err != nil {
			c.fault("%v", err)
			return
		}
		if len(at) != 8 || e.Number != decodeNumber(at) {
			c.fault("audit entry %d is stored as %x", e.Number, at)
		}
		for _, list := range auditLists(e) {
			listed++
			if !c.has(auditOfBucket, list) {
				c.fault("audit entry %d is not listed", e.Number)
			}
		}
	})
	if err != nil {
		return err
	}
	err = c.each(ctx, auditOfBucket, func(_, _ []byte) { listed-- })
	if err == nil && listed < 0 {
		c.fault("the lists of the audit have %d entries too many", -listed)
	}
	return err
}
