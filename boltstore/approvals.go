package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// approvalEntries makes all index entries of an approval; none for nil.
func approvalEntries(a *pay.Approval) []indexEntry {
	if a == nil {
		return nil
	}
	list := []indexEntry{{keyApprovalsBucket, joinKey(a.KeyID, a.ID)}}
	if a.Answer == "" {
		end := encodeTime(a.Expires)
		list = append(list, indexEntry{pendingBucket, joinKey("", end, a.ID)}, indexEntry{pendingBucket, joinKey(a.KeyID, end, a.ID)})
	}
	if a.Used.IsZero() {
		list = append(list, indexEntry{purchasesBucket, joinKey(a.KeyID, string(a.Purchase[:]), a.ID)})
	}
	return list
}

func approvalIn(tx *bbolt.Tx, id string) (a pay.Approval, err error) {
	row := tx.Bucket(approvalsBucket).Get([]byte(id))
	if row == nil {
		return a, pay.ErrApprovalNotFound
	}
	if err := decodeRow(row, &a); err != nil {
		return a, fmt.Errorf("approval %s: %w", id, err)
	}
	return a, nil
}

// PutApproval replaces the row of an approval; nil: there is none.
func (b *batch) PutApproval(was, is *pay.Approval) error {
	had, has := approvalEntries(was), approvalEntries(is)
	for _, e := range had {
		if !slices.ContainsFunc(has, e.equal) {
			if err := b.delete(e.bucket, e.key); err != nil {
				return err
			}
		}
	}
	for _, e := range has {
		if !slices.ContainsFunc(had, e.equal) {
			if err := b.put(e.bucket, e.key, nil); err != nil {
				return err
			}
		}
	}
	if is == nil {
		return b.delete(approvalsBucket, []byte(was.ID))
	}
	row, err := encodeRow(is)
	if err != nil {
		return err
	}
	return b.put(approvalsBucket, []byte(is.ID), row)
}

// ApprovalByID finds an approval.
func (b *batch) ApprovalByID(id string) (pay.Approval, error) { return approvalIn(b.tx, id) }

// ApprovalsOf lists the ids of a key's approvals, oldest first.
func (b *batch) ApprovalsOf(keyID string) (ids []string, err error) {
	prefix := keyPrefix(keyID)
	c := b.tx.Bucket(keyApprovalsBucket).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		ids = append(ids, string(k[len(prefix):]))
	}
	return ids, nil
}

// Approval finds an approval.
func (d *DB) Approval(ctx context.Context, id string) (a pay.Approval, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		a, err = approvalIn(tx, id)
		return err
	})
	return a, err
}

// approvalWalk selects approvals in the order of one index.
type approvalWalk struct {
	bucket, prefix []byte
	before         string // the part of a key behind the prefix where the walk has come to; "": it begins
	// now walks up instead of down, from the first that ends after it. Ids follow the end of their time.
	now string
}

// Approvals lists approvals, newest first.
func (d *DB) Approvals(ctx context.Context, q pay.ApprovalQuery) (list []pay.Approval, err error) {
	if q.Now.IsZero() {
		q.Now = d.clock()
	}
	keys := []string{q.KeyID}
	if q.OrganizationID != "" {
		if keys, err = d.keysOf(ctx, q.OrganizationID); err != nil {
			return nil, err
		}
	}
	before := ""
	if q.Before != "" {
		last, err := d.Approval(ctx, q.Before)
		if err != nil {
			return nil, err
		}
		if before = last.ID; q.State == pay.ApprovalPending {
			before = string(joinKey(encodeTime(last.Expires), last.ID))
		}
	}
	limit := min(q.Limit, maxPage)
	for _, keyID := range keys {
		w := approvalWalk{bucket: keyApprovalsBucket, prefix: keyPrefix(keyID), before: before}
		switch {
		case q.State == pay.ApprovalPending:
			w.bucket, w.now = pendingBucket, encodeTime(q.Now)
		case keyID == "":
			w.bucket, w.prefix = approvalsBucket, nil
		}
		some, err := d.walkApprovals(ctx, q, w, limit)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	if len(keys) > 1 {
		slices.SortFunc(list, func(a, b pay.Approval) int {
			if q.State == pay.ApprovalPending {
				return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
			}
			return cmp.Compare(b.ID, a.ID)
		})
	}
	return list[:min(len(list), limit)], nil
}

// walkApprovals lists approvals of one index, in transactions of scanRows.
func (d *DB) walkApprovals(ctx context.Context, q pay.ApprovalQuery, w approvalWalk, limit int) (list []pay.Approval, err error) {
	for more := true; more && len(list) < limit; {
		more = false
		err = d.view(ctx, func(tx *bbolt.Tx) (err error) {
			bucket, seen := tx.Bucket(w.bucket), 0
			c := bucket.Cursor()
			for k := w.first(bucket, c); k != nil && bytes.HasPrefix(k, w.prefix); k = w.next(bucket, c, k) {
				rest := string(k[len(w.prefix):])
				if seen == scanRows || len(list) == limit {
					more = true
					return nil
				}
				seen++
				w.before = rest
				id := rest
				if w.now != "" {
					id = rest[9:]
				}
				a, err := approvalIn(tx, id)
				if err != nil {
					return err
				}
				if q.Wants(a) {
					list = append(list, a)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// first moves a cursor to the entry where the walk goes on.
func (w approvalWalk) first(bucket *bbolt.Bucket, c *bbolt.Cursor) []byte {
	var k []byte
	switch {
	case w.now != "":
		from := max(w.before, w.now+"\x01") // above all ids of that time
		if k, _ = c.Seek(append(slices.Clone(w.prefix), from...)); k != nil && string(k[len(w.prefix):]) == w.before {
			k, _ = c.Next()
		}
	case w.before != "":
		k, _ = below(bucket, c, append(slices.Clone(w.prefix), w.before...))
	case len(w.prefix) == 0:
		k, _ = last(bucket, c)
	default:
		k, _ = below(bucket, c, append(slices.Clone(w.prefix[:len(w.prefix)-1]), 1)) // the prefix ends with a zero
	}
	return k
}

// next moves a cursor from an entry to the following one.
func (w approvalWalk) next(bucket *bbolt.Bucket, c *bbolt.Cursor, at []byte) (k []byte) {
	if w.now != "" {
		k, _ = c.Next()
		return k
	}
	k, _ = previous(bucket, c, at)
	return k
}

// keysOf lists the ids of the keys of an organization.
func (d *DB) keysOf(ctx context.Context, orgID string) (ids []string, err error) {
	prefix := keyPrefix(orgID)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(orgKeysBucket).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			ids = append(ids, string(k[len(prefix):]))
		}
		return nil
	})
	return ids, err
}

// closeApprovals ends all approvals of a store that comes from a backup: see pay.Approval.Restored.
func closeApprovals(tx *bbolt.Tx) error {
	b := newBatch(nil, tx)
	var unused []pay.Approval
	err := tx.Bucket(approvalsBucket).ForEach(func(id, _ []byte) error {
		a, err := approvalIn(tx, string(id))
		if err == nil && a.Used.IsZero() {
			unused = append(unused, a)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, was := range unused {
		is := was.Restored()
		if err := b.PutApproval(&was, &is); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) Approval(keyID string, purchase pay.Hash) (found *pay.Approval, err error) {
	descend(b.tx.Bucket(purchasesBucket), keyPrefix(keyID, string(purchase[:])), "", func(id, _ []byte) bool {
		var a pay.Approval
		if a, err = approvalIn(b.tx, string(id)); err == nil {
			found = &a
		}
		return false
	})
	return found, err
}

func (b *batch) CountPendingApprovals(keyID string, now time.Time, max int) (n int, err error) {
	prefix := keyPrefix(keyID)
	c := b.tx.Bucket(pendingBucket).Cursor()
	for k, _ := c.Seek(append(slices.Clone(prefix), encodeTime(now.Add(1))...)); bytes.HasPrefix(k, prefix) && n < max; k, _ = c.Next() {
		n++
	}
	return n, nil
}

// approvals compares every approval with its indexes.
func (c *checker) approvals(ctx context.Context) error {
	listed := map[string]int{}
	err := c.each(ctx, approvalsBucket, func(id, _ []byte) {
		a, err := approvalIn(c.tx, string(id))
		if err != nil {
			c.fault("%v", err)
			return
		}
		if a.ID != string(id) {
			c.fault("approval %s is stored as %s", a.ID, id)
		}
		if !c.has(keysBucket, []byte(a.KeyID)) {
			c.fault("approval %s belongs to key %s, which is not there", id, a.KeyID)
		}
		if a.Used.IsZero() != (a.PaymentID == "") || !a.Used.IsZero() && a.Answer != pay.Approved {
			c.fault("approval %s was used without being approved, or for no payment", id)
		}
		for _, e := range approvalEntries(&a) {
			listed[string(e.bucket)]++
			if !c.has(e.bucket, e.key) {
				c.fault("approval %s is missing in %s", id, e.bucket)
			}
		}
	})
	for _, bucket := range [][]byte{keyApprovalsBucket, pendingBucket, purchasesBucket} {
		if err != nil {
			return err
		}
		err = c.each(ctx, bucket, func(_, _ []byte) { listed[string(bucket)]-- })
		if n := listed[string(bucket)]; err == nil && n < 0 {
			c.fault("%s has %d entries too many", bucket, -n)
		}
	}
	return err
}
