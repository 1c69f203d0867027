package books

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// CreateWallet makes a wallet, by default on base. *InputError, ErrWalletLimit, ErrKeyRevoked,
// *SignerError.
func (b *Books) CreateWallet(ctx context.Context, k pay.Key, network string) (pay.Wallet, error) {
	return b.addWallet(ctx, k, network, false, pay.UnclaimedWallets, b.wallets.Create)
}

// CreateWalletIfHas is CreateWallet for an unclaimed key that has so many wallets. If another node has made one
// meanwhile: ErrWalletLimit.
func (b *Books) CreateWalletIfHas(ctx context.Context, k pay.Key, network string, wallets int) (pay.Wallet, error) {
	return b.addWallet(ctx, k, network, false, min(wallets+1, pay.UnclaimedWallets), b.wallets.Create)
}

// CanHold says why no wallet on a network could pay, whatever its key: *InputError.
func (b *Books) CanHold(network string) error {
	if err := pay.SignsFor(b.wallets, network); err != nil {
		return &pay.InputError{Field: "network", Reason: err.Error()}
	}
	return nil
}

// WalletCount counts the live wallets that a key owns, or its organization.
func (b *Books) WalletCount(ctx context.Context, k pay.Key) (int, error) {
	return b.reader.WalletCount(ctx, k)
}

// addWallet stores a wallet that provide makes.
func (b *Books) addWallet(ctx context.Context, k pay.Key, network string, imported bool, limit int, provide provides) (pay.Wallet, error) {
	if network == "" {
		network = "base"
	}
	if !slices.ContainsFunc(b.networks, func(n x402.Network) bool { return n.Name == network }) {
		return pay.Wallet{}, &pay.InputError{Field: "network", Reason: "Unsupported network " + words.Truncate(network, 64)}
	}
	if err := b.CanHold(network); err != nil {
		return pay.Wallet{}, err
	}
	if k.Revoked() {
		return pay.Wallet{}, pay.ErrKeyRevoked // its money would be out of reach
	}
	// The provider must not make an account that no wallet uses. The store enforces the limit below, by
	// the key and plan of that moment.
	if err := b.roomForWallet(ctx, k); err != nil {
		return pay.Wallet{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return pay.Wallet{}, fmt.Errorf("naming a wallet: %w", err)
	}
	for tries := 1; ; tries++ {
		w, err := b.createWallet(ctx, k, id.String(), network, imported, limit, provide)
		if !errors.Is(err, pay.ErrAddressTaken) || imported || tries == maxLost {
			return w, err
		}
	}
}

// maxLost bounds how often a creation chooses again. A provider that lends accounts may choose one
// that another creation takes first.
const maxLost = 100

// provides makes a new wallet's key, or finds it.
type provides func(ctx context.Context, id, network string) (pay.ProvidedWallet, error)

func (b *Books) createWallet(ctx context.Context, k pay.Key, id, network string, imported bool, limit int, provide provides) (pay.Wallet, error) {
	made, err := provide(ctx, id, network)
	if err != nil {
		return pay.Wallet{}, fmt.Errorf("creating a wallet with provider %s: %w", b.wallets.Name(), err)
	}
	w := pay.Wallet{
		ID: id, KeyID: k.ID, ProviderID: made.ProviderID, Network: network, Address: made.Address, Created: b.now().UTC(),
	}
	return w, b.store.CreateWallet(ctx, pay.NewWallet{Wallet: w, Secret: made.Secret, Plans: b.plans, Imported: imported}, limit)
}

func (b *Books) roomForWallet(ctx context.Context, k pay.Key) error {
	limit := pay.UnclaimedWallets
	if k.Claimed() {
		org, err := b.reader.Organization(ctx, k.OrganizationID)
		if err != nil {
			return err
		}
		limit = b.plans.Of(org.Plan).Wallets
	}
	have, err := b.reader.WalletCount(ctx, k)
	if err == nil && have >= limit {
		err = pay.ErrWalletLimit
	}
	return err
}

// Provider names the wallet provider in use.
func (b *Books) Provider() string { return b.wallets.Name() }

// ListWallets lists the live wallets that the key may use, in the order in which they pay.
func (b *Books) ListWallets(ctx context.Context, k pay.Key) ([]pay.Wallet, error) {
	return b.reader.Wallets(ctx, k.ID)
}

// DeleteWallet hides a wallet of the key and stops its use: ErrWalletNotFound.
func (b *Books) DeleteWallet(ctx context.Context, k pay.Key, id string) error {
	return b.store.DeleteWallet(ctx, k.ID, id, b.now().UTC())
}

// WalletIn finds a live wallet of a scope's keys: ErrWalletNotFound.
func (b *Books) WalletIn(ctx context.Context, s Scope, id string) (pay.Wallet, error) {
	w, err := b.reader.Wallet(ctx, id)
	if err != nil {
		return pay.Wallet{}, err
	}
	_, err = b.KeyIn(ctx, s, w.KeyID)
	if errors.Is(err, pay.ErrKeyNotFound) || err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	if err != nil {
		return pay.Wallet{}, err
	}
	return w, nil
}
