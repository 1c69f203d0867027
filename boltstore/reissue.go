package boltstore

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// ReissueKey gives a key another secret.
func (d *DB) ReissueKey(ctx context.Context, r pay.Reissue) (k pay.Key, err error) {
	hash := d.vault.Load().Lookup(r.Secret)
	err = d.do(ctx, &op{run: func(b *batch) error {
		was, err := keyIn(b.tx, r.KeyID)
		if err != nil {
			return err
		}
		if k, err = r.Apply(was); err != nil {
			return err
		}
		if b.get(keyHashBucket, hash[:]) != nil || b.get(replacedBucket, hash[:]) != nil {
			return pay.ErrKeyExists
		}
		old := hashOf(b.tx, k.ID)
		if old == nil {
			return fmt.Errorf("reissue key %s: no hash of its secret is there", k.ID)
		}
		if k.Kept() {
			sealed, err := d.vault.Load().Seal([]byte(r.Secret), codec.KeySecret(k.ID))
			if err != nil {
				return fmt.Errorf("reissue key: %w", err)
			}
			if err := b.put(keySecretsBucket, []byte(k.ID), sealed); err != nil {
				return err
			}
		}
		if err := b.delete(keyHashBucket, old); err != nil {
			return err
		}
		if err := b.put(replacedBucket, old, []byte(k.ID)); err != nil {
			return err
		}
		if err := b.put(keyHashBucket, hash[:], []byte(k.ID)); err != nil {
			return err
		}
		if err := b.revise(k); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.KeyChanged(pay.ActionKeyReissue, was, k))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// hashOf finds the hash of a key's secret. It reads all hashes, because only an operator asks: ten
// thousand keys take a millisecond.
func hashOf(tx *bbolt.Tx, keyID string) []byte {
	c := tx.Bucket(keyHashBucket).Cursor()
	for hash, id := c.First(); hash != nil; hash, id = c.Next() {
		if string(id) == keyID {
			return bytes.Clone(hash)
		}
	}
	return nil
}

// ExecKey finds the key that was made last as the Exec key.
func (d *DB) ExecKey(ctx context.Context) (k pay.Key, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		k, err = execIn(tx)
		return err
	})
	return k, err
}

func execIn(tx *bbolt.Tx) (pay.Key, error) {
	id := tx.Bucket(metaBucket).Get(execKey)
	if id == nil {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	return keyIn(tx, string(id))
}
