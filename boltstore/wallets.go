package boltstore

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// WalletByID finds a wallet, deleted or not.
func (b *batch) WalletByID(id string) (pay.Wallet, error) { return walletIn(b.tx, id) }

// HasAddress reports whether a wallet has an address.
func (b *batch) HasAddress(a x402.Address) (bool, error) {
	return b.get(addressesBucket, a.Bytes()) != nil, nil
}

// AddWallet writes a new wallet.
func (b *batch) AddWallet(w pay.NewWallet) error {
	if w.Secret != nil {
		sealed, err := b.db.vault.Load().Seal(w.Secret, codec.WalletSecret(w.ID))
		if err != nil {
			return fmt.Errorf("create wallet: %w", err)
		}
		if err := b.put(walletSecretsBucket, []byte(w.ID), sealed); err != nil {
			return err
		}
	}
	if w.Address != nil {
		if err := b.put(addressesBucket, w.Address.Bytes(), []byte(w.ID)); err != nil {
			return err
		}
	}
	return b.PutWallet(w.Wallet)
}

// PutWallet writes a wallet.
func (b *batch) PutWallet(w pay.Wallet) error {
	row, err := encodeRow(w)
	if err != nil {
		return err
	}
	if err := b.put(walletsBucket, []byte(w.ID), row); err != nil {
		return err
	}
	live := joinKey(w.KeyID, w.ID)
	switch listed := hasKey(b.tx.Bucket(liveWalletsBucket), live); {
	case listed && w.Deleted != nil:
		return b.delete(liveWalletsBucket, live)
	case !listed && w.Deleted == nil:
		return b.put(liveWalletsBucket, live, nil)
	}
	return nil
}

// CountWallets counts the live wallets of a key, or of its organization's keys, up to max. It counts them
// each time, so no history can falsify the number; limits keep them few.
func (b *batch) CountWallets(k pay.Key, max int) (n int, err error) {
	keys := []string{k.ID}
	if k.Claimed() {
		keys = keysOf(b.tx, k.OrganizationID)
	}
	c := b.tx.Bucket(liveWalletsBucket).Cursor()
	for _, id := range keys {
		prefix := keyPrefix(id)
		for w, _ := c.Seek(prefix); n < max && bytes.HasPrefix(w, prefix); w, _ = c.Next() {
			n++
		}
	}
	return n, nil
}

// walletsOf lists the ids of a key's live wallets, oldest first.
func walletsOf(tx *bbolt.Tx, keyID string) (ids []string) {
	prefix := keyPrefix(keyID)
	c := tx.Bucket(liveWalletsBucket).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		ids = append(ids, string(k[len(prefix):]))
	}
	return ids
}

func walletIn(tx *bbolt.Tx, id string) (w pay.Wallet, err error) {
	row := tx.Bucket(walletsBucket).Get([]byte(id))
	if row == nil {
		return w, pay.ErrWalletNotFound
	}
	if err := decodeRow(row, &w); err != nil {
		return w, fmt.Errorf("wallet %s: %w", id, err)
	}
	return w, nil
}

// walletIn reads a wallet like the function walletIn, through the cache.
func (d *DB) walletIn(tx *bbolt.Tx, id string) (pay.Wallet, error) {
	row := tx.Bucket(walletsBucket).Get([]byte(id))
	if row == nil {
		return pay.Wallet{}, pay.ErrWalletNotFound
	}
	w, err := d.wallets.decode(id, row)
	if err != nil {
		return pay.Wallet{}, fmt.Errorf("wallet %s: %w", id, err)
	}
	return w, nil
}

// WalletCount returns the number that CreateWallet compares with its limit.
func (d *DB) WalletCount(ctx context.Context, k pay.Key) (n int, err error) {
	if k.Claimed() {
		err = d.walkOrganization(ctx, k.OrganizationID, func(*bbolt.Tx, string) error { n++; return nil })
		return n, err
	}
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		n = len(walletsOf(tx, k.ID))
		return nil
	})
	return n, err
}

// Wallets lists the live wallets that a key may use, in the order in which they pay.
func (d *DB) Wallets(ctx context.Context, keyID string) (list []pay.Wallet, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		if list, err = d.lentTo(tx, keyID); err != nil {
			return err
		}
		for _, id := range walletsOf(tx, keyID) {
			w, err := d.walletIn(tx, id)
			if err != nil {
				return err
			}
			list = append(list, w)
		}
		return nil
	})
	return list, err
}

// AllWallets lists wallets of all keys by id from behind one.
func (d *DB) AllWallets(ctx context.Context, after string, limit int) ([]pay.Wallet, error) {
	return page[pay.Wallet](ctx, d, walletsBucket, after, limit)
}

// Wallet finds a wallet, deleted or not.
func (d *DB) Wallet(ctx context.Context, id string) (w pay.Wallet, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		w, err = d.walletIn(tx, id)
		return err
	})
	return w, err
}

// WalletByAddress finds the wallet of an address, deleted or not.
func (d *DB) WalletByAddress(ctx context.Context, address x402.Address) (w pay.Wallet, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		id := tx.Bucket(addressesBucket).Get(address.Bytes())
		if id == nil {
			return pay.ErrWalletNotFound
		}
		w, err = walletIn(tx, string(id))
		return err
	})
	return w, err
}

// WalletSecret opens the key material of a wallet, of a deleted one too; nil if its provider
// keeps its own.
func (d *DB) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	var sealed []byte
	err := d.view(ctx, func(tx *bbolt.Tx) error {
		if tx.Bucket(walletsBucket).Get([]byte(id)) == nil {
			return pay.ErrWalletNotFound
		}
		sealed = bytes.Clone(tx.Bucket(walletSecretsBucket).Get([]byte(id)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.openMaterial(id, sealed)
}

// MaterialOf opens the key material of a wallet.
func (b *batch) MaterialOf(walletID string) ([]byte, error) {
	return b.db.openMaterial(walletID, b.get(walletSecretsBucket, []byte(walletID)))
}

func (d *DB) openMaterial(id string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	secret, err := d.vault.Load().Unseal(sealed, codec.WalletSecret(id))
	if err != nil {
		return nil, fmt.Errorf("wallet %s: %w", id, err)
	}
	return secret, nil
}
