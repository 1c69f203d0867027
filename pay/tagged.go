package pay

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/purserpay/purser/x402"
)

// NonceSeed is a half of a nonce.
type NonceSeed [len(x402.Nonce{}) / 2]byte

// newNonce returns a random nonce that the key's tag ends. So reconciling finds which of the keys that
// share a wallet has paid. The nonces under idempotency keys are derived in another way, and have no tag.
func (p *Payer) newNonce(keyID string) (n x402.Nonce) {
	var seed NonceSeed
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand ends the process instead
	tag := p.store.KeyTag(keyID, seed)
	copy(n[:], seed[:])
	copy(n[len(seed):], tag[:])
	return n
}

// payerOf finds the key that has paid with a nonce from a wallet: the one whose tag the nonce has, of the
// wallet's owner and the keys that the wallet is lent to. It is the owner if none has.
func (p *Payer) payerOf(ctx context.Context, w Wallet, n x402.Nonce) (Key, error) {
	seed, tag := NonceSeed(n[:len(NonceSeed{})]), NonceSeed(n[len(NonceSeed{}):])
	id := w.KeyID
	for after := ""; p.store.KeyTag(id, seed) != tag; {
		page, err := p.store.WalletKeys(ctx, w.ID, after, openPage)
		if err != nil {
			return Key{}, fmt.Errorf("listing the keys of wallet %s: %w", w.ID, err)
		}
		id = w.KeyID
		for _, lent := range page {
			if after = lent; p.store.KeyTag(lent, seed) == tag {
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
