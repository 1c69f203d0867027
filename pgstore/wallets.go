package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func walletIn(ctx context.Context, q querier, id string) (pay.Wallet, error) {
	return one[pay.Wallet](ctx, q, pay.ErrWalletNotFound, `SELECT row FROM wallets WHERE id = $1`, id)
}

// liveIn finds a wallet that is not deleted.
func liveIn(ctx context.Context, q querier, id string) (pay.Wallet, error) {
	w, err := walletIn(ctx, q, id)
	if err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	return w, err
}

const countWallets = `SELECT count(*) FROM wallets WHERE live AND (key_id = $1 OR $2 <> '' AND key_id IN (SELECT id FROM keys WHERE organization_id = $2))`

func walletCount(ctx context.Context, q querier, k pay.Key) (int, error) {
	return number(ctx, q, countWallets, k.ID, k.OrganizationID)
}

// CreateWallet stores a wallet unless its key, or the organization of its key, has as many live ones as
// it may.
func (d *DB) CreateWallet(ctx context.Context, w pay.NewWallet, limit int) error {
	if w.ID == "" {
		return errors.New("create wallet: no id")
	}
	row, err := json.Marshal(w.Wallet)
	if err != nil {
		return err
	}
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		k, err := keyIn(t.ctx, t, w.KeyID)
		if err != nil {
			return err
		}
		switch _, err := walletIn(t.ctx, t, w.ID); {
		case err == nil:
			return fmt.Errorf("create wallet: id %s is taken", w.ID)
		case !errors.Is(err, pay.ErrWalletNotFound):
			return err
		}
		org, _, err := organizationIn(t.ctx, t, k.OrganizationID)
		if err != nil {
			return err
		}
		n, err := walletCount(t.ctx, t, k)
		if err != nil {
			return err
		}
		if n >= w.Most(k, org, limit) {
			return pay.ErrWalletLimit
		}
		var address, sealed []byte
		if w.Address != nil {
			address = w.Address[:]
			switch _, err := t.byAddress(*w.Address); {
			case err == nil:
				return pay.ErrAddressTaken
			case !errors.Is(err, pay.ErrWalletNotFound):
				return err
			}
		}
		if w.Secret != nil {
			if sealed, err = d.vault.Seal(w.Secret, codec.WalletSecret(w.ID)); err != nil {
				return fmt.Errorf("create wallet: %w", err)
			}
		}
		if err := t.exec(`INSERT INTO wallets (id, key_id, address, live, secret, row) VALUES ($1, $2, $3, $4, $5, $6)`, w.ID, w.KeyID, address, w.Deleted == nil, sealed, row); err != nil {
			return err
		}
		return t.audit(pay.WalletCreated(w, k))
	})
}

const walletByAddress = `SELECT row FROM wallets WHERE address = $1`

func (t *tx) byAddress(a x402.Address) (pay.Wallet, error) {
	return one[pay.Wallet](t.ctx, t, pay.ErrWalletNotFound, walletByAddress, a[:])
}

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
	return one[pay.Wallet](ctx, d.pool, pay.ErrWalletNotFound, walletByAddress, address[:])
}

// editWallet replaces a wallet by the result of edit, and notes a change.
func (d *DB) editWallet(ctx context.Context, id string, edit func(w *pay.Wallet) error, change func(was, w pay.Wallet, k pay.Key) pay.Change) (w pay.Wallet, err error) {
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		was, err := walletIn(t.ctx, t, id)
		if err != nil {
			return err
		}
		w = was
		if err := edit(&w); err != nil {
			return err
		}
		k, err := keyIn(t.ctx, t, w.KeyID)
		if err != nil {
			return err
		}
		row, err := json.Marshal(w)
		if err != nil {
			return err
		}
		if err := t.exec(`UPDATE wallets SET live = $2, row = $3 WHERE id = $1`, id, w.Deleted == nil, row); err != nil {
			return err
		}
		return t.audit(change(was, w, k))
	})
	if err != nil {
		return pay.Wallet{}, err
	}
	return w, nil
}

func changed(a pay.Action) func(was, w pay.Wallet, k pay.Key) pay.Change {
	return func(_, w pay.Wallet, k pay.Key) pay.Change { return pay.WalletChanged(a, w, k) }
}

// DeleteWallet hides a live wallet of the key. Row and key material stay.
func (d *DB) DeleteWallet(ctx context.Context, keyID, id string, at time.Time) error {
	_, err := d.editWallet(ctx, id, func(w *pay.Wallet) error {
		if w.KeyID != keyID || w.Deleted != nil {
			return pay.ErrWalletNotFound
		}
		when := at.UTC()
		w.Deleted = &when
		return nil
	}, changed(pay.ActionWalletDelete))
	return err
}

// RestoreWallet undoes DeleteWallet.
func (d *DB) RestoreWallet(ctx context.Context, id string) (pay.Wallet, error) {
	return d.editWallet(ctx, id, func(w *pay.Wallet) error {
		if w.Deleted == nil {
			return pay.ErrWalletLive
		}
		w.Deleted = nil
		return nil
	}, changed(pay.ActionWalletRestore))
}

// KeepApproving replaces the last allowance order of a wallet.
func (d *DB) KeepApproving(ctx context.Context, walletID string, a pay.Approving) (pay.Wallet, error) {
	return d.editWallet(ctx, walletID, func(w *pay.Wallet) error {
		w.Approving = &a
		return nil
	}, func(was, w pay.Wallet, k pay.Key) pay.Change { return pay.WalletApproving(was.Approving, w, k) })
}

// WalletSecret opens the key material of a wallet, of a deleted one too; nil if its provider keeps its
// own.
func (d *DB) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	var sealed []byte
	err := get(ctx, d.pool, pay.ErrWalletNotFound, `SELECT secret FROM wallets WHERE id = $1`, []any{id}, func(r pgx.Rows) error { return r.Scan(&sealed) })
	if err != nil || sealed == nil {
		return nil, err
	}
	secret, err := d.vault.Unseal(sealed, codec.WalletSecret(id))
	if err != nil {
		return nil, fmt.Errorf("wallet %s: %w", id, err)
	}
	return secret, nil
}

// ExportWallet opens the key material of a wallet once the audit has the export.
func (d *DB) ExportWallet(ctx context.Context, id string) ([]byte, error) {
	if _, err := d.editWallet(ctx, id, func(*pay.Wallet) error { return nil }, changed(pay.ActionWalletExport)); err != nil {
		return nil, err
	}
	return d.WalletSecret(ctx, id)
}
