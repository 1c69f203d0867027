package boltstore

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// RestoreWallet undoes DeleteWallet.
func (d *DB) RestoreWallet(ctx context.Context, id string) (pay.Wallet, error) {
	var w pay.Wallet
	err := d.do(ctx, &op{run: func(b *batch) (err error) {
		if w, err = walletIn(b.tx, id); err != nil {
			return err
		}
		if w.Deleted == nil {
			return pay.ErrWalletLive
		}
		k, err := keyIn(b.tx, w.KeyID)
		if err != nil {
			return err
		}
		w.Deleted = nil
		row, err := encodeRow(w)
		if err != nil {
			return err
		}
		if err := b.put(walletsBucket, []byte(id), row); err != nil {
			return err
		}
		if err := b.put(liveWalletsBucket, joinKey(w.KeyID, id), nil); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.WalletChanged(pay.ActionWalletRestore, w, k))
	}})
	if err != nil {
		return pay.Wallet{}, err
	}
	return w, nil
}

// KeepApproving replaces the last approval of a wallet.
func (d *DB) KeepApproving(ctx context.Context, walletID string, a pay.Approving) (pay.Wallet, error) {
	var w pay.Wallet
	err := d.do(ctx, &op{run: func(b *batch) (err error) {
		if w, err = walletIn(b.tx, walletID); err != nil {
			return err
		}
		k, err := keyIn(b.tx, w.KeyID)
		if err != nil {
			return err
		}
		was := w.Approving
		w.Approving = &a
		row, err := encodeRow(w)
		if err != nil {
			return err
		}
		if err := b.put(walletsBucket, []byte(walletID), row); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.WalletApproving(was, w, k))
	}})
	if err != nil {
		return pay.Wallet{}, err
	}
	return w, nil
}

// ExportWallet opens the key material of a wallet once the audit has the export.
func (d *DB) ExportWallet(ctx context.Context, id string) ([]byte, error) {
	err := d.do(ctx, &op{run: func(b *batch) error {
		w, err := walletIn(b.tx, id)
		if err != nil {
			return err
		}
		k, err := keyIn(b.tx, w.KeyID)
		if err != nil {
			return err
		}
		return d.audit(ctx, b, pay.WalletChanged(pay.ActionWalletExport, w, k))
	}})
	if err != nil {
		return nil, err
	}
	return d.WalletSecret(ctx, id)
}
