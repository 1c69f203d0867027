package books

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/purserpay/purser/pay"
)

// configured is the actor of changes that a start makes because the operator has configured them.
var configured = pay.Actor{Kind: pay.ActorConfiguration}

// Changes orders what makes the exec key and what reads a policy to change it. It is the
// process's, because configurations that overlap in a reload share a data directory.
var Changes = semaphore.NewWeighted(1)

// OperatorKeys makes and finds the keys that are the operator's own: those that the configuration
// names, and the one that `purser exec` pays with.
type OperatorKeys struct {
	Books   *Books
	Network string // of the keys' wallets
	Log     *slog.Logger
}

// Ensure makes the key with a configured secret known as the operator's, with a wallet to draw from.
// The setting is named in the log, the label is for a key that has to be created. For a secret that
// was replaced it returns the zero key.
func (k OperatorKeys) Ensure(ctx context.Context, setting, secret, label string) (pay.Key, error) {
	ctx = pay.WithActorIfNone(ctx, configured)
	key, err := k.own(ctx, KeyRequest{Label: label, Secret: secret})
	// purser starts with a key that cannot pay: all other keys pay, and recovery must go on.
	if errors.Is(err, pay.ErrSecretReplaced) {
		k.Log.Error(setting + " is a secret that 'purser keys reissue' has replaced: nothing is paid with it, set the new one")
		return pay.Key{}, nil
	}
	if err != nil {
		return pay.Key{}, err
	}
	if key.Revoked() {
		k.Log.Error(setting+" is a key that was revoked: nothing is paid with it, set another one", "key", key.ID)
		return key, nil
	}
	if !key.Ends.IsZero() {
		k.Log.Warn(setting+" is a secret that 'purser keys reissue' has replaced: it pays for a while yet, set the new one", "until", key.Ends)
	}
	_, err = k.Wallet(ctx, key, k.Network)
	return key, err
}

// Deploy records a key as the deployment's. It logs how to revoke earlier such keys that still pay.
func (k OperatorKeys) Deploy(ctx context.Context, key pay.Key) error {
	if key.ID == "" {
		return nil // see Ensure
	}
	if err := k.Books.Deploy(ctx, key); err != nil {
		return err
	}
	replaced, err := k.Books.Replaced(ctx)
	for _, old := range replaced {
		k.Log.Warn("an earlier PURSER_KEY still pays; if no program needs it any more, revoke it", "key", old.ID, "command", RevokeCommand(old.ID))
	}
	return err
}

// RevokeCommand returns the command that revokes a key.
func RevokeCommand(id string) string { return "purser keys revoke " + id }

// own finds the key with a secret, or makes it. A key that an API client has made with that
// secret becomes the operator's: the configuration says whose it is now.
func (k OperatorKeys) own(ctx context.Context, want KeyRequest) (pay.Key, error) {
	want.Operator = true
	key, err := k.Books.KeyBySecret(ctx, want.Secret)
	if errors.Is(err, pay.ErrKeyNotFound) && !errors.Is(err, pay.ErrSecretReplaced) {
		key, _, err = k.Books.CreateKey(ctx, want)
		if errors.Is(err, pay.ErrKeyExists) { // another node was first
			key, err = k.Books.KeyBySecret(ctx, want.Secret)
		}
	}
	if err != nil {
		return pay.Key{}, err
	}
	ends := key.Ends
	key, err = k.Books.AdoptKey(ctx, key)
	key.Ends = ends
	return key, err
}

// Wallet finds the wallet that a key of the operator draws from on a network. A key without one is
// lent the deployment's.
func (k OperatorKeys) Wallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return pay.Wallet{}, err
	}
	defer Changes.Release(1)
	return k.wallet(ctx, key, network)
}

// wallet is Wallet for callers that hold [Changes]. The first wallet of a key of the operator becomes
// the deployment's, and is made if there is none.
func (k OperatorKeys) wallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
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
func (k OperatorKeys) OwnWallet(ctx context.Context, key pay.Key, network string) (pay.Wallet, error) {
	w, err := k.Books.CreateWallet(ctx, key, network)
	if err != nil {
		return pay.Wallet{}, err
	}
	k.told(key, w)
	return w, nil
}

// told logs a new wallet.
func (k OperatorKeys) told(key pay.Key, w pay.Wallet) {
	address := "none, because no wallet provider is configured"
	if w.Address != nil {
		address = w.Address.String()
	}
	k.Log.Info("wallet made; fund it to pay", "key", key.ID, "label", key.Label, "network", w.Network, "address", address)
}
