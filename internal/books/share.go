package books

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// ShareWallet lends a live wallet to keys. ErrWalletNotFound, ErrKeyNotFound, ErrKeyRevoked.
func (b *Books) ShareWallet(ctx context.Context, walletID string, keyIDs ...string) error {
	err := b.store.ShareWallet(ctx, pay.Share{WalletID: walletID, KeyIDs: keyIDs, At: b.now().UTC()})
	if err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Info("wallet shared", "wallet", walletID, "keys", keyIDs, "by", by.String())
	}
	return err
}

// UnshareWallet takes a wallet back from keys. Their open payments stay bound to it, and are driven
// on. ErrWalletNotFound.
func (b *Books) UnshareWallet(ctx context.Context, walletID string, keyIDs ...string) error {
	err := b.store.UnshareWallet(ctx, walletID, keyIDs)
	if err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Info("wallet taken back", "wallet", walletID, "keys", keyIDs, "by", by.String())
	}
	return err
}

// SetDeploymentWallet records the wallet that the operator's keys draw from on its network, unless
// they have another one: ErrWalletNotFound.
func (b *Books) SetDeploymentWallet(ctx context.Context, walletID string) error {
	return b.store.SetDeploymentWallet(ctx, walletID)
}
