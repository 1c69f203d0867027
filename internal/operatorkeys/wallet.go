package operatorkeys

import (
	"context"
	"errors"
	"slices"

	"github.com/purserpay/purser/pay"
)

// Wallet finds the wallet that a key of the operator draws from on a network. A key without one is
// lent the deployment's.
func (k Keys) Wallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return pay.Wallet{}, err
	}
	defer Changes.Release(1)
	return k.wallet(ctx, key, network)
}

// wallet is Wallet for callers that hold [Changes]. The first wallet of a key of the operator becomes
// the deployment's, and is made if there is none.
func (k Keys) wallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
	have, err := k.Books.WalletCount(ctx, key)
	if err != nil {
		return pay.Wallet{}, err
	}
	wallets, err := k.Books.ListWallets(ctx, key)
	if err != nil {
		return pay.Wallet{}, err
	}
	deployments, err := k.Books.DeploymentWallet(ctx, network)
	none := errors.Is(err, pay.ErrWalletNotFound)
	if err != nil && !none {
		return pay.Wallet{}, err
	}
	provider := k.Books.Provider()
	none = none || deployments.Provider() != provider // it cannot sign
	i := slices.IndexFunc(wallets, func(w pay.Wallet) bool { return w.Network == network && w.Provider() == provider })
	switch {
	case i >= 0 && none && wallets[i].KeyID == key.ID && wallets[i].Address != nil:
		return wallets[i], k.Books.SetDeploymentWallet(ctx, wallets[i].ID)
	case i >= 0:
		return wallets[i], nil
	case !none:
		return deployments, k.Books.ShareWallet(ctx, deployments.ID, key.ID)
	}
	w, err := k.Books.CreateWalletIfHas(ctx, key, network, have)
	if errors.Is(err, pay.ErrWalletLimit) { // another node may have made it
		if now, countErr := k.Books.WalletCount(ctx, key); countErr == nil && now > have {
			return k.wallet(ctx, key, network)
		}
	}
	if err == nil {
		k.told(key, w)
	}
	if err == nil && w.Address != nil {
		err = k.Books.SetDeploymentWallet(ctx, w.ID)
	}
	return w, err
}

// OwnWallet makes a wallet that a key owns.
func (k Keys) OwnWallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
	w, err := k.Books.CreateWallet(ctx, key, network)
	if err != nil {
		return pay.Wallet{}, err
	}
	k.told(key, w)
	return w, nil
}

// told logs a new wallet.
func (k Keys) told(key pay.Key, w pay.Wallet) {
	address := "none, because no wallet provider is configured"
	if w.Address != nil {
		address = w.Address.String()
	}
	k.Log.Info("wallet made; fund it to pay", "key", key.ID, "label", key.Label, "network", w.Network, "address", address)
}
