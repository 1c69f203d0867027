package pgstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func walletIn(ctx context.Context, q querier, id string) (pay.Wallet, error) {
	return one[pay.Wallet](ctx, q, pay.ErrWalletNotFound, `SELECT row FROM wallets WHERE id = $1`, id)
}

const countWallets = `SELECT count(*) FROM wallets WHERE live AND (key_id = $1 OR $2 <> '' AND key_id IN (SELECT id FROM keys WHERE organization_id = $2))`

func walletCount(ctx context.Context, q querier, k pay.Key) (int, error) {
	return number(ctx, q, countWallets, k.ID, k.OrganizationID)
}

// WalletByID finds a wallet, deleted or not.
func (t *tx) WalletByID(id string) (pay.Wallet, error) { return walletIn(t.ctx, t, id) }

// CountWallets counts the live wallets of a key, or of its organization's keys.
func (t *tx) CountWallets(k pay.Key, _ int) (int, error) { return walletCount(t.ctx, t, k) }

// HasAddress reports whether a wallet has an address.
func (t *tx) HasAddress(a x402.Address) (bool, error) {
	return exists(t.ctx, t, walletByAddress, a.Bytes())
}

// AddWallet writes a new wallet.
func (t *tx) AddWallet(w pay.NewWallet) (err error) {
	var address, sealed []byte
	if w.Address != nil {
		address = w.Address.Bytes()
	}
	if w.Secret != nil {
		if sealed, err = t.d.vault.Seal(w.Secret, codec.WalletSecret(w.ID)); err != nil {
			return fmt.Errorf("create wallet: %w", err)
		}
	}
	row, err := json.Marshal(w.Wallet)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO wallets (id, key_id, address, live, secret, row) VALUES ($1, $2, $3, $4, $5, $6)`, w.ID, w.KeyID, address, w.Deleted == nil, sealed, row)
}

// PutWallet writes a wallet.
func (t *tx) PutWallet(w pay.Wallet) error {
	row, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE wallets SET live = $2, row = $3 WHERE id = $1`, w.ID, w.Deleted == nil, row)
}

const walletByAddress = `SELECT row FROM wallets WHERE address = $1`

// WalletCount returns the number that CreateWallet compares with its limit.
func (d *DB) WalletCount(ctx context.Context, k pay.Key) (int, error) {
	return walletCount(ctx, d.pool, k)
}

// Wallets lists the live wallets that a key may use, in the order in which they pay.
func (d *DB) Wallets(ctx context.Context, keyID string) ([]pay.Wallet, error) {
	return many[pay.Wallet](ctx, d.pool, `SELECT row FROM (
		SELECT w.row, w.id, 0 AS own, l.at FROM loans l JOIN wallets w ON w.id = l.wallet_id AND w.live WHERE l.key_id = $1
		UNION ALL SELECT w.row, w.id, 1, 0 FROM wallets w WHERE w.live AND w.key_id = $1) all_of_them ORDER BY own, at DESC, id`, keyID)
}

// AllWallets lists wallets of all keys by id from behind one.
func (d *DB) AllWallets(ctx context.Context, after string, limit int) ([]pay.Wallet, error) {
	return many[pay.Wallet](ctx, d.pool, `SELECT row FROM wallets WHERE id > $1 ORDER BY id LIMIT $2`, after, min(limit, maxPage))
}

// Wallet finds a wallet, deleted or not.
func (d *DB) Wallet(ctx context.Context, id string) (pay.Wallet, error) {
	return walletIn(ctx, d.pool, id)
}

// WalletByAddress finds the wallet of an address, deleted or not.
func (d *DB) WalletByAddress(ctx context.Context, address x402.Address) (pay.Wallet, error) {
	return one[pay.Wallet](ctx, d.pool, pay.ErrWalletNotFound, walletByAddress, address.Bytes())
}

// WalletSecret opens the key material of a wallet, of a deleted one too; nil if its provider keeps its
// own.
func (d *DB) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	return d.material(ctx, d.pool, id)
}

// MaterialOf opens the key material of a wallet.
func (t *tx) MaterialOf(walletID string) ([]byte, error) { return t.d.material(t.ctx, t, walletID) }

func (d *DB) material(ctx context.Context, q querier, id string) ([]byte, error) {
	var sealed []byte
	err := get(ctx, q, pay.ErrWalletNotFound, `SELECT secret FROM wallets WHERE id = $1`, []any{id}, func(r pgx.Rows) error { return r.Scan(&sealed) })
	if err != nil || sealed == nil {
		return nil, err
	}
	secret, err := d.vault.Unseal(sealed, codec.WalletSecret(id))
	if err != nil {
		return nil, fmt.Errorf("wallet %s: %w", id, err)
	}
	return secret, nil
}
