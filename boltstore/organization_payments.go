package boltstore

import (
	"context"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// PaymentsOf lists the payments of the keys, newest first. It takes at most pageViews
// transactions for each mergedKeys keys.
func (d *DB) PaymentsOf(ctx context.Context, keyIDs []string, label string, limit int) (all []*pay.Payment, err error) {
	for keys := range slices.Chunk(keyIDs, mergedKeys) {
		list, err := d.newestPayments(ctx, keys, label, "", limit, pageViews)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *pay.Payment) int { return strings.Compare(b.ID, a.ID) })
	return all[:min(len(all), limit)], nil
}

// newestPayments lists the payments of mergedKeys keys at most, newest first, below an id ("":
// all). It takes at most a number of transactions.
func (d *DB) newestPayments(ctx context.Context, keys []string, label, before string, limit, views int) (list []*pay.Payment, err error) {
	var wanted byte // filters the rows of a label without an index, which is one of the first eight
	index := func(keyID string) idIndex { return idIndex{keyPaymentsBucket, keyPrefix(keyID)} }
	if slices.Contains(indexed, label) {
		index = func(keyID string) idIndex { return idIndex{labelsBucket, keyPrefix(keyID, label)} }
	} else if label != "" {
		if wanted = byte(codec.LabelBits(label)); wanted == 0 {
			return nil, nil
		}
	}
	for more := true; more && views > 0; views-- {
		err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
			m := merge{tx: tx}
			for _, keyID := range keys {
				m.begin(keyID, before, index(keyID))
			}
			rows := tx.Bucket(paymentsBucket)
			r := m.newest()
			for ; r != nil && m.rows < scanRows-2 && len(list) < limit; r = m.newest() {
				before = string(r.id)
				m.rows++
				encoded := rows.Get(r.id)
				m.next(r)
				if wanted != 0 && (len(encoded) < 2 || encoded[1]&wanted == 0) {
					continue
				}
				p, err := paymentIn(tx, before)
				if err != nil {
					return err
				}
				list = append(list, p)
			}
			more = r != nil && len(list) < limit
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
