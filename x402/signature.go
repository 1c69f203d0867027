package x402

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// Signature holds r‖s‖v of a secp256k1 signature, with v 27 or 28, as every facilitator accepts it.
type Signature [65]byte

// ParseSignature reads 0x and 130 hex digits in any letter case. It does not check the values of r,
// s and v; Recover does.
func ParseSignature(text string) (s Signature, err error) {
	err = decodeHex(s[:], text, "a signature")
	return s, err
}

// ParseForeignSignature reads a signature from a signer outside this process. It takes a v of 0 or 1
// for 27 or 28, as some signers write it. Its error names the length of what is no signature.
func ParseForeignSignature(text string) (s Signature, err error) {
	digits, prefixed := strings.CutPrefix(text, "0x")
	if !prefixed || len(digits) != 2*len(s) {
		return s, fmt.Errorf("a signature has 65 bytes in 0x-hex, and this has %d characters", len(text))
	}
	if s, err = ParseSignature(text); err != nil {
		return s, err
	}
	if s[64] <= 1 {
		s[64] += 27
	}
	return s, nil
}

// String returns 0x and 130 lower-case hex digits.
func (s Signature) String() string { return encodeHex(s[:]) }

// MarshalText writes the form of String.
func (s Signature) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads with ParseSignature.
func (s *Signature) UnmarshalText(text []byte) error { return unmarshal(s, text, ParseSignature) }

// Recover returns the address whose key made s. It refuses a high s, and any v but 27 and 28,
// because the token contract refuses them too.
func Recover(digest [32]byte, s Signature) (Address, error) {
	var low secp256k1.ModNScalar
	if v := s[64]; v != 27 && v != 28 || low.SetByteSlice(s[32:64]) || low.IsOverHalfOrder() {
		return Address{}, errors.New("recover signer: r, s or v out of range")
	}
	public, _, err := ecdsa.RecoverCompact(slices.Concat(s[64:], s[:64]), digest[:])
	if err != nil {
		return Address{}, fmt.Errorf("recover signer: %w", err)
	}
	return addressOf(public), nil
}
