package x402

import "golang.org/x/crypto/sha3"

// Keccak256 returns the 32 bytes of the hash of Ethereum: that of the parts, one after the other.
func Keccak256(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	return h.Sum(nil)
}
