package memory

import (
	"context"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// live lists the live wallets of a key, or of its organization's keys together, oldest first.
func (r *rows) live(owner pay.Key) (list []pay.Wallet) {
	for _, w := range r.wallets.ascending("") {
		k, _ := r.keys.get(w.KeyID)
		if w.Deleted == nil && (w.KeyID == owner.ID || owner.Claimed() && k.OrganizationID == owner.OrganizationID) {
			list = append(list, w)
		}
	}
	return list
}

// byAddress finds the wallet of an address, deleted or not.
func (r *rows) byAddress(address x402.Address) (pay.Wallet, bool) {
	for _, w := range r.wallets.ascending("") {
		if w.Address != nil && *w.Address == address {
			return w, true
		}
	}
	return pay.Wallet{}, false
}

// WalletByID finds a wallet, deleted or not.
func (r *rows) WalletByID(id string) (pay.Wallet, error) {
	w, err := r.wallets.find(id, pay.ErrWalletNotFound)
	return copied(w), err
}

// HasAddress reports whether a wallet has an address.
func (r *rows) HasAddress(a x402.Address) (bool, error) {
	_, taken := r.byAddress(a)
	return taken, nil
}

// CountWallets counts the live wallets of a key, or of its organization's keys.
func (r *rows) CountWallets(k pay.Key, _ int) (int, error) { return len(r.live(k)), nil }

// MaterialOf returns a wallet's key material.
func (r *rows) MaterialOf(walletID string) ([]byte, error) {
	return copied(r.material.row[walletID]), nil
}

// AddWallet writes a new wallet.
func (r *rows) AddWallet(w pay.NewWallet) error {
	r.material.put(w.ID, copied(w.Secret))
	return r.PutWallet(w.Wallet)
}

// PutWallet writes a wallet.
func (r *rows) PutWallet(w pay.Wallet) error {
	r.wallets.put(w.ID, copied(w))
	return nil
}

// WalletCount is the number that CreateWallet compares with its limit.
func (s *Store) WalletCount(ctx context.Context, k pay.Key) (int, error) {
	return read(ctx, s, func(r *rows) (int, error) { return len(r.live(k)), nil })
}

// Wallets lists the live wallets that a key may use, in the order in which they pay.
func (s *Store) Wallets(ctx context.Context, keyID string) ([]pay.Wallet, error) {
	return read(ctx, s, func(r *rows) ([]pay.Wallet, error) {
		return append(r.lentTo(keyID), r.live(pay.Key{ID: keyID})...), nil
	})
}

// OrganizationWallets lists the live wallets of an organization's keys, oldest first.
func (s *Store) OrganizationWallets(ctx context.Context, orgID string) ([]pay.Wallet, error) {
	return read(ctx, s, func(r *rows) ([]pay.Wallet, error) { return r.live(pay.Key{OrganizationID: orgID}), nil })
}

// AllWallets lists wallets of all keys by id from behind one.
func (s *Store) AllWallets(ctx context.Context, after string, limit int) ([]pay.Wallet, error) {
	return read(ctx, s, func(r *rows) ([]pay.Wallet, error) { return page(&r.wallets, after, limit), nil })
}

// Wallet finds a wallet, deleted or not.
func (s *Store) Wallet(ctx context.Context, id string) (pay.Wallet, error) {
	return read(ctx, s, func(r *rows) (pay.Wallet, error) { return r.wallets.find(id, pay.ErrWalletNotFound) })
}

// WalletByAddress finds the wallet of an address, deleted or not.
func (s *Store) WalletByAddress(ctx context.Context, address x402.Address) (pay.Wallet, error) {
	return read(ctx, s, func(r *rows) (pay.Wallet, error) {
		w, ok := r.byAddress(address)
		if !ok {
			return w, pay.ErrWalletNotFound
		}
		return w, nil
	})
}

// WalletSecret returns a wallet's key material, of a deleted one too; nil if its provider keeps
// its own.
func (s *Store) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	return read(ctx, s, func(r *rows) ([]byte, error) { return r.material.find(id, pay.ErrWalletNotFound) })
}
