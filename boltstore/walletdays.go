package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// The transaction that writes an event adds it to what left its payment's wallet on its UTC day, too.
// Keys share wallets and use several, so that the sums of keys do not tell it.

// walletDayVersion is the first byte of a row.
const walletDayVersion = 1

// encodeWalletDay writes the version, what was spent, and what was withdrawn.
func encodeWalletDay(d pay.WalletDay) []byte {
	return appendSum(appendSum(append(make([]byte, 0, 32), walletDayVersion), d.Spent), d.Withdrawn)
}

// decodeWalletDay decodes a row; nil is an empty one. The day is in its key.
func decodeWalletDay(encoded []byte) (d pay.WalletDay, err error) {
	if encoded == nil {
		return d, nil
	}
	if len(encoded) == 0 || encoded[0] != walletDayVersion {
		return d, errors.New("daily sums of an unknown encoding")
	}
	r := partReader{rest: encoded[1:]}
	d.Spent, d.Withdrawn = r.sum(), r.sum()
	if r.bad || len(r.rest) > 0 {
		return pay.WalletDay{}, errors.New("daily sums that are damaged")
	}
	return d, nil
}

// leave counts an event in the day of its wallet. It leaves a damaged row to purser check, because
// money that has moved must be booked all the same.
func (b *batch) leave(p *pay.Payment, e *pay.SpendEvent) error {
	key := dayKey(p.WalletID, e.Created)
	was := b.get(walletDaysBucket, key)
	day, err := decodeWalletDay(was)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	day.Event(p, e)
	return b.replace(walletDaysBucket, key, was, encodeWalletDay(day))
}

// VisitWalletDays visits what left wallets from one UTC day to another.
func (d *DB) VisitWalletDays(ctx context.Context, walletIDs []string, from, to time.Time, visit func(string, pay.WalletDay)) error {
	first, last := dayNumber(pay.DayOf(from)), dayNumber(pay.DayOf(to))
	for some := range slices.Chunk(walletIDs, 30) { // of a month, a thousand rows
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			for _, id := range some {
				if err := visitWalletDays(tx, id, first, last, visit); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func visitWalletDays(tx *bbolt.Tx, walletID, first, last string, visit func(string, pay.WalletDay)) error {
	prefix := keyPrefix(walletID)
	c := tx.Bucket(walletDaysBucket).Cursor()
	k, row := c.Seek(append(slices.Clone(prefix), first...))
	for ; k != nil && len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix); k, row = c.Next() {
		number := k[len(prefix):]
		if string(number) > last {
			break
		}
		day, err := decodeWalletDay(row)
		if day.Day = dayIn(number); err != nil {
			return fmt.Errorf("wallet %s on %s: %w", walletID, day.Day.Format(time.DateOnly), err)
		}
		visit(walletID, day)
	}
	return nil
}
