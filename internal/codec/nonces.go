package codec

import (
	"encoding/binary"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// NonceTag is that of [pay.Store]. derive is that of the store's vault.
func NonceTag(derive func(purpose string, names ...string) [32]byte, of string, seed pay.NonceSeed) pay.NonceSeed {
	tag := derive("payment-key", of, string(seed[:]))
	return pay.NonceSeed(tag[:len(seed)])
}

// Nonces derives the nonces of the attempts under one idempotency key. All begin alike, and each
// carries the number of its attempt, hidden by the secret of the store. So a nonce that the chain
// has leads to its attempt, even if the books lost all attempts.
type Nonces struct {
	shared [32]byte // 16 bytes that all begin with, 8 that hide the number
	own    func(attempt uint64) [32]byte
}

const (
	noncePrefix = 16
	nonceNumber = noncePrefix + 8
)

// NoncesOf derives the nonces of an idempotency key. derive is that of the store's vault.
func NoncesOf(derive func(purpose string, names ...string) [32]byte, keyID, idempotencyKey string) Nonces {
	return Nonces{
		shared: derive("payment-nonces", keyID, idempotencyKey),
		own: func(attempt uint64) [32]byte {
			return derive("payment-nonce", keyID, idempotencyKey, string(binary.BigEndian.AppendUint64(nil, attempt)))
		},
	}
}

// Prefix begins all of them.
func (s Nonces) Prefix() []byte { return s.shared[:noncePrefix] }

// Nonce returns that of an attempt.
func (s Nonces) Nonce(attempt uint64) (n x402.Nonce) {
	own := s.own(attempt)
	copy(n[:], s.Prefix())
	binary.BigEndian.PutUint64(n[noncePrefix:], attempt^s.mask())
	copy(n[nonceNumber:], own[:])
	return n
}

func (s Nonces) mask() uint64 { return binary.BigEndian.Uint64(s.shared[noncePrefix:]) }

// Attempt returns the attempt that has a nonce, if any has.
func (s Nonces) Attempt(n x402.Nonce) (attempt uint64, ok bool) {
	attempt = binary.BigEndian.Uint64(n[noncePrefix:]) ^ s.mask()
	return attempt, s.Nonce(attempt) == n
}
