package boltstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// dayKey makes the key of the row of a day.
func dayKey(keyID string, day time.Time) []byte { return joinKey(keyID, dayNumber(day)) }

// dayNumber encodes the days since 1970.
func dayNumber(day time.Time) string {
	return encodeNumber(day.Unix() / int64(24*time.Hour/time.Second))
}

// dayIn decodes a day of dayNumber.
func dayIn(part []byte) time.Time {
	return time.Unix(int64(decodeNumber(part))*int64(24*time.Hour/time.Second), 0).UTC()
}

// rollUp counts an event in its day. It leaves a damaged row to purser check, because money that
// has moved must be booked all the same.
func (b *batch) rollUp(e *pay.SpendEvent) error {
	key := dayKey(e.KeyID, e.Created)
	was := b.get(spendDaysBucket, key)
	row := b.days[string(key)]
	if row == nil {
		day, err := codec.DecodeDay(was)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		row = &day
		b.days[string(key)] = row
	}
	row.Add(e)
	return b.replace(spendDaysBucket, key, was, row.Encode())
}

// SpendSummary adds up what the keys spent from one UTC day to another.
func (d *DB) SpendSummary(ctx context.Context, keyIDs []string, from, to time.Time) (pay.Summary, error) {
	t := pay.NewTally(from, to)
	err := d.VisitSpendDays(ctx, keyIDs, from, to, pay.SpendDays{
		Day:  func(_ string, day time.Time, s pay.Sum) { t.Day(day, s) },
		Host: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Host(name, s) },
		Task: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Task(name, s) },
	})
	if err != nil {
		return pay.Summary{}, err
	}
	return t.Summary(), nil
}

// VisitSpendDays visits the daily sums of the keys from one UTC day to another.
func (d *DB) VisitSpendDays(ctx context.Context, keyIDs []string, from, to time.Time, visit pay.SpendDays) error {
	first, last := dayNumber(time.Unix(0, 0)), dayNumber(pay.DayOf(to))
	if !from.IsZero() {
		first = dayNumber(pay.DayOf(from))
	}
	next := first // of the first key that is left
	for len(keyIDs) > 0 {
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			c := tx.Bucket(spendDaysBucket).Cursor()
			for rows := 0; len(keyIDs) > 0 && rows < scanRows; {
				prefix := keyPrefix(keyIDs[0])
				k, row := c.Seek(append(slices.Clone(prefix), next...))
				rows++
				for ; k != nil && len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix); k, row = c.Next() {
					number := k[len(prefix):]
					if string(number) > last {
						break
					}
					if rows == scanRows {
						next = string(number)
						return nil
					}
					rows++
					day := dayIn(number)
					if err := codec.VisitSpend(keyIDs[0], day, row, visit); err != nil {
						return fmt.Errorf("spend of key %s on %s: %w", keyIDs[0], day.Format(time.DateOnly), err)
					}
				}
				keyIDs, next = keyIDs[1:], first
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
