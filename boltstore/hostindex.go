package boltstore

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// hostEventKey is where an event is found by its host. A host on REST is only claimed and may
// be of any length, so the index has its hash.
func hostEventKey(e *pay.SpendEvent) []byte { return join(e.KeyID, hashed(e.Host), e.ID) }

// migratedRows bounds the spend events of one transaction while nobody else has the store.
const migratedRows = 20 * scanRows

// sumUpSpend makes what schema 5 adds to the spend events of before: their sums by day, and
// the index by host.
func sumUpSpend(u *upgrade) error {
	var last []byte
	for done := 0; ; {
		err := u.Update(func(tx *bbolt.Tx) (err error) {
			if last == nil {
				if err := recreate(tx, spendDaysBucket, hostEventsBucket); err != nil {
					return err
				}
			}
			last, err = sumUpFrom(tx, last)
			return err
		})
		if err != nil || last == nil {
			return err
		}
		done += migratedRows
		if err := u.went(eventsBucket, done); err != nil {
			return err
		}
	}
}

// recreate empties buckets, which an upgrade that was cut off may have begun to fill.
func recreate(tx *bbolt.Tx, names ...[]byte) error {
	for _, name := range names {
		if tx.Bucket(name) != nil {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// sumUpFrom sums up the events behind one, and tells the last; nil when there are no more.
func sumUpFrom(tx *bbolt.Tx, last []byte) ([]byte, error) {
	c := tx.Bucket(eventsBucket).Cursor()
	k, encoded := c.Seek(last)
	if last != nil && bytes.Equal(k, last) {
		k, encoded = c.Next()
	}
	days, hosts := tx.Bucket(spendDaysBucket), tx.Bucket(hostEventsBucket)
	rows := map[string]*dayRow{}
	n := 0
	for ; k != nil && n < migratedRows; k, encoded = c.Next() {
		n++
		last = bytes.Clone(k)
		var e pay.SpendEvent
		if err := decodeRow(encoded, &e); err != nil {
			return nil, fmt.Errorf("%s %q: %w", eventsBucket, k, err)
		}
		if e.Host != "" {
			if err := hosts.Put(hostEventKey(&e), nil); err != nil {
				return nil, err
			}
		}
		key := string(dayKey(e.KeyID, e.Created))
		row := rows[key]
		if row == nil {
			have, err := decodeDay(days.Get([]byte(key)))
			if err != nil {
				return nil, err
			}
			row = &have
			rows[key] = row
		}
		row.add(&e)
	}
	for key, row := range rows {
		if err := days.Put([]byte(key), row.encode()); err != nil {
			return nil, err
		}
	}
	if n < migratedRows {
		return nil, nil
	}
	return last, nil
}
