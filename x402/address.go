package x402

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// Address holds the 20 bytes of an EVM account or contract. Its text form has the mixed-case
// checksum of EIP-55.
type Address [20]byte

// ParseAddress reads an address from a seller or facilitator: 0x and 40 hex digits. It does not
// check EIP-55: the reference implementations of x402 accept any letter case.
func ParseAddress(s string) (a Address, err error) {
	err = decodeHex(a[:], s, "an address")
	return a, err
}

// ParseCheckedAddress reads an address that a person typed. In mixed case it must have a correct
// EIP-55 checksum: a typing error would lose money.
func ParseCheckedAddress(s string) (Address, error) {
	a, err := ParseAddress(s)
	if err != nil {
		return Address{}, err
	}
	if digits := s[2:]; digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && s != a.String() {
		return Address{}, fmt.Errorf("%s is mistyped: its upper and lower case letters are a checksum (EIP-55), which does not fit", s)
	}
	return a, nil
}

// String returns the EIP-55 form.
func (a Address) String() string { return common.Address(a).Hex() }

// IsZero reports whether a is the zero address, which has no owner.
func (a Address) IsZero() bool { return a == Address{} }

// MarshalText writes the EIP-55 form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads with ParseCheckedAddress. It serves purser's own books and the policies that
// operators write.
func (a *Address) UnmarshalText(text []byte) error { return unmarshal(a, text, ParseCheckedAddress) }

// Nonce holds the 32 random bytes that make an EIP-3009 authorization unique for its sender. Its
// text form is 0x and 64 lower-case hex digits.
type Nonce [32]byte

// ParseNonce reads 0x and 64 hex digits of any letter case.
func ParseNonce(s string) (n Nonce, err error) {
	err = decodeHex(n[:], s, "a nonce")
	return n, err
}

// String returns 0x and 64 lower-case hex digits.
func (n Nonce) String() string { return encodeHex(n[:]) }

// MarshalText writes the form of String.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads with ParseNonce.
func (n *Nonce) UnmarshalText(text []byte) error { return unmarshal(n, text, ParseNonce) }

// ValidTransaction reports whether s has the form of a transaction hash: 0x and 64 hex digits of any letter case.
func ValidTransaction(s string) bool {
	var hash [32]byte
	return decodeHex(hash[:], s, "a hash") == nil
}

// unmarshal sets into to what parse reads, unless that fails.
func unmarshal[T any](into *T, text []byte, parse func(string) (T, error)) error {
	parsed, err := parse(string(text))
	if err == nil {
		*into = parsed
	}
	return err
}

// decodeHex fills dst from 0x and exactly two hex digits for each of its bytes. On error it leaves dst as it is.
func decodeHex(dst []byte, s, what string) error {
	digits, prefixed := strings.CutPrefix(s, "0x")
	if b, err := hex.DecodeString(digits); err == nil && prefixed && len(b) == len(dst) {
		copy(dst, b)
		return nil
	}
	return fmt.Errorf("not %s: want 0x and %d hex digits", what, 2*len(dst))
}

func encodeHex(b []byte) string { return "0x" + hex.EncodeToString(b) }
