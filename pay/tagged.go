package pay

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// NonceSeed is a half of a nonce.
type NonceSeed [len(x402.Nonce{}) / 2]byte

// newNonce returns a random nonce that a tag ends: that of a key, or of a withdrawal's identity. So reconciling
// finds which of the keys that share a wallet has paid, and which order a withdrawal carried out. The nonces under
// idempotency keys are derived in another way, and have no tag.
func (p *Payer) newNonce(of string) (n x402.Nonce) {
	var seed NonceSeed
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand ends the process instead
	tag := p.store.NonceTag(of, seed)
	copy(n[:], seed[:])
	copy(n[len(seed):], tag[:])
	return n
}

// withdrawn finds the order that an authorization of a wallet carried out: for its amount, or for all. It is zero
// for a payment of a key.
func (p *Payer) withdrawn(w Wallet, u UsedAuthorization) Hash {
	seed, tag := NonceSeed(u.Nonce[:len(NonceSeed{})]), NonceSeed(u.Nonce[len(NonceSeed{}):])
	for _, amount := range []*money.Amount{&u.Value, nil} {
		if of := withdrawalIdentity(w.ID, u.To, amount); p.store.NonceTag(string(of[:]), seed) == tag {
			return of
		}
	}
	return Hash{}
}

// payerOf finds the key that has paid with a nonce from a wallet: the one whose tag the nonce has, of the
// wallet's owner and the keys that the wallet is lent to. It is the owner if none has.
func (p *Payer) payerOf(ctx context.Context, w Wallet, n x402.Nonce) (Key, error) {
	seed, tag := NonceSeed(n[:len(NonceSeed{})]), NonceSeed(n[len(NonceSeed{}):])
	id := w.KeyID
	for after := ""; p.store.NonceTag(id, seed) != tag; {
		page, err := p.store.WalletKeys(ctx, w.ID, after, openPage)
		if err != nil {
			return Key{}, fmt.Errorf("listing the keys of wallet %s: %w", w.ID, err)
		}
		id = w.KeyID
		for _, lent := range page {
			if after = lent; p.store.NonceTag(lent, seed) == tag {
				id = lent
				break
			}
		}
		if len(page) < openPage {
			break
		}
	}
	k, err := p.store.Key(ctx, id)
	if err != nil {
		return Key{}, fmt.Errorf("key of wallet %s: %w", w.ID, err)
	}
	return k, nil
}
