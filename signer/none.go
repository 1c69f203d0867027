package signer

import (
	"context"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// None serves a deployment without wallets. Its wallets have no address and cannot pay.
type None struct{}

var _ pay.Wallets = None{}

// Name returns "none".
func (None) Name() string { return "none" }

// Create returns a wallet named "purser_" + id, without an address.
func (None) Create(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
	return pay.ProvidedWallet{ProviderID: "purser_" + id}, nil
}

// Sign always fails with pay.ErrNoAddress.
func (None) Sign(context.Context, pay.Wallet, pay.Message) (x402.Signature, error) {
	return x402.Signature{}, pay.ErrNoAddress
}
