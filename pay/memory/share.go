package memory

import (
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// loan is a wallet that is lent to a key.
type loan struct{ keyID, walletID string }

// wallet finds the oldest wallet that fits.
func (r *rows) wallet(fits func(pay.Wallet) bool) (pay.Wallet, error) {
	for _, w := range r.wallets.ascending("") {
		if fits(w) {
			return w, nil
		}
	}
	return pay.Wallet{}, pay.ErrWalletNotFound
}

// liveWallet finds a wallet that is not deleted.
func (r *rows) liveWallet(id string) (pay.Wallet, error) {
	return r.wallet(func(w pay.Wallet) bool { return w.ID == id && w.Deleted == nil })
}

// lentTo lists the live wallets that are lent to a key, the one lent last first.
func (r *rows) lentTo(keyID string) (list []pay.Wallet) {
	for _, l := range slices.Backward(r.lent) {
		if w, err := r.liveWallet(l.walletID); err == nil && l.keyID == keyID {
			list = append(list, w)
		}
	}
	return list
}

// IsLent reports whether a wallet is lent to a key.
func (r *rows) IsLent(walletID, keyID string) (bool, error) {
	return slices.Contains(r.lent, loan{keyID, walletID}), nil
}

// Lend lends a wallet to a key.
func (r *rows) Lend(walletID, keyID string, _ time.Time) error {
	if err := r.TakeBack(walletID, keyID); err != nil {
		return err
	}
	r.lent = append(r.lent, loan{keyID, walletID})
	return nil
}

// TakeBack takes a wallet back from a key.
func (r *rows) TakeBack(walletID, keyID string) error {
	r.lent = slices.DeleteFunc(slices.Clone(r.lent), func(l loan) bool { return l == loan{keyID, walletID} })
	return nil
}

// WalletKeys lists the ids of the keys that a wallet is lent to.
func (s *Store) WalletKeys(ctx context.Context, walletID, after string, limit int) ([]string, error) {
	return read(ctx, s, func(r *rows) (ids []string, err error) {
		for _, l := range r.lent {
			if l.walletID == walletID && l.keyID > after {
				ids = append(ids, l.keyID)
			}
		}
		slices.Sort(ids)
		return ids[:min(len(ids), limit)], nil
	})
}

// DeploymentWallet finds the live wallet that the operator's keys draw from on a network.
func (s *Store) DeploymentWallet(ctx context.Context, network string) (pay.Wallet, error) {
	return read(ctx, s, func(r *rows) (pay.Wallet, error) {
		of, err := storekit.Setting[map[string]string](r, storekit.Drawn)
		if err != nil {
			return pay.Wallet{}, err
		}
		return r.liveWallet(of[network])
	})
}
