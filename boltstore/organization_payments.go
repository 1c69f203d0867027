package boltstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// PaymentsOf lists the payments of the keys, newest first. It takes at most pageViews
// transactions for each mergedKeys keys.
func (d *DB) PaymentsOf(ctx context.Context, keyIDs []string, label string, limit int) ([]*pay.Payment, error) {
	var wanted byte // filters what the index does not
	index := func(keyID string) idIndex { return idIndex{keyPaymentsBucket, keyPrefix(keyID)} }
	if slices.Contains(indexed, label) {
		index = func(keyID string) idIndex { return idIndex{labelsBucket, keyPrefix(keyID, label)} }
	} else if label != "" {
		if wanted = labelBits(label); wanted == 0 {
			return nil, nil
		}
	}
	var all []*pay.Payment
	for keys := range slices.Chunk(keyIDs, mergedKeys) {
		list, before := []*pay.Payment(nil), ""
		for views, more := 0, true; more && views < pageViews; views++ {
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
					p, err := decodePayment(encoded)
					if err != nil {
						return fmt.Errorf("payment %s: %w", before, err)
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
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *pay.Payment) int { return strings.Compare(b.ID, a.ID) })
	return all[:min(len(all), limit)], nil
}
