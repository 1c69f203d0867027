package x402test

import (
	"crypto/ecdsa"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/x402"
)

// Sign signs a digest by go-ethereum's own code.
func Sign(digest [32]byte, key *ecdsa.PrivateKey) (x402.Signature, error) {
	raw, err := crypto.Sign(digest[:], key)
	if err != nil {
		return x402.Signature{}, err
	}
	raw[64] += 27
	return x402.Signature(raw), nil
}
