package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// newKey holds a key that is ready to be written.
type newKey struct {
	pay.NewKey
	hash [32]byte
	row  []byte
}

func (d *DB) newKey(k pay.NewKey) (n newKey, err error) {
	if k.ID == "" || k.Secret == "" {
		return n, errors.New("create key: no id or no secret")
	}
	n = newKey{NewKey: k, hash: d.vault.Load().Lookup(k.Secret)}
	n.row, err = encodeRow(k.Key)
	return n, err
}

// CreateKey stores a key, and its organization if it is claimed.
func (d *DB) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	n, err := d.newKey(k)
	if err != nil {
		return pay.Key{}, err
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		if err := d.createKey(b, n); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.KeyCreated(n.Key))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k.Key, nil
}

// createKey writes a key, and its organization if it is claimed. It refuses before its first
// write.
func (d *DB) createKey(b *batch, n newKey) error {
	if b.get(keyHashBucket, n.hash[:]) != nil || b.get(replacedBucket, n.hash[:]) != nil {
		return pay.ErrKeyExists
	}
	if n.Exec {
		if k, err := execIn(b.tx); err == nil && !k.Revoked() {
			return pay.ErrKeyExists
		} else if err != nil && !errors.Is(err, pay.ErrKeyNotFound) {
			return err
		}
	}
	if b.get(keysBucket, []byte(n.ID)) != nil {
		return fmt.Errorf("create key: id %s is taken", n.ID)
	}
	var sealed []byte
	if n.Kept() {
		var err error
		if sealed, err = d.vault.Load().Seal([]byte(n.Secret), codec.KeySecret(n.ID)); err != nil {
			return fmt.Errorf("create key: %w", err)
		}
	}
	if n.Claimed() {
		if err := b.joinOrganization(n.NewKey); err != nil {
			return err
		}
	}
	if sealed != nil {
		if err := b.put(keySecretsBucket, []byte(n.ID), sealed); err != nil {
			return err
		}
	}
	if n.Exec {
		if err := b.put(metaBucket, execKey, []byte(n.ID)); err != nil {
			return err
		}
	}
	if err := b.put(keysBucket, []byte(n.ID), n.row); err != nil {
		return err
	}
	return b.put(keyHashBucket, n.hash[:], []byte(n.ID))
}

// joinOrganization counts a new key into its organization, which it creates or updates.
func (b *batch) joinOrganization(k pay.NewKey) error {
	was, known, keys, err := b.organization(k.OrganizationID)
	if err != nil {
		return err
	}
	org, err := k.Join(was, known, keys)
	if err != nil {
		return err
	}
	if org != was || !known {
		if err := b.putOrganization(org); err != nil {
			return err
		}
	}
	return b.put(orgKeysBucket, joinKey(k.OrganizationID, k.ID), nil)
}

// organization reads an organization with its keys.
func (b *batch) organization(id string) (org pay.Organization, known bool, keys []pay.Key, err error) {
	if org, known, err = organizationIn(b.tx, id); err == nil {
		keys, err = organizationKeysIn(b.tx, id)
	}
	return org, known, keys, err
}

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

// SetPolicy replaces a key's policy.
func (d *DB) SetPolicy(ctx context.Context, keyID string, pol *pay.Policy) (pay.Key, error) {
	return d.editKey(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicy(pol))
}

// SetPolicyAt replaces the policy of a key that has a revision.
func (d *DB) SetPolicyAt(ctx context.Context, keyID string, revision uint64, pol *pay.Policy) (pay.Key, error) {
	return d.editKey(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicyAt(revision, pol))
}

// AdoptKey makes a key the operator's.
func (d *DB) AdoptKey(ctx context.Context, keyID string) (pay.Key, error) {
	return d.editKey(ctx, keyID, pay.ActionKeyAdopt, pay.EditAdoption())
}

// StopKey applies a stop to a key.
func (d *DB) StopKey(ctx context.Context, keyID string, s pay.KeyStop) (pay.Key, error) {
	return d.editKey(ctx, keyID, s.Do.Action(), s.Apply)
}

// editKey replaces a key by the result of edit, if that is a change.
func (d *DB) editKey(ctx context.Context, keyID string, action pay.Action, edit pay.KeyEdit) (k pay.Key, err error) {
	err = d.do(ctx, &op{run: func(b *batch) error {
		was, err := keyIn(b.tx, keyID)
		if err != nil {
			return err
		}
		now, changed, err := edit(was)
		if k = now; err != nil || !changed {
			return err
		}
		if err := b.revise(k); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.KeyChanged(action, was, k))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// revise writes a key with a new policy revision, by which Begin judges payments from now on.
func (b *batch) revise(k pay.Key) error {
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
		id := tx.Bucket(keyHashBucket).Get(hash[:])
		if id == nil && tx.Bucket(replacedBucket).Get(hash[:]) != nil {
			return pay.ErrSecretReplaced
		}
		if id == nil {
			return pay.ErrKeyNotFound
		}
		k, err = d.keyIn(tx, id)
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

// LinkKey claims an unclaimed key for an organization.
func (d *DB) LinkKey(ctx context.Context, l pay.Link) (k pay.Key, err error) {
	hash := d.vault.Load().Lookup(l.Secret)
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
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		sealed, err := d.vault.Load().Seal([]byte(l.Secret), codec.KeySecret(k.ID))
		if err != nil {
			return fmt.Errorf("link key: %w", err)
		}
		if err := b.put(orgKeysBucket, joinKey(l.OrganizationID, k.ID), nil); err != nil {
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
