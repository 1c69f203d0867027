package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// The index lists the payments of all keys by their set of labels. There are few such sets, so a
// listing by one label merges the few sets that have it. Every payment has one entry only, and a
// listing skips none.

func labelledKey(p *pay.Payment) []byte {
	return joinKey(string([]byte{labelBits(p.Labels()...)}), p.ID)
}

// labelSets lists the stored label sets that have all labels of one mask and none of another.
func labelSets(tx *bbolt.Tx, with, without byte) (sets []byte) {
	c := tx.Bucket(labelledBucket).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Seek(endOfSet(k[0])) {
		if k[0]&with == with && k[0]&without == 0 {
			sets = append(sets, k[0])
		}
	}
	return sets
}

// endOfSet returns the end of the entries of a set, whose second byte is zero.
func endOfSet(set byte) []byte { return []byte{set, 1} }

// AllPayments lists payments of all keys, newest first.
func (d *DB) AllPayments(ctx context.Context, q pay.LabelQuery) (list []*pay.Payment, err error) {
	var with byte
	if q.Label != "" {
		if with = labelBits(q.Label); with == 0 {
			return nil, nil
		}
	}
	before := q.Before
	for len(list) < q.Limit {
		var page []*pay.Payment
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			page, err = newestOf(tx, labelSets(tx, with, labelBits(q.Without...)), before, min(q.Limit-len(list), scanRows))
			return err
		})
		if err != nil || len(page) == 0 {
			return list, err
		}
		list = append(list, page...)
		before = page[len(page)-1].ID
	}
	return list, nil
}

// newestOf merges the payments of some label sets below an id, newest first.
func newestOf(tx *bbolt.Tx, sets []byte, before string, limit int) (list []*pay.Payment, err error) {
	type run struct {
		*bbolt.Cursor
		set byte
		id  []byte // the newest that is not listed yet
	}
	follow := func(r *run, k []byte) bool {
		if len(k) == 0 || k[0] != r.set {
			return false
		}
		r.id = k[2:]
		return true
	}
	var runs []*run
	for _, set := range sets {
		r := &run{Cursor: tx.Bucket(labelledBucket).Cursor(), set: set}
		from := endOfSet(set)
		if before != "" {
			from = joinKey(string([]byte{set}), before)
		}
		step := r.Prev
		if k, _ := r.Seek(from); k == nil {
			step = r.Last
		}
		if k, _ := step(); follow(r, k) {
			runs = append(runs, r)
		}
	}
	for len(runs) > 0 && len(list) < limit {
		newest := slices.MaxFunc(runs, func(a, b *run) int { return bytes.Compare(a.id, b.id) })
		p, err := paymentIn(tx, string(newest.id))
		if err != nil {
			return nil, fmt.Errorf("payment %s: %w", newest.id, err)
		}
		list = append(list, p)
		if k, _ := newest.Prev(); !follow(newest, k) {
			runs = slices.DeleteFunc(runs, func(r *run) bool { return r == newest })
		}
	}
	return list, nil
}
