package boltstore

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// LinkKey claims an unclaimed key for an organization.
func (d *DB) LinkKey(ctx context.Context, l pay.Link) (k pay.Key, err error) {
	hash := d.vault.Lookup(l.Secret)
	err = d.do(ctx, &op{run: func(b *batch) error {
		id := b.get(keyHashBucket, hash[:])
		if id == nil {
			return pay.ErrKeyNotFound
		}
		if k, err = keyIn(b.tx, string(id)); err != nil {
			return err
		}
		org, known, keys, err := b.organization(l.OrganizationID)
		if err != nil {
			return err
		}
		was := k
		if k, err = l.Apply(was, org, known, keys); err != nil {
			return err
		}
		if err := d.disk.short(); err != nil {
			return err
		}
		// The id is known only here, and sealing takes microseconds.
		sealed, err := d.vault.Seal([]byte(l.Secret), keyIdentity(k.ID))
		if err != nil {
			return fmt.Errorf("link key: %w", err)
		}
		if err := b.put(orgKeysBucket, join(l.OrganizationID, k.ID), nil); err != nil {
			return err
		}
		if err := b.put(keySecretsBucket, []byte(k.ID), sealed); err != nil {
			return err
		}
		if err := b.revise(k); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.KeyChanged(pay.ActionKeyLink, was, k))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// RevealKey decrypts the plaintext of a claimed key: pay.ErrKeyNotFound,
// pay.ErrNotRevealable.
func (d *DB) RevealKey(ctx context.Context, keyID string) (string, error) {
	var sealed []byte
	err := d.view(ctx, func(tx *bbolt.Tx) error {
		if tx.Bucket(keysBucket).Get([]byte(keyID)) == nil {
			return pay.ErrKeyNotFound
		}
		sealed = bytes.Clone(tx.Bucket(keySecretsBucket).Get([]byte(keyID)))
		return nil
	})
	if err != nil {
		return "", err
	}
	if sealed == nil {
		return "", pay.ErrNotRevealable
	}
	secret, err := d.vault.Unseal(sealed, keyIdentity(keyID))
	if err != nil {
		return "", fmt.Errorf("reveal key %s: %w", keyID, err)
	}
	return string(secret), nil
}
