package boltstore

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// The index lists the payments of all keys by their set of labels. There are few such sets, so a
// listing by one label merges the few sets that have it. Every payment has one entry only, and a
// listing skips none.

func labelledKey(p *pay.Payment) []byte {
	return joinKey(string([]byte{codec.LabelBits(p.Labels()...)}), p.ID)
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
		if with = codec.LabelBits(q.Label); with == 0 {
			return nil, nil
		}
	}
	before := q.Before
	for len(list) < q.Limit {
		var page []*pay.Payment
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			page, err = newestOf(tx, labelSets(tx, with, codec.LabelBits(q.Without...)), before, min(q.Limit-len(list), scanRows))
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
	m := merge{tx: tx}
	for _, set := range sets {
		m.begin("", before, idIndex{labelledBucket, []byte{set, 0}})
	}
	for r := m.newest(); r != nil && len(list) < limit; r = m.newest() {
		p, err := paymentIn(tx, string(r.id))
		if err != nil {
			return nil, fmt.Errorf("payment %s: %w", r.id, err)
		}
		list = append(list, p)
		m.next(r)
	}
	return list, nil
}
