package boltstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// lentTo lists the live wallets that are lent to a key, the one lent last first.
func (d *DB) lentTo(tx *bbolt.Tx, keyID string) (list []pay.Wallet, err error) {
	when := map[string]uint64{}
	prefix := keyPrefix(keyID)
	c := tx.Bucket(lentWalletsBucket).Cursor()
	for k, at := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, at = c.Next() {
		w, err := d.walletIn(tx, string(k[len(prefix):]))
		if err != nil {
			return nil, err
		}
		if w.Deleted == nil {
			when[w.ID] = decodeNumber(at)
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b pay.Wallet) int {
		if when[a.ID] > when[b.ID] {
			return -1
		}
		return 1
	})
	return list, nil
}

// IsLent reports whether a wallet is lent to a key.
func (b *batch) IsLent(walletID, keyID string) (bool, error) {
	return b.get(lentWalletsBucket, joinKey(keyID, walletID)) != nil, nil
}

// Lend lends a wallet to a key.
func (b *batch) Lend(walletID, keyID string, at time.Time) error {
	if err := b.put(lentWalletsBucket, joinKey(keyID, walletID), []byte(encodeTime(at))); err != nil {
		return err
	}
	return b.put(walletKeysBucket, joinKey(walletID, keyID), nil)
}

// TakeBack takes a wallet back from a key.
func (b *batch) TakeBack(walletID, keyID string) error {
	if err := b.delete(lentWalletsBucket, joinKey(keyID, walletID)); err != nil {
		return err
	}
	return b.delete(walletKeysBucket, joinKey(walletID, keyID))
}

// WalletKeys lists the ids of the keys that a wallet is lent to.
func (d *DB) WalletKeys(ctx context.Context, walletID, after string, limit int) (ids []string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		prefix := keyPrefix(walletID)
		c := tx.Bucket(walletKeysBucket).Cursor()
		for k, _ := c.Seek(append(slices.Clone(prefix), after...)); bytes.HasPrefix(k, prefix) && len(ids) < min(limit, maxPage); k, _ = c.Next() {
			if id := string(k[len(prefix):]); id != after {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// DeploymentWallet finds the live wallet that the operator's keys draw from on a network.
func (d *DB) DeploymentWallet(ctx context.Context, network string) (w pay.Wallet, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		of, err := storekit.Setting[map[string]string](settings{tx}, storekit.Drawn)
		if err != nil {
			return err
		}
		w, err = liveIn(tx, of[network])
		return err
	})
	return w, err
}

// liveIn finds a wallet that is not deleted.
func liveIn(tx *bbolt.Tx, id string) (pay.Wallet, error) {
	w, err := walletIn(tx, id)
	if err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	return w, err
}
