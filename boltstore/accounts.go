package boltstore

import (
	"context"
	"errors"
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

func (b *batch) putAccount(row codec.Account) error {
	encoded, err := encodeRow(row)
	if err != nil {
		return err
	}
	return b.put(accountsBucket, []byte(row.ID), encoded)
}

// Enroll signs a person in.
func (d *DB) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	key, err := d.newKey(e.Key)
	if err != nil {
		return a, false, err
	}
	identity := codec.AccountKey(e.Account.Issuer, e.Account.Subject)
	err = d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		a, first = e.Account, true
		begins := a.OrganizationID != "" // with an organization
		if id := b.get(identitiesBucket, identity); id != nil {
			was, err := accountIn(b.tx, string(id))
			if err != nil {
				return err
			}
			first = false
			a.ID, a.Created, a.Generation = was.ID, was.Created, was.Generation
			if was.OrganizationID != "" {
				a.OrganizationID, begins = was.OrganizationID, false
			}
		}
		row, err := codec.SealAccount(d.vault.Load(), a)
		if err != nil {
			return err
		}
		_, known, err := organizationIn(b.tx, e.Key.OrganizationID)
		if err != nil {
			return err
		}
		if begins && known { // the account would see the keys of another account
			return fmt.Errorf("enroll: organization %s is there already", e.Key.OrganizationID)
		}
		if begins || e.Account.OrganizationID == "" && e.Key.OrganizationID != "" && !known {
			if err := d.createKey(b, key); err != nil {
				return err
			}
			if err := d.audit(ctx, b, pay.KeyCreated(key.Key)); err != nil {
				return err
			}
		}
		if first {
			if b.get(accountsBucket, []byte(a.ID)) != nil {
				return fmt.Errorf("enroll: id %s is taken", a.ID)
			}
			if err := b.put(identitiesBucket, identity, []byte(a.ID)); err != nil {
				return err
			}
		}
		return b.putAccount(row)
	}})
	if err != nil {
		return pay.Account{}, false, err
	}
	return a, first, nil
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

// EndSessions begins an account's next generation.
func (d *DB) EndSessions(ctx context.Context, accountID string) (pay.Account, error) {
	var row codec.Account
	err := d.do(ctx, &op{run: func(b *batch) (err error) {
		if row, err = accountIn(b.tx, accountID); err != nil {
			return err
		}
		row.Generation++
		return b.putAccount(row)
	}})
	if err != nil {
		return pay.Account{}, err
	}
	return row.Unseal(d.vault.Load())
}
