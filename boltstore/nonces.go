package boltstore

import (
	"encoding/binary"

	"github.com/purserpay/purser/x402"
)

// nonces derives the nonces of the attempts under one idempotency key. All begin alike, and each
// carries the number of its attempt, hidden by the secret of the store. So a nonce that the chain
// has leads to its attempt, even if the books lost all attempts.
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
		shared: d.vault.Load().Derive("payment-nonces", keyID, idempotencyKey),
		own: func(attempt uint64) [32]byte {
			return d.vault.Load().Derive("payment-nonce", keyID, idempotencyKey, encodeNumber(int64(attempt)))
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

// attempt returns the attempt that has a nonce, if any has.
func (s nonces) attempt(n x402.Nonce) (attempt uint64, ok bool) {
	attempt = binary.BigEndian.Uint64(n[noncePrefix:]) ^ s.mask()
	return attempt, s.nonce(attempt) == n
}
