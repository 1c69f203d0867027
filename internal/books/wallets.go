package books

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// CreateWallet makes a wallet, by default on base. *InputError, ErrWalletLimit, ErrKeyRevoked.
func (b *Books) CreateWallet(ctx context.Context, k pay.Key, network string) (pay.Wallet, error) {
	if network == "" {
		network = "base"
	}
	if !slices.ContainsFunc(b.networks, func(n x402.Network) bool { return n.Name == network }) {
		return pay.Wallet{}, &pay.InputError{Field: "network", Reason: "Unsupported network " + pay.Truncate(network, 64)}
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
	made, err := b.wallets.Create(ctx, id.String(), network)
	if err != nil {
		return pay.Wallet{}, fmt.Errorf("creating a wallet with provider %s: %w", b.wallets.Name(), err)
	}
	w := pay.Wallet{
		ID: id.String(), KeyID: k.ID, ProviderID: made.ProviderID, Network: network,
		Address: made.Address, Created: b.now().UTC(),
	}
	return w, b.store.CreateWallet(ctx, pay.NewWallet{Wallet: w, Secret: made.Secret, Plans: b.plans}, pay.UnclaimedWallets)
}

func (b *Books) roomForWallet(ctx context.Context, k pay.Key) error {
	limit := pay.UnclaimedWallets
	if k.Claimed() {
		org, err := b.store.Organization(ctx, k.OrganizationID)
		if err != nil {
			return err
		}
		limit = b.plans.Of(org.Plan).Wallets
	}
	have, err := b.store.WalletCount(ctx, k)
	if err == nil && have >= limit {
		err = pay.ErrWalletLimit
	}
	return err
}

// ListWallets lists the key's live wallets, oldest first.
func (b *Books) ListWallets(ctx context.Context, k pay.Key) ([]pay.Wallet, error) {
	return b.store.Wallets(ctx, k.ID)
}

// DeleteWallet hides a wallet of the key and stops its use: ErrWalletNotFound.
func (b *Books) DeleteWallet(ctx context.Context, k pay.Key, id string) error {
	return b.store.DeleteWallet(ctx, k.ID, id, b.now().UTC())
}

// OrganizationWallet finds a live wallet of an organization's keys: ErrWalletNotFound.
func (b *Books) OrganizationWallet(ctx context.Context, orgID, id string) (pay.Wallet, error) {
	w, err := b.store.Wallet(ctx, id)
	if err != nil {
		return pay.Wallet{}, err
	}
	_, err = b.OrganizationKey(ctx, orgID, w.KeyID)
	if errors.Is(err, pay.ErrKeyNotFound) || err == nil && w.Deleted != nil {
		err = pay.ErrWalletNotFound
	}
	if err != nil {
		return pay.Wallet{}, err
	}
	return w, nil
}
