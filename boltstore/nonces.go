package boltstore

import (
	"encoding/binary"

	"github.com/purserpay/purser/x402"
)

// nonces are those of the attempts under one idempotency key. They begin alike, and the
// number of the attempt is in them for whoever has the store's secret: one that the chain
// tells of leads to its order, however many attempts there were that it knows nothing of.
type nonces struct {
	shared [32]byte // 16 bytes that all begin with, 8 that hide the number
	own    func(attempt uint64) [32]byte
}

const (
	noncePrefix = 16
	nonceNumber = noncePrefix + 8
)

// noncesOf derives the nonces of an idempotency key.
func (d *DB) noncesOf(keyID, idempotencyKey string) nonces {
	return nonces{
		shared: d.vault.Derive("payment-nonces", keyID, idempotencyKey),
		own: func(attempt uint64) [32]byte {
			return d.vault.Derive("payment-nonce", keyID, idempotencyKey, encodeNumber(int64(attempt)))
		},
	}
}

func (s nonces) prefix() []byte { return s.shared[:noncePrefix] }

func (s nonces) nonce(attempt uint64) (n x402.Nonce) {
	own := s.own(attempt)
	copy(n[:], s.prefix())
	binary.BigEndian.PutUint64(n[noncePrefix:], attempt^s.mask())
	copy(n[nonceNumber:], own[:])
	return n
}

func (s nonces) mask() uint64 { return binary.BigEndian.Uint64(s.shared[noncePrefix:]) }

// attempt is the one that has a nonce, if any has.
func (s nonces) attempt(n x402.Nonce) (attempt uint64, ok bool) {
	attempt = binary.BigEndian.Uint64(n[noncePrefix:]) ^ s.mask()
	return attempt, s.nonce(attempt) == n
}
