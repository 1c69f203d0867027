package signer

import (
	"context"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// None is the provider of a deployment without wallets: its wallets have no address and cannot pay.
type None struct{}

var _ pay.Wallets = None{}

// Name is "none".
func (None) Name() string { return "none" }

// Create names a wallet "purser_" + id.
func (None) Create(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
	return pay.ProvidedWallet{ProviderID: "purser_" + id}, nil
}

// Sign is always pay.ErrNoAddress.
func (None) Sign(context.Context, pay.Wallet, pay.Message) (x402.Signature, error) {
	return x402.Signature{}, pay.ErrNoAddress
}
