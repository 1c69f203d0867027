package pay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"

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

// withdrawn finds the order that an authorization of a wallet carried out: for its amount, without gas, or for all. It is
// zero for a payment of a key.
func (p *Payer) withdrawn(w Wallet, u UsedAuthorization) Hash {
	seed, tag := NonceSeed(u.Nonce[:len(NonceSeed{})]), NonceSeed(u.Nonce[len(NonceSeed{}):])
	ordered := u.Value.SubSaturated(u.Fee)
	for _, amount := range []*money.Amount{&ordered, nil} {
		if of := withdrawalIdentity(w.ID, u.To, amount); p.store.NonceTag(string(of[:]), seed) == tag {
			return of
		}
	}
	return Hash{}
}

// Marking is a further method of a [Rail] whose nonces have room for a short mark only.
type Marking interface {
	// Mark returns the part of a nonce that Authorize took from the beginning of the one that it was given, at least 10
	// bytes; nil: the nonce is not of this rail's making.
	Mark(n x402.Nonce) []byte
}

// shortSeed is the length of the random part of a mark, and of its tag.
const shortSeed = 5

// shortNonce is newNonce for a rail that keeps the beginning only. It begins with the mark of an order, if that is not 0.
func (p *Payer) shortNonce(of string, order uint64) (n x402.Nonce) {
	var seed NonceSeed
	_, _ = rand.Read(n[:]) // never fails: crypto/rand ends the process instead
	n[0] &^= isOrder >> 24
	if order > 0 {
		binary.BigEndian.PutUint32(n[:], isOrder|uint32(order)) //nolint:gosec // it has 29 bits
	}
	copy(seed[:shortSeed], n[:])
	tag := p.store.NonceTag(of, seed)
	copy(n[shortSeed:2*shortSeed], tag[:])
	return n
}

// A challenge that chooses the nonce leaves room for the mark of an order only: in the ValidAfter of a message of
// EIP-3009, which must lie in the past, or in the 4 first bytes of a short nonce. A number of 29 bits is a time before 1988.
// Two orders have one mark by chance, 1 in 2^29.
const (
	orderBits = 29
	isOrder   = 1 << 31 // marks a short nonce that has the mark of an order
)

// orderMark returns the mark of an idempotency key. So after a restore, the chain tells for which order a payment was
// whose nonce purser did not derive. 0: there is no idempotency key.
func (p *Payer) orderMark(keyID, idempotencyKey string) uint64 {
	if idempotencyKey == "" {
		return 0
	}
	tag := p.store.NonceTag("order\x00"+keyID+"\x00"+idempotencyKey, NonceSeed{})
	return max(1, uint64(binary.BigEndian.Uint32(tag[:])>>(32-orderBits)))
}

// orderOf reads the mark of an order from an authorization. 0: it has none.
func (p *Payer) orderOf(u UsedAuthorization) uint64 {
	mark := u.ValidAfter
	if rail, short := p.other(u.Rail).(Marking); short {
		mark = 0
		if n := rail.Mark(u.Nonce); len(n) >= 4 && binary.BigEndian.Uint32(n)&isOrder != 0 {
			mark = uint64(binary.BigEndian.Uint32(n) &^ isOrder)
		}
	}
	if mark >= 1<<orderBits {
		return 0
	}
	return mark
}

// orderName stands for the mark of an order where stores look for an idempotency key. It is of no key of the API.
func orderName(mark uint64) string { return "order " + strconv.FormatUint(mark, 10) }

// LivesUnder returns the key and the idempotency key by which a store finds the payment while it lives, or false. A
// payment that only the chain tells of can have the mark of an order for that, and no key.
func (p *Payment) LivesUnder() (keyID, idempotencyKey string, ok bool) {
	switch {
	case p.Retired || !p.Lives():
		return "", "", false
	case p.Reconciled && p.Authorization.ValidAfter > 0:
		return "", orderName(p.Authorization.ValidAfter), true
	}
	return p.KeyID, p.IdempotencyKey, p.IdempotencyKey != ""
}

// tagged reports whether an authorization has the tag of a key.
func (p *Payer) tagged(u UsedAuthorization, id string) bool {
	seed, tag := NonceSeed(u.Nonce[:len(NonceSeed{})]), u.Nonce[len(NonceSeed{}):]
	if rail, short := p.other(u.Rail).(Marking); short {
		mark := rail.Mark(u.Nonce)
		if len(mark) < 2*shortSeed {
			return false
		}
		seed, tag = NonceSeed{}, mark[shortSeed:2*shortSeed]
		copy(seed[:], mark[:shortSeed])
	}
	has := p.store.NonceTag(id, seed)
	return bytes.HasPrefix(has[:], tag)
}

// payerOf finds the key that has paid from a wallet: the one whose tag the authorization has, of the
// wallet's owner and the keys that the wallet is lent to. It is the owner if none has.
func (p *Payer) payerOf(ctx context.Context, w Wallet, u UsedAuthorization) (Key, error) {
	id := w.KeyID
	for after := ""; !p.tagged(u, id); {
		page, err := p.store.WalletKeys(ctx, w.ID, after, openPage)
		if err != nil {
			return Key{}, fmt.Errorf("listing the keys of wallet %s: %w", w.ID, err)
		}
		id = w.KeyID
		for _, lent := range page {
			if after = lent; p.tagged(u, lent) {
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
