package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// declinedRow is a pay.Declined as it is stored. Its key and day are in the key of its row, which
// holds all of that day.
type declinedRow struct {
	Reason string       `cbor:"1,keyasint"`
	Host   string       `cbor:"2,keyasint,omitempty"`
	Count  int          `cbor:"3,keyasint"`
	First  codec.Nanos  `cbor:"4,keyasint"`
	Last   codec.Nanos  `cbor:"5,keyasint"`
	Price  codec.Number `cbor:"6,keyasint"` // nil: not known
	Task   string       `cbor:"7,keyasint,omitempty"`
	Detail string       `cbor:"8,keyasint,omitempty"`
}

// encodeDeclined encodes the row of a key and day.
func encodeDeclined(day []pay.Declined) ([]byte, error) {
	rows := make([]declinedRow, len(day))
	for i, d := range day {
		rows[i] = declinedRow{
			Reason: d.Reason, Host: d.Host, Count: d.Count, First: codec.NanosOf(d.First), Last: codec.NanosOf(d.Last), Task: d.Task, Detail: d.Detail,
		}
		if d.Price != nil {
			b := d.Price.Bytes32()
			rows[i].Price = append(codec.Number{}, bytes.TrimLeft(b[:], "\x00")...)
		}
	}
	text, err := cbor.Marshal(rows)
	if err != nil {
		return nil, fmt.Errorf("encode declines: %w", err)
	}
	return append([]byte{codec.Version}, text...), nil
}

// decodeDeclined decodes a row and its key; nil is an empty one. It shares no memory with them.
func decodeDeclined(key, encoded []byte) ([]pay.Declined, error) {
	if encoded == nil {
		return nil, nil
	}
	keyID, day, ok := splitDeclined(key)
	if !ok || len(encoded) == 0 || encoded[0] != codec.Version {
		return nil, fmt.Errorf("declines of an unknown encoding")
	}
	var rows []declinedRow
	if err := cbor.Unmarshal(encoded[1:], &rows); err != nil {
		return nil, fmt.Errorf("decode declines: %w", err)
	}
	list := make([]pay.Declined, len(rows))
	for i, r := range rows {
		list[i] = pay.Declined{
			KeyID: keyID, Day: day, Reason: r.Reason, Host: r.Host, Count: r.Count, First: r.First.Time(), Last: r.Last.Time(), Task: r.Task, Detail: r.Detail,
		}
		if r.Price != nil {
			price, err := r.Price.Amount()
			if err != nil {
				return nil, err
			}
			list[i].Price = &price
		}
	}
	return list, nil
}

func splitDeclined(key []byte) (keyID string, day time.Time, ok bool) {
	id, number, found := bytes.Cut(key, []byte{0})
	if !found || len(number) != 8 {
		return "", day, false
	}
	return string(id), dayIn(number), true
}

// AddDeclines adds counts to those of their keys and days.
func (d *DB) AddDeclines(ctx context.Context, list []pay.Declined) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		days := map[string][]pay.Declined{}
		var order []string
		for _, one := range list {
			if one.KeyID != "" && b.get(keysBucket, []byte(one.KeyID)) == nil {
				continue
			}
			key := string(dayKey(one.KeyID, one.Day))
			day, read := days[key]
			if !read {
				var err error
				if day, err = decodeDeclined([]byte(key), b.get(declinedBucket, []byte(key))); err != nil {
					return err
				}
				order = append(order, key)
			}
			one.KeyID, one.Day = "", time.Time{} // in the key
			days[key] = pay.AddDeclined(day, one)
		}
		for _, key := range order {
			text, err := encodeDeclined(days[key])
			if err != nil {
				return err
			}
			if err := b.dropDeclined([]byte(key)); err != nil {
				return err
			}
			if err := b.put(declinedBucket, []byte(key), text); err != nil {
				return err
			}
		}
		return nil
	}})
}

// dropDeclined removes the days that are too old beside that of a key.
func (b *batch) dropDeclined(key []byte) error {
	prefix, number := key[:len(key)-8], key[len(key)-8:]
	oldest := []byte(dayNumber(dayIn(number).AddDate(0, 0, -pay.MaxDeclinedDays)))
	var old [][]byte
	c := b.tx.Bucket(declinedBucket).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix) && bytes.Compare(k[len(prefix):], oldest) <= 0; k, _ = c.Next() {
		old = append(old, bytes.Clone(k))
	}
	for _, k := range old {
		if err := b.delete(declinedBucket, k); err != nil {
			return err
		}
	}
	return nil
}

// Declines lists what was declined to keys from one UTC day to another.
func (d *DB) Declines(ctx context.Context, keyIDs []string, from, to time.Time) (list []pay.Declined, err error) {
	first, last := dayNumber(pay.DayOf(from)), dayNumber(pay.DayOf(to))
	for some := range slices.Chunk(keyIDs, mergedKeys) {
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			c := tx.Bucket(declinedBucket).Cursor()
			for _, keyID := range some {
				prefix := keyPrefix(keyID)
				k, row := c.Seek(append(slices.Clone(prefix), first...))
				for ; bytes.HasPrefix(k, prefix) && len(k) == len(prefix)+8 && string(k[len(prefix):]) <= last; k, row = c.Next() {
					day, err := decodeDeclined(k, row)
					if err != nil {
						return fmt.Errorf("declines of key %s: %w", keyID, err)
					}
					list = append(list, day...)
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

// declined checks that each row is of a key and has counts of its day.
func (c *checker) declined(ctx context.Context) error {
	return c.each(ctx, declinedBucket, func(key, row []byte) {
		keyID, day, _ := splitDeclined(key)
		list, err := decodeDeclined(key, row)
		if err != nil {
			c.fault("%s %q: %v", declinedBucket, key, err)
			return
		}
		what := fmt.Sprintf("what was declined to key %s on %s", keyID, day.Format(time.DateOnly))
		if keyID != "" && !c.has(keysBucket, []byte(keyID)) {
			c.fault("%s has no key", what)
		}
		var rest []pay.Declined
		for _, d := range list {
			if d.Count < 1 || d.First.After(d.Last) || !pay.DayOf(d.First).Equal(day) || !pay.DayOf(d.Last).Equal(day) {
				c.fault("%s counts %d for %q at %q from %s to %s", what, d.Count, d.Reason, d.Host, d.First, d.Last)
			}
			rest = pay.AddDeclined(rest, d)
		}
		if len(rest) != len(list) || len(list) == 0 || len(list) > pay.MaxDeclined+1 {
			c.fault("%s has %d rows, %d of them different", what, len(list), len(rest))
		}
	})
}
