package memory

import (
	"context"
	"errors"

	"github.com/purserpay/purser/pay"
)

// ReissueKey gives a key another secret.
func (s *Store) ReissueKey(ctx context.Context, r pay.Reissue) (k pay.Key, err error) {
	err = s.change(ctx, func(rows *rows) (pay.Change, error) {
		was, err := rows.byID(r.KeyID)
		if err != nil {
			return pay.Change{}, err
		}
		if k, err = r.Apply(was); err != nil {
			return pay.Change{}, err
		}
		if _, err := rows.bySecret(r.Secret); err == nil || errors.Is(err, pay.ErrSecretReplaced) {
			return pay.Change{}, pay.ErrKeyExists
		}
		rows.replaced = append(rows.replaced, rows.secrets.row[k.ID])
		rows.secrets.put(k.ID, r.Secret)
		rows.keys.put(k.ID, k)
		return pay.KeyChanged(pay.ActionKeyReissue, was, k), nil
	})
	if err != nil {
		return pay.Key{}, err
	}
	return copied(k), nil
}

// ExecKey finds the key that was made last as the Exec key.
func (s *Store) ExecKey(ctx context.Context) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.byID(r.exec) })
}
