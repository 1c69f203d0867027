package boltstore

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

func accountIn(tx *bbolt.Tx, id string) (row codec.Account, err error) {
	encoded := tx.Bucket(accountsBucket).Get([]byte(id))
	if encoded == nil {
		return row, pay.ErrAccountNotFound
	}
	if err := decodeRow(encoded, &row); err != nil {
		return row, fmt.Errorf("account %s: %w", id, err)
	}
	return row, nil
}

// AccountByID finds an account.
func (b *batch) AccountByID(id string) (pay.Account, error) {
	row, err := accountIn(b.tx, id)
	if err != nil {
		return pay.Account{}, err
	}
	return row.Unseal(b.db.vault.Load())
}

// AccountOf finds the account of an issuer and subject.
func (b *batch) AccountOf(issuer, subject string) (pay.Account, error) {
	id := b.get(identitiesBucket, codec.AccountKey(issuer, subject))
	if id == nil {
		return pay.Account{}, pay.ErrAccountNotFound
	}
	return b.AccountByID(string(id))
}

// PutAccount writes an account.
func (b *batch) PutAccount(a pay.Account) error {
	row, err := codec.SealAccount(b.db.vault.Load(), a)
	if err != nil {
		return err
	}
	encoded, err := encodeRow(row)
	if err != nil {
		return err
	}
	if err := b.put(accountsBucket, []byte(a.ID), encoded); err != nil {
		return err
	}
	if identity := codec.AccountKey(a.Issuer, a.Subject); b.get(identitiesBucket, identity) == nil {
		return b.put(identitiesBucket, identity, []byte(a.ID))
	}
	return nil
}

// Account finds an account by id.
func (d *DB) Account(ctx context.Context, id string) (pay.Account, error) {
	var row codec.Account
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		row, err = accountIn(tx, id)
		return err
	})
	if err != nil {
		return pay.Account{}, err
	}
	return row.Unseal(d.vault.Load())
}
