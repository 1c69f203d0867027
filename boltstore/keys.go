package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// AddKey writes a new key.
func (b *batch) AddKey(k pay.NewKey) error {
	hash := b.db.vault.Load().Lookup(k.Secret)
	row, err := encodeRow(k.Key)
	if err != nil {
		return err
	}
	if err := b.keepSecret(k.Key, k.Secret); err != nil {
		return err
	}
	if k.Claimed() {
		if err := b.put(orgKeysBucket, joinKey(k.OrganizationID, k.ID), nil); err != nil {
			return err
		}
	}
	if k.Exec {
		if err := b.put(metaBucket, execKey, []byte(k.ID)); err != nil {
			return err
		}
	}
	if err := b.put(keysBucket, []byte(k.ID), row); err != nil {
		return err
	}
	return b.put(keyHashBucket, hash[:], []byte(k.ID))
}

// keepSecret keeps the secret of a key encrypted, if it is kept at all.
func (b *batch) keepSecret(k pay.Key, secret string) error {
	if !k.Kept() {
		return nil
	}
	sealed, err := b.db.vault.Load().Seal([]byte(secret), codec.KeySecret(k.ID))
	if err != nil {
		return fmt.Errorf("seal the secret of key %s: %w", k.ID, err)
	}
	return b.put(keySecretsBucket, []byte(k.ID), sealed)
}

// PutLinkedKey writes a key that has got an organization.
func (b *batch) PutLinkedKey(k pay.Key, secret string) error {
	if err := b.keepSecret(k, secret); err != nil {
		return err
	}
	if err := b.put(orgKeysBucket, joinKey(k.OrganizationID, k.ID), nil); err != nil {
		return err
	}
	return b.PutKey(k)
}

// PutReissuedKey writes a key with another secret.
func (b *batch) PutReissuedKey(k pay.Key, secret string) error {
	hash, old := b.db.vault.Load().Lookup(secret), hashOf(b.tx, k.ID)
	if old == nil {
		return fmt.Errorf("reissue key %s: no hash of its secret is there", k.ID)
	}
	if k.Overlap != nil {
		k.Overlap.Hash = old
	}
	if err := b.keepSecret(k, secret); err != nil {
		return err
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
	return b.PutKey(k)
}

// OrganizationOf finds an organization.
func (b *batch) OrganizationOf(id string) (org pay.Organization, known bool, err error) {
	return organizationIn(b.tx, id)
}

// KeysOf lists an organization's keys, oldest first.
func (b *batch) KeysOf(orgID string) ([]pay.Key, error) { return organizationKeysIn(b.tx, orgID) }

// Key finds a key.
func (b *batch) Key(id string) (pay.Key, error) { return keyIn(b.tx, id) }

// KeyBySecret finds a key by its plaintext.
func (b *batch) KeyBySecret(secret string) (pay.Key, error) {
	return keyOfSecret(b.tx, b.db.vault.Load().Lookup(secret), func(id []byte) (pay.Key, error) { return keyIn(b.tx, string(id)) })
}

// keyOfSecret finds the key whose secret has a hash, and reads it with read.
func keyOfSecret(tx *bbolt.Tx, hash [32]byte, read func(id []byte) (pay.Key, error)) (pay.Key, error) {
	if id := tx.Bucket(keyHashBucket).Get(hash[:]); id != nil {
		return read(id)
	}
	id := tx.Bucket(replacedBucket).Get(hash[:])
	if id == nil {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	k, err := read(id)
	if err != nil {
		return pay.Key{}, err
	}
	return pay.Key{}, pay.Replaced(k, hash[:])
}

// ExecKey finds the key that was made last as the Exec key.
func (b *batch) ExecKey() (pay.Key, error) { return execIn(b.tx) }

// keysOf lists the ids of an organization's keys. Plans keep the list short.
func keysOf(tx *bbolt.Tx, orgID string) (ids []string) {
	prefix := keyPrefix(orgID)
	c := tx.Bucket(orgKeysBucket).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		ids = append(ids, string(k[len(prefix):]))
	}
	return ids
}

func keyIn(tx *bbolt.Tx, id string) (k pay.Key, err error) {
	row := tx.Bucket(keysBucket).Get([]byte(id))
	if row == nil {
		return k, pay.ErrKeyNotFound
	}
	if err := decodeRow(row, &k); err != nil {
		return k, fmt.Errorf("key %s: %w", id, err)
	}
	return k, nil
}

// ListKeys lists keys by id from behind one.
func (d *DB) ListKeys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return page[pay.Key](ctx, d, keysBucket, after, limit)
}

// PutKey writes a key with a new policy revision, by which Begin judges payments from now on.
func (b *batch) PutKey(k pay.Key) error {
	row, err := encodeRow(k)
	if err != nil {
		return err
	}
	if err := b.put(keysBucket, []byte(k.ID), row); err != nil {
		return err
	}
	return b.put(revisionsBucket, []byte(k.ID), strconv.AppendUint(nil, k.PolicyRevision, 10))
}

// revisionIn reads the policy revision of a key. It has a bucket of its own, because every new
// payment reads it and a policy may be long.
func revisionIn(tx *bbolt.Tx, keyID string) (uint64, error) {
	text := tx.Bucket(revisionsBucket).Get([]byte(keyID))
	if text == nil {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("policy revision of key %s: %w", keyID, err)
	}
	return n, nil
}

// keyIn reads a key like the function keyIn, through the cache.
func (d *DB) keyIn(tx *bbolt.Tx, id []byte) (pay.Key, error) {
	row := tx.Bucket(keysBucket).Get(id)
	if row == nil {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	k, err := d.keys.decode(string(id), row)
	if err != nil {
		return pay.Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	return k, nil
}

// KeyBySecret finds a key by its plaintext. The index has the HMAC of the plaintext, so the time
// of a search does not tell how much of a guess is right.
func (d *DB) KeyBySecret(ctx context.Context, secret string) (k pay.Key, err error) {
	hash := d.vault.Load().Lookup(secret)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		k, err = keyOfSecret(tx, hash, func(id []byte) (pay.Key, error) { return d.keyIn(tx, id) })
		return err
	})
	return k, err
}

// Key finds a key by id.
func (d *DB) Key(ctx context.Context, id string) (k pay.Key, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		k, err = d.keyIn(tx, []byte(id))
		return err
	})
	return k, err
}

// RevealKey decrypts the plaintext of a key whose secret is kept: pay.ErrKeyNotFound,
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
	secret, err := d.vault.Load().Unseal(sealed, codec.KeySecret(keyID))
	if err != nil {
		return "", fmt.Errorf("reveal key %s: %w", keyID, err)
	}
	return string(secret), nil
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
