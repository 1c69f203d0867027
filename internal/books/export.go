package books

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// ExportWallet returns the private key of a wallet, live or deleted, once the audit has the export.
// The caller overwrites it. ErrWalletNotFound, ErrNoSecret.
func (b *Books) ExportWallet(ctx context.Context, id string) ([]byte, error) {
	// Without a key there is nothing to export, and nothing for the audit.
	secret, err := b.store.WalletSecret(ctx, id)
	if err == nil && len(secret) == 0 {
		err = pay.ErrNoSecret
	}
	clear(secret)
	if err != nil {
		return nil, err
	}
	if secret, err = b.store.ExportWallet(ctx, id); err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Warn("wallet exported", "wallet", id, "by", by.String())
	}
	return secret, err
}

// ImportWallet makes a wallet of a private key that was made elsewhere. *InputError,
// ErrAddressTaken, ErrWalletLimit, ErrKeyRevoked.
func (b *Books) ImportWallet(ctx context.Context, k pay.Key, network string, secret []byte) (pay.Wallet, error) {
	into, can := b.wallets.(pay.KeyImporter)
	if !can {
		return pay.Wallet{}, &pay.InputError{
			Field:  "PURSER_WALLETS",
			Reason: "the wallet provider " + b.wallets.Name() + " takes no keys from elsewhere, and local does",
		}
	}
	w, err := b.addWallet(ctx, k, network, true, pay.UnclaimedWallets, func(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
		return into.Import(id, secret)
	})
	if err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Info("wallet imported", "wallet", w.ID, "key", k.ID, "address", w.Address.String(), "by", by.String())
	}
	return w, err
}

// RestoreWallet undoes the deletion of a wallet: ErrWalletNotFound, ErrWalletLive.
func (b *Books) RestoreWallet(ctx context.Context, id string) (pay.Wallet, error) {
	w, err := b.store.RestoreWallet(ctx, id)
	if err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Info("wallet restored", "wallet", w.ID, "key", w.KeyID, "by", by.String())
	}
	return w, err
}
