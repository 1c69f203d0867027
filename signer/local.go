package signer

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Secrets is the part of pay.Store that Local reads.
type Secrets interface {
	// WalletSecret returns a wallet's decrypted key material. The caller may overwrite it.
	WalletSecret(ctx context.Context, walletID string) ([]byte, error)
}

// Local signs with keys made in this process, one per wallet. A key is a secret of 32 bytes, which
// the store keeps encrypted. Local fetches it for each signature and wipes it afterwards, so no
// unused key stays in memory.
type Local struct{ secrets Secrets }

var _ pay.Wallets = (*Local)(nil)

// NewLocal returns a provider that reads its keys from secrets.
func NewLocal(secrets Secrets) *Local { return &Local{secrets} }

// Name returns "local".
func (*Local) Name() string { return "local" }

// Create makes a key from the system's random source. The wallet is named "local_" + id.
func (*Local) Create(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return pay.ProvidedWallet{}, fmt.Errorf("make a wallet key: %w", err)
	}
	defer wipe(key)
	address := x402.Address(crypto.PubkeyToAddress(key.PublicKey))
	return pay.ProvidedWallet{ProviderID: "local_" + id, Address: &address, Secret: crypto.FromECDSA(key)}, nil
}

// Sign signs the EIP-712 digest of the authorization. It fails with pay.ErrNoAddress or with an
// error of the store. It also fails when the authorization, the wallet and the stored key do not
// belong together.
func (l *Local) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if w.Address == nil {
		return x402.Signature{}, pay.ErrNoAddress
	}
	if m.Authorization.From != *w.Address {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: the authorization is from %s", w.Address, m.Authorization.From)
	}
	secret, err := l.secrets.WalletSecret(ctx, w.ID)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, err)
	}
	defer clear(secret)
	key, err := crypto.ToECDSA(secret)
	if err != nil {
		// The error's text is dropped, because it describes the secret's value.
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: the kept secret is no key", w.Address)
	}
	defer wipe(key)
	if x402.Address(crypto.PubkeyToAddress(key.PublicKey)) != *w.Address {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, errWrongKey)
	}
	signature, err := x402.Sign(m.Authorization.Digest(m.Asset, m.ChainID), key)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, err)
	}
	return signature, nil
}

var errWrongKey = errors.New("the kept key belongs to another address")

// wipe overwrites the private number. Copies made by the arithmetic stay out of reach.
func wipe(key *ecdsa.PrivateKey) { clear(key.D.Bits()) } //nolint:staticcheck // the key is not used afterwards; there is no other way to clear it
