package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// CreateWallet stores a wallet unless its owner has as many live ones as it may, or its address has
// one.
func (s *Store) CreateWallet(ctx context.Context, w pay.NewWallet, limit int) error {
	if w.ID == "" {
		return errors.New("create wallet: no id")
	}
	return s.change(ctx, func(r *rows) (c pay.Change, err error) {
		k, err := r.Key(w.KeyID)
		if err != nil {
			return c, err
		}
		if _, taken := r.wallets.get(w.ID); taken {
			return c, fmt.Errorf("create wallet: id %s is taken", w.ID)
		}
		org, _, _ := r.OrganizationOf(k.OrganizationID)
		if len(r.live(k)) >= w.Most(k, org, limit) {
			return c, pay.ErrWalletLimit
		}
		if w.Address != nil {
			if _, taken := r.byAddress(*w.Address); taken {
				return c, pay.ErrAddressTaken
			}
		}
		r.wallets.put(w.ID, copied(w.Wallet))
		r.material.put(w.ID, copied(w.Secret))
		return pay.WalletCreated(w, k), nil
	})
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

// DeleteWallet hides a live wallet of the key.
func (s *Store) DeleteWallet(ctx context.Context, keyID, id string, at time.Time) error {
	return s.change(ctx, func(r *rows) (c pay.Change, err error) {
		w, ok := r.wallets.get(id)
		if !ok || w.KeyID != keyID || w.Deleted != nil {
			return c, pay.ErrWalletNotFound
		}
		k, err := r.Key(keyID)
		if err != nil {
			return c, err
		}
		when := at.UTC()
		w.Deleted = &when
		r.wallets.put(id, w)
		return pay.WalletChanged(pay.ActionWalletDelete, w, k), nil
	})
}

// WalletSecret returns a wallet's key material, of a deleted one too; nil if its provider keeps
// its own.
func (s *Store) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	return read(ctx, s, func(r *rows) ([]byte, error) { return r.material.find(id, pay.ErrWalletNotFound) })
}
