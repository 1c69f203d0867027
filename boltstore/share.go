package boltstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
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

// ShareWallet lends a live wallet to keys.
func (d *DB) ShareWallet(ctx context.Context, s pay.Share) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		w, err := liveIn(b.tx, s.WalletID)
		if err != nil {
			return err
		}
		var keys []pay.Key
		for _, id := range s.KeyIDs {
			k, err := keyIn(b.tx, id)
			if err != nil {
				return err
			}
			if k.Revoked() {
				return pay.ErrKeyRevoked
			}
			if k.ID != w.KeyID {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			if err := d.lend(ctx, b, w, k, s.At); err != nil {
				return err
			}
		}
		return nil
	}})
}

func (d *DB) lend(ctx context.Context, b *batch, w pay.Wallet, k pay.Key, at time.Time) error {
	if err := b.put(lentWalletsBucket, joinKey(k.ID, w.ID), []byte(encodeTime(at))); err != nil {
		return err
	}
	if err := b.put(walletKeysBucket, joinKey(w.ID, k.ID), nil); err != nil {
		return err
	}
	return d.audit(ctx, b, pay.WalletChanged(pay.ActionWalletShare, w, k))
}

// UnshareWallet takes a wallet back from keys.
func (d *DB) UnshareWallet(ctx context.Context, walletID string, keyIDs []string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		w, err := walletIn(b.tx, walletID)
		if err != nil {
			return err
		}
		var keys []pay.Key
		for _, id := range keyIDs {
			if b.get(lentWalletsBucket, joinKey(id, walletID)) == nil {
				return pay.ErrWalletNotFound
			}
			k, err := keyIn(b.tx, id)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		for _, k := range keys {
			if err := b.delete(lentWalletsBucket, joinKey(k.ID, w.ID)); err != nil {
				return err
			}
			if err := b.delete(walletKeysBucket, joinKey(w.ID, k.ID)); err != nil {
				return err
			}
			if err := d.audit(ctx, b, pay.WalletChanged(pay.ActionWalletUnshare, w, k)); err != nil {
				return err
			}
		}
		return nil
	}})
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
		of, err := drawnIn(tx)
		if err != nil {
			return err
		}
		w, err = liveIn(tx, of[network])
		return err
	})
	return w, err
}

// SetDeploymentWallet records a wallet as the deployment's on its network.
func (d *DB) SetDeploymentWallet(ctx context.Context, walletID string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		w, err := liveIn(b.tx, walletID)
		if err != nil {
			return err
		}
		of, err := drawnIn(b.tx)
		if err != nil || of[w.Network] == w.ID {
			return err
		}
		k, err := keyIn(b.tx, w.KeyID)
		if err != nil {
			return err
		}
		now := map[string]string{w.Network: w.ID}
		for network, id := range of {
			if network != w.Network {
				now[network] = id
			}
		}
		if err := b.putMeta(map[string]any{string(drawnKey): now}); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.WalletChanged(pay.ActionDeployment, w, k))
	}})
}

// drawnIn reads the ids of the deployment's wallets, by network.
func drawnIn(tx *bbolt.Tx) (map[string]string, error) {
	kept, err := metaIn[map[string]string](tx, drawnKey)
	if kept == nil || err != nil {
		return nil, err
	}
	return maps.Clone(*kept), nil
}

// liveIn finds a wallet that is not deleted.
func liveIn(tx *bbolt.Tx, id string) (pay.Wallet, error) {
	w, err := walletIn(tx, id)
	if err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	return w, err
}
