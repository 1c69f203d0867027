package storekit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Wallets keeps wallets, and which keys they are lent to.
type Wallets interface {
	// WalletByID finds a wallet, a deleted one too: ErrWalletNotFound.
	WalletByID(id string) (pay.Wallet, error)
	// HasAddress reports whether a wallet, also a deleted one, has an address.
	HasAddress(a x402.Address) (bool, error)
	// CountWallets counts the live wallets of a key, or of all keys of its organization; at most max.
	CountWallets(k pay.Key, max int) (int, error)
	// MaterialOf decrypts a wallet's key material; nil: its provider keeps it.
	MaterialOf(walletID string) ([]byte, error)
	// AddWallet writes a new wallet with its key material.
	AddWallet(w pay.NewWallet) error
	// PutWallet replaces a wallet.
	PutWallet(w pay.Wallet) error

	// IsLent reports whether a wallet is lent to a key.
	IsLent(walletID, keyID string) (bool, error)
	// Lend lends a wallet to a key, or lends it anew.
	Lend(walletID, keyID string, at time.Time) error
	// TakeBack takes a wallet back from a key.
	TakeBack(walletID, keyID string) error
}

// CreateWallet stores a wallet unless its key, or the organization of its key, has as many live ones as it
// may: ErrWalletLimit. An address has one wallet: ErrAddressTaken.
func (b Book) CreateWallet(ctx context.Context, w pay.NewWallet, limit int) error {
	if w.ID == "" {
		return errors.New("create wallet: no id")
	}
	return b.update(ctx, nil, func(tx BookTx) error {
		if err := tx.Room(); err != nil {
			return err
		}
		k, err := tx.Key(w.KeyID)
		if err != nil {
			return err
		}
		switch _, err := tx.WalletByID(w.ID); {
		case err == nil:
			return fmt.Errorf("create wallet: id %s is taken", w.ID)
		case !errors.Is(err, pay.ErrWalletNotFound):
			return err
		}
		org, _, err := tx.OrganizationOf(k.OrganizationID)
		if err != nil {
			return err
		}
		most := w.Most(k, org, limit)
		if n, err := tx.CountWallets(k, most); err != nil || n >= most {
			if err == nil {
				err = pay.ErrWalletLimit
			}
			return err
		}
		if w.Address != nil {
			if taken, err := tx.HasAddress(*w.Address); err != nil || taken {
				if err == nil {
					err = pay.ErrAddressTaken
				}
				return err
			}
		}
		if err := tx.AddWallet(w); err != nil {
			return err
		}
		return Enter(ctx, tx, pay.WalletCreated(w, k))
	})
}

// editWallet replaces a wallet by the result of edit, and enters what change says of it.
func (b Book) editWallet(ctx context.Context, id string, edit func(w *pay.Wallet) error, change func(was, w pay.Wallet, k pay.Key) pay.Change) (pay.Wallet, error) {
	return update(ctx, b, nil, func(tx BookTx) (w pay.Wallet, err error) {
		was, err := tx.WalletByID(id)
		if err != nil {
			return w, err
		}
		w = was
		if err := edit(&w); err != nil {
			return w, err
		}
		k, err := tx.Key(w.KeyID)
		if err != nil {
			return w, err
		}
		if err := tx.PutWallet(w); err != nil {
			return w, err
		}
		return w, Enter(ctx, tx, change(was, w, k))
	})
}

func changed(a pay.Action) func(was, w pay.Wallet, k pay.Key) pay.Change {
	return func(_, w pay.Wallet, k pay.Key) pay.Change { return pay.WalletChanged(a, w, k) }
}

// DeleteWallet hides a live wallet of the key. Row and key material stay.
func (b Book) DeleteWallet(ctx context.Context, keyID, id string, at time.Time) error {
	_, err := b.editWallet(ctx, id, func(w *pay.Wallet) error {
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
func (b Book) RestoreWallet(ctx context.Context, id string) (pay.Wallet, error) {
	return b.editWallet(ctx, id, func(w *pay.Wallet) error {
		if w.Deleted == nil {
			return pay.ErrWalletLive
		}
		w.Deleted = nil
		return nil
	}, changed(pay.ActionWalletRestore))
}

// KeepApproving replaces the last allowance order of a wallet.
func (b Book) KeepApproving(ctx context.Context, walletID string, a pay.Approving) (pay.Wallet, error) {
	return b.editWallet(ctx, walletID, func(w *pay.Wallet) error {
		w.Approving = &a
		return nil
	}, func(was, w pay.Wallet, k pay.Key) pay.Change { return pay.WalletApproving(was.Approving, w, k) })
}

// ExportWallet opens the key material of a wallet once the audit has the export.
func (b Book) ExportWallet(ctx context.Context, id string) ([]byte, error) {
	return update(ctx, b, nil, func(tx BookTx) ([]byte, error) {
		w, err := tx.WalletByID(id)
		if err != nil {
			return nil, err
		}
		k, err := tx.Key(w.KeyID)
		if err != nil {
			return nil, err
		}
		material, err := tx.MaterialOf(id)
		if err != nil {
			return nil, err
		}
		return material, Enter(ctx, tx, pay.WalletChanged(pay.ActionWalletExport, w, k))
	})
}

// liveWallet finds a wallet that is not deleted.
func liveWallet(tx Wallets, id string) (pay.Wallet, error) {
	w, err := tx.WalletByID(id)
	if err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	return w, err
}

// ShareWallet lends a live wallet to keys.
func (b Book) ShareWallet(ctx context.Context, s pay.Share) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		if err := tx.Room(); err != nil {
			return err
		}
		w, err := liveWallet(tx, s.WalletID)
		if err != nil {
			return err
		}
		var keys []pay.Key
		for _, id := range s.KeyIDs {
			k, err := tx.Key(id)
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
			if err := tx.Lend(w.ID, k.ID, s.At); err != nil {
				return err
			}
			if err := Enter(ctx, tx, pay.WalletChanged(pay.ActionWalletShare, w, k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// UnshareWallet takes a wallet back from keys.
func (b Book) UnshareWallet(ctx context.Context, walletID string, keyIDs []string) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		w, err := tx.WalletByID(walletID)
		if err != nil {
			return err
		}
		var keys []pay.Key
		for _, id := range keyIDs {
			if lent, err := tx.IsLent(walletID, id); err != nil || !lent {
				if err == nil {
					err = pay.ErrWalletNotFound
				}
				return err
			}
			k, err := tx.Key(id)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		for _, k := range keys {
			if err := tx.TakeBack(w.ID, k.ID); err != nil {
				return err
			}
			if err := Enter(ctx, tx, pay.WalletChanged(pay.ActionWalletUnshare, w, k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetDeploymentWallet records a wallet as the deployment's on its network.
func (b Book) SetDeploymentWallet(ctx context.Context, walletID string) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		w, err := liveWallet(tx, walletID)
		if err != nil {
			return err
		}
		of, err := Setting[map[string]string](tx, Drawn)
		if err != nil || of[w.Network] == w.ID {
			return err
		}
		k, err := tx.Key(w.KeyID)
		if err != nil {
			return err
		}
		now := map[string]string{}
		maps.Copy(now, of)
		now[w.Network] = w.ID
		if err := put(tx, Drawn, now); err != nil {
			return err
		}
		return Enter(ctx, tx, pay.WalletChanged(pay.ActionDeployment, w, k))
	})
}
