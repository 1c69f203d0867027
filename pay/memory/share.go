package memory

import (
	"context"
	"slices"

	"github.com/purserpay/purser/pay"
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

// RestoreWallet undoes DeleteWallet.
func (s *Store) RestoreWallet(ctx context.Context, id string) (w pay.Wallet, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		if w, err = r.wallets.find(id, pay.ErrWalletNotFound); err != nil {
			return c, err
		}
		if w.Deleted == nil {
			return c, pay.ErrWalletLive
		}
		w.Deleted = nil
		r.wallets.put(id, w)
		return pay.WalletChanged(pay.ActionWalletRestore, w, r.keys.row[w.KeyID]), nil
	})
	if err != nil {
		return pay.Wallet{}, err
	}
	return copied(w), nil
}

// KeepApproving replaces the last approval of a wallet.
func (s *Store) KeepApproving(ctx context.Context, walletID string, a pay.Approving) (w pay.Wallet, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		if w, err = r.wallets.find(walletID, pay.ErrWalletNotFound); err != nil {
			return c, err
		}
		was := w.Approving
		w.Approving = &a
		r.wallets.put(walletID, w)
		return pay.WalletApproving(was, w, r.keys.row[w.KeyID]), nil
	})
	if err != nil {
		return pay.Wallet{}, err
	}
	return copied(w), nil
}

// ExportWallet returns a wallet's key material once the audit has the export.
func (s *Store) ExportWallet(ctx context.Context, id string) (secret []byte, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		w, err := r.wallets.find(id, pay.ErrWalletNotFound)
		if err != nil {
			return c, err
		}
		secret = slices.Clone(r.material.row[id])
		return pay.WalletChanged(pay.ActionWalletExport, w, r.keys.row[w.KeyID]), nil
	})
	return secret, err
}

// ShareWallet lends a live wallet to keys.
func (s *Store) ShareWallet(ctx context.Context, share pay.Share) error {
	return s.do(ctx, func(r *rows) error {
		w, err := r.liveWallet(share.WalletID)
		if err != nil {
			return err
		}
		var keys []pay.Key
		for _, id := range share.KeyIDs {
			k, err := r.Key(id)
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
			l := loan{k.ID, w.ID}
			r.lent = append(slices.DeleteFunc(slices.Clone(r.lent), func(o loan) bool { return o == l }), l)
			if err := r.enter(ctx, pay.WalletChanged(pay.ActionWalletShare, w, k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// UnshareWallet takes a wallet back from keys.
func (s *Store) UnshareWallet(ctx context.Context, walletID string, keyIDs []string) error {
	return s.do(ctx, func(r *rows) error {
		w, err := r.wallets.find(walletID, pay.ErrWalletNotFound)
		if err != nil {
			return err
		}
		for _, id := range keyIDs {
			if !slices.Contains(r.lent, loan{id, walletID}) {
				return pay.ErrWalletNotFound
			}
		}
		for _, id := range keyIDs {
			r.lent = slices.DeleteFunc(slices.Clone(r.lent), func(l loan) bool { return l == loan{id, walletID} })
			if err := r.enter(ctx, pay.WalletChanged(pay.ActionWalletUnshare, w, r.keys.row[id])); err != nil {
				return err
			}
		}
		return nil
	})
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
	return read(ctx, s, func(r *rows) (pay.Wallet, error) { return r.liveWallet(r.drawn[network]) })
}

// SetDeploymentWallet records a wallet as the deployment's on its network.
func (s *Store) SetDeploymentWallet(ctx context.Context, walletID string) error {
	return s.change(ctx, func(r *rows) (c pay.Change, err error) {
		w, err := r.liveWallet(walletID)
		if err != nil || r.drawn[w.Network] == w.ID {
			return c, err
		}
		r.drawn[w.Network] = w.ID
		return pay.WalletChanged(pay.ActionDeployment, w, r.keys.row[w.KeyID]), nil
	})
}
