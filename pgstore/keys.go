package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

const keyByID = `SELECT row FROM keys WHERE id = $1`

func keyIn(ctx context.Context, q querier, id string) (pay.Key, error) {
	return one[pay.Key](ctx, q, pay.ErrKeyNotFound, keyByID, id)
}

// Key finds a key.
func (t *tx) Key(id string) (pay.Key, error) { return keyIn(t.ctx, t, id) }

// KeyBySecret finds a key by its plaintext.
func (t *tx) KeyBySecret(secret string) (pay.Key, error) { return t.d.keyBySecret(t.ctx, t, secret) }

// ExecKey finds the key that was made last as the Exec key.
func (t *tx) ExecKey() (pay.Key, error) { return execIn(t.ctx, t) }

// sealed encrypts the secret of a key, if it is kept at all.
func (d *DB) sealed(k pay.Key, secret string) ([]byte, error) {
	if !k.Kept() {
		return nil, nil
	}
	sealed, err := d.vault.Seal([]byte(secret), codec.KeySecret(k.ID))
	if err != nil {
		err = fmt.Errorf("seal the secret of key %s: %w", k.ID, err)
	}
	return sealed, err
}

// AddKey writes a new key.
func (t *tx) AddKey(k pay.NewKey) error {
	sealed, err := t.d.sealed(k.Key, k.Secret)
	if err != nil {
		return err
	}
	row, err := json.Marshal(k.Key)
	if err != nil {
		return err
	}
	if k.Exec {
		if err := t.put(settingExec, k.ID); err != nil {
			return err
		}
	}
	hash := t.d.vault.Lookup(k.Secret)
	return t.exec(`INSERT INTO keys (id, organization_id, revision, secret_hash, secret, row) VALUES ($1, $2, $3, $4, $5, $6)`,
		k.ID, k.OrganizationID, int64(k.PolicyRevision), hash[:], sealed, row) //nolint:gosec // counts changes
}

// PutLinkedKey writes a key that has got an organization.
func (t *tx) PutLinkedKey(k pay.Key, secret string) error {
	sealed, err := t.d.sealed(k, secret)
	if err != nil {
		return err
	}
	if err := t.exec(`UPDATE keys SET secret = $2 WHERE id = $1`, k.ID, sealed); err != nil {
		return err
	}
	return t.PutKey(k)
}

// PutReissuedKey writes a key with another secret.
func (t *tx) PutReissuedKey(k pay.Key, secret string) error {
	sealed, err := t.d.sealed(k, secret)
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO replaced_secrets SELECT secret_hash, id FROM keys WHERE id = $1`, k.ID); err != nil {
		return err
	}
	if k.Overlap != nil {
		was := `SELECT secret_hash FROM keys WHERE id = $1`
		err := get(t.ctx, t, pay.ErrKeyNotFound, was, []any{k.ID}, func(r pgx.Rows) error { return r.Scan(&k.Overlap.Hash) })
		if err != nil {
			return err
		}
	}
	hash := t.d.vault.Lookup(secret)
	if err := t.exec(`UPDATE keys SET secret_hash = $2, secret = $3 WHERE id = $1`, k.ID, hash[:], sealed); err != nil {
		return err
	}
	return t.PutKey(k)
}

// ListKeys lists keys by id from behind one.
func (d *DB) ListKeys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return many[pay.Key](ctx, d.pool, `SELECT row FROM keys WHERE id > $1 ORDER BY id LIMIT $2`, after, min(limit, maxPage))
}

// PutKey writes a key with a new policy revision, by which Begin judges payments from now on.
func (t *tx) PutKey(k pay.Key) error {
	row, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE keys SET organization_id = $2, revision = $3, row = $4 WHERE id = $1`, k.ID, k.OrganizationID, int64(k.PolicyRevision), row) //nolint:gosec // counts changes
}

// KeyBySecret finds a key by its plaintext, of which the table has the HMAC.
func (d *DB) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	return d.keyBySecret(ctx, d.pool, secret)
}

func (d *DB) keyBySecret(ctx context.Context, q querier, secret string) (pay.Key, error) {
	hash := d.vault.Lookup(secret)
	k, err := one[pay.Key](ctx, q, pay.ErrKeyNotFound, `SELECT row FROM keys WHERE secret_hash = $1`, hash[:])
	if !errors.Is(err, pay.ErrKeyNotFound) {
		return k, err
	}
	k, err = one[pay.Key](ctx, q, pay.ErrKeyNotFound, `SELECT row FROM replaced_secrets JOIN keys ON id = key_id WHERE replaced_secrets.secret_hash = $1`, hash[:])
	if err == nil {
		k, err = pay.Key{}, pay.Replaced(k, hash[:])
	}
	return k, err
}

// Key finds a key by id.
func (d *DB) Key(ctx context.Context, id string) (pay.Key, error) { return keyIn(ctx, d.pool, id) }

// LinkKey claims an unclaimed key for an organization. It looks for the key first, whose lock it needs.
func (d *DB) LinkKey(ctx context.Context, l pay.Link) (k pay.Key, err error) {
	seen, err := d.KeyBySecret(ctx, l.Secret)
	if errors.Is(err, pay.ErrSecretReplaced) {
		err = pay.ErrKeyNotFound
	}
	if err != nil {
		return pay.Key{}, err
	}
	err = d.change(ctx, []string{configuration, keyLock(seen.ID)}, func(t *tx) error {
		k, err = storekit.LinkKey(ctx, t, l)
		return err
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
