package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// PutEvent writes an event of a payment, its indexes and the sums of its day. HasEvent has found it new.
func (b *batch) PutEvent(p *pay.Payment, e *pay.SpendEvent) error {
	if err := b.replace(eventsBucket, joinKey(e.KeyID, e.ID), nil, codec.EncodeEvent(e)); err != nil {
		return err
	}
	if e.Task != "" {
		if err := b.replace(taskEventsBucket, joinKey(e.KeyID, e.Task, e.ID), nil, []byte{}); err != nil {
			return err
		}
	}
	if e.Host != "" {
		if err := b.replace(hostEventsBucket, hostEventKey(e), nil, []byte{}); err != nil {
			return err
		}
	}
	if err := b.rollUp(e); err != nil {
		return err
	}
	return b.leave(p, e)
}

// HasEvent reports whether the id of an event is taken.
func (b *batch) HasEvent(e *pay.SpendEvent) (bool, error) {
	return b.get(eventsBucket, joinKey(e.KeyID, e.ID)) != nil, nil
}

// decodeEvent decodes a row of the events and its key. The event shares no memory with them.
func decodeEvent(key, encoded []byte) (pay.SpendEvent, error) {
	keyID, id, _ := bytes.Cut(key, []byte{0})
	return codec.DecodeEvent(string(keyID), string(id), encoded)
}

// SpendEvents lists a key's events without those of withdrawals, newest first.
func (d *DB) SpendEvents(ctx context.Context, keyID string, q pay.SpendQuery) ([]pay.SpendEvent, error) {
	bucket, prefix := eventsBucket, keyPrefix(keyID)
	if q.Task != "" {
		bucket, prefix = taskEventsBucket, keyPrefix(keyID, q.Task)
	}
	var list []pay.SpendEvent
	position, more := q.Before, true
	for more && len(list) < q.Limit {
		err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
			events, seen := tx.Bucket(eventsBucket), 0
			if q.Before != "" && !hasKey(tx.Bucket(bucket), append(slices.Clone(prefix), q.Before...)) {
				return pay.ErrEventNotFound
			}
			more = false
			descend(tx.Bucket(bucket), prefix, position, func(id, encoded []byte) bool {
				if seen == scanRows || len(list) == q.Limit {
					more = true
					return false
				}
				seen++
				position = string(id)
				key := joinKey(keyID, position)
				if q.Task != "" {
					encoded = events.Get(key)
				}
				e, wrong := decodeEvent(key, encoded)
				if err = wrong; err != nil {
					err = fmt.Errorf("spend event %s: %w", id, err)
					return false
				}
				if !e.Withdraws() {
					list = append(list, e)
				}
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

// VisitCounters visits the counters whose names begin with a prefix.
func (d *DB) VisitCounters(ctx context.Context, prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	return d.view(ctx, func(tx *bbolt.Tx) error { return visitCounters(tx, prefix, visit) })
}

// Counter reads a counter.
func (d *DB) Counter(ctx context.Context, c pay.Counter) (amount money.Amount, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		amount, err = counterIn(tx, c)
		return err
	})
	return amount, err
}
