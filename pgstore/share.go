package pgstore

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/pay"
)

// ShareWallet lends a live wallet to keys.
func (d *DB) ShareWallet(ctx context.Context, s pay.Share) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		w, err := liveIn(t.ctx, t, s.WalletID)
		if err != nil {
			return err
		}
		for _, id := range s.KeyIDs {
			k, err := keyIn(t.ctx, t, id)
			if err != nil {
				return err
			}
			if k.Revoked() {
				return pay.ErrKeyRevoked
			}
			if k.ID == w.KeyID {
				continue
			}
			err = t.exec(`INSERT INTO loans (key_id, wallet_id, at) VALUES ($1, $2, $3) ON CONFLICT (key_id, wallet_id) DO UPDATE SET at = excluded.at`, k.ID, w.ID, nanoseconds(s.At))
			if err != nil {
				return err
			}
			if err := t.audit(pay.WalletChanged(pay.ActionWalletShare, w, k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// UnshareWallet takes a wallet back from keys.
func (d *DB) UnshareWallet(ctx context.Context, walletID string, keyIDs []string) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		w, err := walletIn(t.ctx, t, walletID)
		if err != nil {
			return err
		}
		for _, id := range keyIDs {
			tag, err := t.Exec(t.ctx, `DELETE FROM loans WHERE key_id = $1 AND wallet_id = $2`, id, walletID)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return pay.ErrWalletNotFound
			}
			k, err := keyIn(t.ctx, t, id)
			if err != nil {
				return err
			}
			if err := t.audit(pay.WalletChanged(pay.ActionWalletUnshare, w, k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// WalletKeys lists the ids of the keys that a wallet is lent to.
func (d *DB) WalletKeys(ctx context.Context, walletID, after string, limit int) (ids []string, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		var id string
		err := r.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT key_id FROM loans WHERE wallet_id = $1 AND key_id > $2 ORDER BY key_id LIMIT $3`, walletID, after, min(limit, maxPage))
	return ids, err
}

// DeploymentWallet finds the live wallet that the operator's keys draw from on a network.
func (d *DB) DeploymentWallet(ctx context.Context, network string) (pay.Wallet, error) {
	of, err := drawnIn(ctx, d.pool)
	if err != nil {
		return pay.Wallet{}, err
	}
	return liveIn(ctx, d.pool, of[network])
}

// SetDeploymentWallet records a wallet as the deployment's on its network.
func (d *DB) SetDeploymentWallet(ctx context.Context, walletID string) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		w, err := liveIn(t.ctx, t, walletID)
		if err != nil {
			return err
		}
		of, err := drawnIn(t.ctx, t)
		if err != nil || of[w.Network] == w.ID {
			return err
		}
		k, err := keyIn(t.ctx, t, w.KeyID)
		if err != nil {
			return err
		}
		now := map[string]string{}
		maps.Copy(now, of)
		now[w.Network] = w.ID
		if err := t.put(settingDrawn, now); err != nil {
			return err
		}
		return t.audit(pay.WalletChanged(pay.ActionDeployment, w, k))
	})
}

// drawnIn reads the ids of the deployment's wallets, by network.
func drawnIn(ctx context.Context, q querier) (map[string]string, error) {
	kept, err := settingOf[map[string]string](ctx, q, settingDrawn)
	if kept == nil {
		return nil, err
	}
	return *kept, err
}
