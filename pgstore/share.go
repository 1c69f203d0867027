package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// IsLent reports whether a wallet is lent to a key.
func (t *tx) IsLent(walletID, keyID string) (bool, error) {
	return exists(t.ctx, t, `SELECT FROM loans WHERE key_id = $1 AND wallet_id = $2`, keyID, walletID)
}

// Lend lends a wallet to a key.
func (t *tx) Lend(walletID, keyID string, at time.Time) error {
	return t.exec(`INSERT INTO loans (key_id, wallet_id, at) VALUES ($1, $2, $3) ON CONFLICT (key_id, wallet_id) DO UPDATE SET at = excluded.at`, keyID, walletID, nanoseconds(at))
}

// TakeBack takes a wallet back from a key.
func (t *tx) TakeBack(walletID, keyID string) error {
	return t.exec(`DELETE FROM loans WHERE key_id = $1 AND wallet_id = $2`, keyID, walletID)
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
	of, err := storekit.Setting[map[string]string](settings{ctx, d.pool}, storekit.Drawn)
	if err != nil {
		return pay.Wallet{}, err
	}
	w, err := walletIn(ctx, d.pool, of[network])
	if err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	return w, err
}
