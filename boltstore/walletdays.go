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

// The transaction that writes an event adds it to what left its payment's wallet on its UTC day, too.
// Keys share wallets and use several, so that the sums of keys do not tell it.

// leave counts an event in the day of its wallet. It leaves a damaged row to purser check, because
// money that has moved must be booked all the same.
func (b *batch) leave(p *pay.Payment, e *pay.SpendEvent) error {
	key := dayKey(p.WalletID, e.Created)
	was := b.get(walletDaysBucket, key)
	day, err := codec.DecodeWalletDay(was)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	day.Event(p, e)
	return b.replace(walletDaysBucket, key, was, codec.EncodeWalletDay(day))
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
		day, err := codec.DecodeWalletDay(row)
		if day.Day = dayIn(number); err != nil {
			return fmt.Errorf("wallet %s on %s: %w", walletID, day.Day.Format(time.DateOnly), err)
		}
		visit(walletID, day)
	}
	return nil
}
