package signer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// maxProven bounds the memory of proven keys: 10,000 take about 2 MB.
const maxProven = 10_000

// Secrets is the part of pay.Store that Local reads.
type Secrets interface {
	// WalletSecret returns a wallet's decrypted key material. The caller may overwrite it.
	WalletSecret(ctx context.Context, walletID string) ([]byte, error)
}

// Local signs with keys made in this process, one per wallet. A key is a secret of 32 bytes, which
// the store keeps encrypted. Local fetches it for each signature and wipes it afterwards, so no
// unused key stays in memory.
type Local struct {
	secrets Secrets
	// proven holds the hashes of address and secret that belong together. Another secret of the same
	// wallet has another hash, and is proven by itself.
	proven *lru.Cache[[sha256.Size]byte, struct{}]
}

var (
	_ pay.Wallets     = (*Local)(nil)
	_ pay.KeyProving  = (*Local)(nil)
	_ pay.KeyImporter = (*Local)(nil)
	_ pay.SigningIn   = (*Local)(nil)
	_ pay.BytesSigner = (*Local)(nil)

	_ treasury.TransactionSigning = (*Local)(nil)
)

// NewLocal returns a provider that reads its keys from secrets.
func NewLocal(secrets Secrets) *Local {
	proven, err := lru.New[[sha256.Size]byte, struct{}](maxProven)
	if err != nil {
		panic("signer: " + err.Error()) // fails for a size of zero only
	}
	return &Local{secrets, proven}
}

// ProvesKeys tells package pay that Sign proves the key of each signature.
func (*Local) ProvesKeys() {}

// Name returns "local".
func (*Local) Name() string { return "local" }

// Create makes a key from the system's random source. The wallet is named "local_" + id.
func (*Local) Create(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
	key, err := x402.NewKey()
	if err != nil {
		return pay.ProvidedWallet{}, fmt.Errorf("make a wallet: %w", err)
	}
	defer key.Wipe()
	return provided(id, key), nil
}

// Import makes a wallet of a private key that was made elsewhere.
func (*Local) Import(id string, secret []byte) (pay.ProvidedWallet, error) {
	key, err := x402.ParseKey(secret)
	if err != nil {
		return pay.ProvidedWallet{}, &pay.InputError{Field: "key", Reason: "not a private key of Ethereum"}
	}
	defer key.Wipe()
	return provided(id, key), nil
}

func provided(id string, key *x402.Key) pay.ProvidedWallet {
	address := key.Address()
	return pay.ProvidedWallet{ProviderID: "local_" + id, Address: &address, Secret: key.Bytes()}
}

// Sign signs the digest of the message. It fails with pay.ErrNoAddress or with an error of the store.
// It also fails when the message, the wallet and the stored key do not belong together.
func (l *Local) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	return l.sign(ctx, w, m.From, m.Digest)
}

// SignBytes signs the Keccak-256 hash of the message's bytes: of a transaction of a chain with keys like Ethereum's. It
// fails as Sign does.
func (l *Local) SignBytes(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	if len(m.Bytes) == 0 {
		return x402.Signature{}, errors.New("the message is empty")
	}
	return l.sign(ctx, w, m.From, [32]byte(x402.Keccak256(m.Bytes)))
}

// SignTransaction signs a transaction of the wallet. Its errors are those of Sign.
func (l *Local) SignTransaction(ctx context.Context, w pay.Wallet, t treasury.Transaction) (treasury.SignedTransaction, error) {
	signature, err := l.sign(ctx, w, t.From, t.Digest())
	if err != nil {
		return treasury.SignedTransaction{}, err
	}
	return t.Signed(signature)
}

// SignIn signs a sign-in of the wallet. Its errors are those of Sign.
func (l *Local) SignIn(ctx context.Context, w pay.Wallet, m x402.SignIn) (x402.Signature, error) {
	return l.sign(ctx, w, m.Address(), m.Digest())
}

func (l *Local) sign(ctx context.Context, w pay.Wallet, from x402.Address, digest [32]byte) (x402.Signature, error) {
	if w.Address == nil {
		return x402.Signature{}, pay.ErrNoAddress
	}
	if from != *w.Address {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: the message is from %s", w.Address, from)
	}
	secret, err := l.secrets.WalletSecret(ctx, w.ID)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, err)
	}
	defer clear(secret)
	if secret == nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: its key is not here, its provider is %s", w.Address, w.Provider())
	}
	key, err := x402.ParseKey(secret)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: the kept secret is no key", w.Address)
	}
	defer key.Wipe()
	if err := l.prove(*w.Address, key, secret); err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, err)
	}
	signature, err := key.Sign(digest)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign with wallet %s: %w", w.Address, err)
	}
	return signature, nil
}

// prove returns nil if the key, of this secret, is that of the address. It derives the address once and then
// remembers the pair.
func (l *Local) prove(address x402.Address, key *x402.Key, secret []byte) error {
	both := slices.Concat(address.Bytes(), secret)
	defer clear(both)
	pair := sha256.Sum256(both)
	if l.proven.Contains(pair) {
		return nil
	}
	if key.Address() != address {
		return errors.New("the kept key belongs to another address")
	}
	l.proven.Add(pair, struct{}{})
	return nil
}
