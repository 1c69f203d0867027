package boltstore

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// newEvent encodes an event that is to be written under its own, unused id.
func (b *batch) newEvent(e *pay.SpendEvent) ([]byte, error) {
	if e.ID == "" || b.get(eventsBucket, join(e.KeyID, e.ID)) != nil {
		return nil, fmt.Errorf("payment %s: spend event id %q is empty or taken", e.PaymentID, e.ID)
	}
	return encodeRow(e)
}

// SpendEvents lists a key's events, newest first.
func (d *DB) SpendEvents(ctx context.Context, keyID string, limit int, before string) ([]pay.SpendEvent, error) {
	var list []pay.SpendEvent
	position, more := before, true
	for more && len(list) < limit {
		err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
			events, seen := tx.Bucket(eventsBucket), 0
			if before != "" && events.Get(join(keyID, before)) == nil {
				return pay.ErrEventNotFound
			}
			more = false
			descend(events, within(keyID), position, func(id, encoded []byte) bool {
				if seen == scanRows || len(list) == limit {
					more = true
					return false
				}
				seen++
				position = string(id)
				var e pay.SpendEvent
				if err = decodeRow(encoded, &e); err != nil {
					err = fmt.Errorf("spend event %s: %w", id, err)
					return false
				}
				list = append(list, e)
				return true
			})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Counter reads a counter.
func (d *DB) Counter(ctx context.Context, c pay.Counter) (amount x402.Amount, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		amount, err = counterIn(tx, c)
		return err
	})
	return amount, err
}
