package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// ErrNotRevealable: the key is unclaimed, so no copy of it is kept.
var ErrNotRevealable = errors.New("only a claimed key can be shown again")

// keyIdentity is what a key's encrypted copy is bound to.
func keyIdentity(id string) string { return "api-key/" + id }

// CreateKey stores a key, and its organization if it is claimed.
func (d *DB) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	if k.ID == "" || k.Secret == "" {
		return pay.Key{}, errors.New("create key: no id or no secret")
	}
	hash := d.vault.Lookup(k.Secret)
	row, err := encodeRow(k.Key)
	if err != nil {
		return pay.Key{}, err
	}
	var sealed []byte
	if k.Claimed() {
		if sealed, err = d.vault.Seal([]byte(k.Secret), keyIdentity(k.ID)); err != nil {
			return pay.Key{}, fmt.Errorf("create key: %w", err)
		}
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.short(); err != nil {
			return err
		}
		if b.get(keyHashBucket, hash[:]) != nil {
			return pay.ErrKeyExists
		}
		if b.get(keysBucket, []byte(k.ID)) != nil {
			return fmt.Errorf("create key: id %s is taken", k.ID)
		}
		if k.Claimed() {
			if err := b.joinOrganization(k); err != nil {
				return err
			}
			if err := b.put(keySecretsBucket, []byte(k.ID), sealed); err != nil {
				return err
			}
		}
		if err := b.put(keysBucket, []byte(k.ID), row); err != nil {
			return err
		}
		return b.put(keyHashBucket, hash[:], []byte(k.ID))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k.Key, nil
}

// joinOrganization creates or updates the key's organization and counts the key, which
// must not exist yet, into it.
func (b *batch) joinOrganization(k pay.NewKey) error {
	org, known, err := organizationIn(b.tx, k.OrganizationID)
	if err != nil {
		return err
	}
	changed := !known
	if !known {
		org.Created = k.Created
	}
	if k.Plan != "" && k.Plan != org.Plan {
		org.Plan, changed = k.Plan, true
	}
	if len(keysOf(b.tx, k.OrganizationID)) >= pay.PlanOf(org.Plan).Keys {
		return pay.ErrKeyLimit
	}
	if changed {
		row, err := encodeRow(org)
		if err != nil {
			return err
		}
		if err := b.put(orgsBucket, []byte(org.ID), row); err != nil {
			return err
		}
	}
	return b.put(orgKeysBucket, join(k.OrganizationID, k.ID), nil)
}

// organizationIn reads an organization; an unknown one has the free plan.
func organizationIn(tx *bbolt.Tx, id string) (org pay.Organization, known bool, err error) {
	row := tx.Bucket(orgsBucket).Get([]byte(id))
	if row == nil {
		return pay.Organization{ID: id, Plan: pay.PlanFree}, false, nil
	}
	if err := decodeRow(row, &org); err != nil {
		return org, true, fmt.Errorf("organization %s: %w", id, err)
	}
	return org, true, nil
}

// keysOf lists the ids of an organization's keys. Plans keep the list short.
func keysOf(tx *bbolt.Tx, orgID string) (ids []string) {
	prefix := within(orgID)
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
func (d *DB) ListKeys(ctx context.Context, after string, limit int) (list []pay.Key, err error) {
	limit = min(limit, scanRows)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(keysBucket).Cursor()
		id, row := c.Seek([]byte(after))
		if after != "" && string(id) == after {
			id, row = c.Next()
		}
		for ; id != nil && len(list) < limit; id, row = c.Next() {
			var k pay.Key
			if err := decodeRow(row, &k); err != nil {
				return fmt.Errorf("key %s: %w", id, err)
			}
			list = append(list, k)
		}
		return nil
	})
	return list, err
}

// SetPolicy replaces a key's policy.
func (d *DB) SetPolicy(ctx context.Context, keyID string, pol *pay.Policy) (k pay.Key, err error) {
	err = d.do(ctx, &op{run: func(b *batch) error {
		if k, err = keyIn(b.tx, keyID); err != nil {
			return err
		}
		k.Policy = pol
		k.PolicyRevision++
		row, err := encodeRow(k)
		if err != nil {
			return err
		}
		if err := b.put(keysBucket, []byte(keyID), row); err != nil {
			return err
		}
		return b.put(revisionsBucket, []byte(keyID), strconv.AppendUint(nil, k.PolicyRevision, 10))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// revisionIn reads how often a key's policy was set. Every new payment asks, so that it
// stands apart from the policy itself, which may be long.
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

// KeyBySecret finds a key by its plaintext. What is searched for is the HMAC of that, so that
// the time a search takes does not tell how much of a guess is right.
func (d *DB) KeyBySecret(ctx context.Context, secret string) (k pay.Key, err error) {
	hash := d.vault.Lookup(secret)
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		id := tx.Bucket(keyHashBucket).Get(hash[:])
		if id == nil {
			return pay.ErrKeyNotFound
		}
		k, err = keyIn(tx, string(id))
		return err
	})
	return k, err
}

// Key finds a key by id.
func (d *DB) Key(ctx context.Context, id string) (k pay.Key, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		k, err = keyIn(tx, id)
		return err
	})
	return k, err
}

// Organization finds an organization.
func (d *DB) Organization(ctx context.Context, id string) (org pay.Organization, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		org, _, err = organizationIn(tx, id)
		return err
	})
	return org, err
}

// RevealKey decrypts the plaintext of a claimed key: pay.ErrKeyNotFound,
// ErrNotRevealable.
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
		return "", ErrNotRevealable
	}
	secret, err := d.vault.Unseal(sealed, keyIdentity(keyID))
	if err != nil {
		return "", fmt.Errorf("reveal key %s: %w", keyID, err)
	}
	return string(secret), nil
}
