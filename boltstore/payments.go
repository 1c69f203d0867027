package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// scanRows bounds the rows of one read transaction, because a long reader pins the pages that
// writers free. Longer scans go on in another transaction. Tests lower it.
var scanRows = 1000

// maxPage bounds the rows of a listing.
const maxPage = 1000

// storedIn reads the rows of a payment; no rows: there is none.
func storedIn(tx *bbolt.Tx, id string) codec.Stored {
	return codec.Stored{Row: tx.Bucket(paymentsBucket).Get([]byte(id)), Payload: tx.Bucket(payloadsBucket).Get([]byte(id))}
}

// paymentIn reads a payment: pay.ErrPaymentNotFound.
func paymentIn(tx *bbolt.Tx, id string) (*pay.Payment, error) {
	stored := storedIn(tx, id)
	if stored.Row == nil {
		return nil, pay.ErrPaymentNotFound
	}
	p, err := codec.Decode(stored)
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", id, err)
	}
	return p, nil
}

// PutPayment writes a payment with its indexes. was is the stored row, nil for a new one. From
// now on the batch owns the row is.
func (b *batch) PutPayment(was, is *pay.Payment) error {
	if err := b.put(paymentsBucket, []byte(is.ID), codec.EncodeRow(is)); err != nil {
		return err
	}
	if was == nil || !codec.SamePayload(was, is) {
		if err := b.write(payloadsBucket, []byte(is.ID), codec.EncodePayload(is)); err != nil {
			return err
		}
	}
	if err := b.reindex(was, is); err != nil {
		return err
	}
	b.rows[is.ID] = is
	return nil
}

// HasPayment reports whether an id is taken.
func (b *batch) HasPayment(id string) (bool, error) {
	return id != "" && b.get(paymentsBucket, []byte(id)) != nil, nil
}

// Payment finds a payment.
func (d *DB) Payment(ctx context.Context, id string) (p *pay.Payment, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		p, err = paymentIn(tx, id)
		return err
	})
	return p, err
}

// PaymentsByTransaction lists payments with the hash of a transaction.
func (d *DB) PaymentsByTransaction(ctx context.Context, hash string, limit int) (list []*pay.Payment, err error) {
	if hash == "" {
		return nil, nil
	}
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		prefix, c := keyPrefix(transactionKey(hash)), tx.Bucket(transactionsBucket).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix) && len(list) < min(limit, maxPage); k, _ = c.Next() {
			p, err := paymentIn(tx, string(k[len(prefix):]))
			if err != nil {
				return err
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// Payments lists a key's payments, newest first.
func (d *DB) Payments(ctx context.Context, q pay.PaymentQuery) ([]*pay.Payment, error) {
	return d.newestPayments(ctx, []string{q.KeyID}, q.Label, q.Before, q.Limit, math.MaxInt)
}

// Due lists payments whose Check has come, the longest due first.
func (d *DB) Due(ctx context.Context, now time.Time, limit int) (list []*pay.Payment, err error) {
	limit = min(limit, maxPage)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		until := encodeTime(now)
		c := tx.Bucket(dueBucket).Cursor()
		for k, _ := c.First(); k != nil && len(list) < limit && string(k[:8]) <= until; k, _ = c.Next() {
			p, err := paymentIn(tx, string(k[9:]))
			if err != nil {
				return err
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// CountOpen counts the payments with a label over all keys.
func (d *DB) CountOpen(ctx context.Context, label string) (n int, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		n, err = labelCount(tx, label)
		return err
	})
	return n, err
}
