package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

const keyByID = `SELECT row FROM keys WHERE id = $1`

func keyIn(ctx context.Context, q querier, id string) (pay.Key, error) {
	return one[pay.Key](ctx, q, pay.ErrKeyNotFound, keyByID, id)
}

// CreateKey stores a key, and its organization if it is claimed.
func (d *DB) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	if k.ID == "" || k.Secret == "" {
		return pay.Key{}, errors.New("create key: no id or no secret")
	}
	err := d.change(ctx, []string{configuration}, func(t *tx) error {
		if err := t.createKey(k); err != nil {
			return err
		}
		return t.audit(pay.KeyCreated(k.Key))
	})
	if err != nil {
		return pay.Key{}, err
	}
	return k.Key, nil
}

// known reports whether a hash is that of a key's secret, or of one that was replaced.
func (t *tx) known(hash []byte) (bool, error) {
	return exists(t.ctx, t, `SELECT FROM keys WHERE secret_hash = $1 UNION ALL SELECT FROM replaced_secrets WHERE secret_hash = $1`, hash)
}

// createKey writes a key, and its organization if it is claimed.
func (t *tx) createKey(k pay.NewKey) error {
	hash := t.d.vault.Lookup(k.Secret)
	if is, err := t.known(hash[:]); err != nil || is {
		if err == nil {
			err = pay.ErrKeyExists
		}
		return err
	}
	if k.Exec {
		switch other, err := execIn(t.ctx, t); {
		case err == nil && !other.Revoked():
			return pay.ErrKeyExists
		case err != nil && !errors.Is(err, pay.ErrKeyNotFound):
			return err
		}
	}
	switch _, err := keyIn(t.ctx, t, k.ID); {
	case err == nil:
		return fmt.Errorf("create key: id %s is taken", k.ID)
	case !errors.Is(err, pay.ErrKeyNotFound):
		return err
	}
	var sealed []byte
	if k.Kept() {
		var err error
		if sealed, err = t.d.vault.Seal([]byte(k.Secret), codec.KeySecret(k.ID)); err != nil {
			return fmt.Errorf("create key: %w", err)
		}
	}
	if k.Claimed() {
		was, known, keys, err := t.organization(k.OrganizationID)
		if err != nil {
			return err
		}
		org, err := k.Join(was, known, keys)
		if err != nil {
			return err
		}
		if org != was || !known {
			if err := t.putOrganization(org); err != nil {
				return err
			}
		}
	}
	if k.Exec {
		if err := t.put(settingExec, k.ID); err != nil {
			return err
		}
	}
	row, err := json.Marshal(k.Key)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO keys (id, organization_id, revision, secret_hash, secret, row) VALUES ($1, $2, $3, $4, $5, $6)`,
		k.ID, k.OrganizationID, int64(k.PolicyRevision), hash[:], sealed, row) //nolint:gosec // counts changes
}

// ListKeys lists keys by id from behind one.
func (d *DB) ListKeys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return many[pay.Key](ctx, d.pool, `SELECT row FROM keys WHERE id > $1 ORDER BY id LIMIT $2`, after, min(limit, maxPage))
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

// editKey replaces a key by the result of edit, if that is a change. It holds the lock of the key's
// payments, so that no decision is under way.
func (d *DB) editKey(ctx context.Context, keyID string, action pay.Action, edit pay.KeyEdit) (k pay.Key, err error) {
	err = d.change(ctx, []string{configuration, keyLock(keyID)}, func(t *tx) error {
		was, err := keyIn(t.ctx, t, keyID)
		if err != nil {
			return err
		}
		now, changed, err := edit(was)
		if k = now; err != nil || !changed {
			return err
		}
		if err := t.revise(k); err != nil {
			return err
		}
		return t.audit(pay.KeyChanged(action, was, k))
	})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// revise writes a key with a new policy revision, by which Begin judges payments from now on.
func (t *tx) revise(k pay.Key) error {
	row, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE keys SET organization_id = $2, revision = $3, row = $4 WHERE id = $1`, k.ID, k.OrganizationID, int64(k.PolicyRevision), row) //nolint:gosec // counts changes
}

// KeyBySecret finds a key by its plaintext, of which the table has the HMAC.
func (d *DB) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	hash := d.vault.Lookup(secret)
	k, err := one[pay.Key](ctx, d.pool, pay.ErrKeyNotFound, `SELECT row FROM keys WHERE secret_hash = $1`, hash[:])
	if !errors.Is(err, pay.ErrKeyNotFound) {
		return k, err
	}
	replaced, lookErr := exists(ctx, d.pool, `SELECT FROM replaced_secrets WHERE secret_hash = $1`, hash[:])
	switch {
	case lookErr != nil:
		return k, lookErr
	case replaced:
		return k, pay.ErrSecretReplaced
	}
	return k, err
}

// Key finds a key by id.
func (d *DB) Key(ctx context.Context, id string) (pay.Key, error) { return keyIn(ctx, d.pool, id) }

// LinkKey claims an unclaimed key for an organization.
func (d *DB) LinkKey(ctx context.Context, l pay.Link) (k pay.Key, err error) {
	hash := d.vault.Lookup(l.Secret)
	const byHash = `SELECT row FROM keys WHERE secret_hash = $1`
	seen, err := one[pay.Key](ctx, d.pool, pay.ErrKeyNotFound, byHash, hash[:])
	if err != nil {
		return pay.Key{}, err
	}
	err = d.change(ctx, []string{configuration, keyLock(seen.ID)}, func(t *tx) error {
		was, err := one[pay.Key](ctx, t, pay.ErrKeyNotFound, byHash, hash[:])
		if err != nil {
			return err
		}
		org, known, keys, err := t.organization(l.OrganizationID)
		if err != nil {
			return err
		}
		if k, err = l.Apply(was, org, known, keys); err != nil {
			return err
		}
		sealed, err := d.vault.Seal([]byte(l.Secret), codec.KeySecret(k.ID))
		if err != nil {
			return fmt.Errorf("link key: %w", err)
		}
		if err := t.exec(`UPDATE keys SET secret = $2 WHERE id = $1`, k.ID, sealed); err != nil {
			return err
		}
		if err := t.revise(k); err != nil {
			return err
		}
		return t.audit(pay.KeyChanged(pay.ActionKeyLink, was, k))
	})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// RevealKey decrypts the plaintext of a key whose secret is kept.
func (d *DB) RevealKey(ctx context.Context, keyID string) (string, error) {
	var sealed []byte
	err := get(ctx, d.pool, pay.ErrKeyNotFound, `SELECT secret FROM keys WHERE id = $1`, []any{keyID}, func(r pgx.Rows) error { return r.Scan(&sealed) })
	if err == nil && sealed == nil {
		err = pay.ErrNotRevealable
	}
	if err != nil {
		return "", err
	}
	secret, err := d.vault.Unseal(sealed, codec.KeySecret(keyID))
	if err != nil {
		return "", fmt.Errorf("reveal key %s: %w", keyID, err)
	}
	return string(secret), nil
}

// ReissueKey gives a key another secret.
func (d *DB) ReissueKey(ctx context.Context, r pay.Reissue) (k pay.Key, err error) {
	hash := d.vault.Lookup(r.Secret)
	err = d.change(ctx, []string{configuration, keyLock(r.KeyID)}, func(t *tx) error {
		was, err := keyIn(t.ctx, t, r.KeyID)
		if err != nil {
			return err
		}
		if k, err = r.Apply(was); err != nil {
			return err
		}
		if is, err := t.known(hash[:]); err != nil || is {
			if err == nil {
				err = pay.ErrKeyExists
			}
			return err
		}
		if k.Kept() {
			sealed, err := d.vault.Seal([]byte(r.Secret), codec.KeySecret(k.ID))
			if err != nil {
				return fmt.Errorf("reissue key: %w", err)
			}
			if err := t.exec(`UPDATE keys SET secret = $2 WHERE id = $1`, k.ID, sealed); err != nil {
				return err
			}
		}
		if err := t.exec(`INSERT INTO replaced_secrets SELECT secret_hash, id FROM keys WHERE id = $1`, k.ID); err != nil {
			return err
		}
		if err := t.exec(`UPDATE keys SET secret_hash = $2 WHERE id = $1`, k.ID, hash[:]); err != nil {
			return err
		}
		if err := t.revise(k); err != nil {
			return err
		}
		return t.audit(pay.KeyChanged(pay.ActionKeyReissue, was, k))
	})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// ExecKey finds the key that was made last as the Exec key.
func (d *DB) ExecKey(ctx context.Context) (pay.Key, error) { return execIn(ctx, d.pool) }

func execIn(ctx context.Context, q querier) (pay.Key, error) {
	id, err := settingOf[string](ctx, q, settingExec)
	if err != nil {
		return pay.Key{}, err
	}
	if id == nil {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	return keyIn(ctx, q, *id)
}
