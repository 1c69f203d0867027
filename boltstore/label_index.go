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
	return append(setPrefix(codec.LabelBits(p.Labels()...)), p.ID...)
}

// setPrefix begins the entries of a label set: its lower byte, its higher one unless that is zero, and a zero. A set
// has a state, so its lower byte is not zero.
func setPrefix(set uint16) []byte {
	if high := byte(set >> 8); high != 0 {
		return []byte{byte(set), high, 0}
	}
	return []byte{byte(set), 0}
}

// setOf returns the label set of an entry.
func setOf(key []byte) uint16 { return uint16(key[0]) | uint16(key[1])<<8 }

// labelSets lists the stored label sets that have all labels of one mask and none of another.
func labelSets(tx *bbolt.Tx, with, without uint16) (sets []uint16) {
	c := tx.Bucket(labelledBucket).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Seek(endOfSet(setOf(k))) {
		if set := setOf(k); set&with == with && set&without == 0 {
			sets = append(sets, set)
		}
	}
	return sets
}

// endOfSet returns the end of the entries of a set, whose prefix ends with a zero.
func endOfSet(set uint16) []byte {
	prefix := setPrefix(set)
	prefix[len(prefix)-1] = 1
	return prefix
}

// AllPayments lists payments of all keys, newest first.
func (d *DB) AllPayments(ctx context.Context, q pay.LabelQuery) (list []*pay.Payment, err error) {
	var with uint16
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
func newestOf(tx *bbolt.Tx, sets []uint16, before string, limit int) (list []*pay.Payment, err error) {
	m := merge{tx: tx}
	for _, set := range sets {
		m.begin("", before, idIndex{labelledBucket, setPrefix(set)})
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
