package x402

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// Address is an EVM account or contract. In text it has the mixed-case checksum of EIP-55.
type Address [20]byte

// ParseAddress reads 0x and 40 hex digits of any letter case. It is for what others send: the EIP-55 checksum is neither
// demanded nor checked, as the reference implementations of x402 take any letter case too.
func ParseAddress(s string) (Address, error) {
	var a Address
	if !decodeHex(a[:], s) {
		return Address{}, fmt.Errorf("not an address: want 0x and %d hex digits", 2*len(a))
	}
	return a, nil
}

// ParseCheckedAddress is ParseAddress for what people write: letters of both cases are a checksum (EIP-55), and one that
// does not fit is a typing error, which would lose money. Lower or upper case alone has none.
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

// String is the EIP-55 form.
func (a Address) String() string {
	text := make([]byte, 2+2*len(a))
	copy(text, "0x")
	digits := text[2:]
	hex.Encode(digits, a[:])
	hash := crypto.Keccak256(digits)
	for i, c := range digits {
		nibble := hash[i/2] >> 4
		if i%2 == 1 {
			nibble = hash[i/2] & 0x0f
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - 'a' + 'A'
		}
	}
	return string(text)
}

// IsZero reports whether a is the zero address, which nobody owns.
func (a Address) IsZero() bool { return a == Address{} }

// MarshalText writes the EIP-55 form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseCheckedAddress: it reads our own books, and policies that people write. Messages of sellers and
// facilitators are decoded by hand.
func (a *Address) UnmarshalText(text []byte) error {
	parsed, err := ParseCheckedAddress(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Nonce makes an EIP-3009 authorization unique for its sender. In text it is 0x and 64 lower-case hex digits.
type Nonce [32]byte

// ParseNonce reads 0x and 64 hex digits of any letter case.
func ParseNonce(s string) (Nonce, error) {
	var n Nonce
	if !decodeHex(n[:], s) {
		return Nonce{}, fmt.Errorf("not a nonce: want 0x and %d hex digits", 2*len(n))
	}
	return n, nil
}

// String is 0x and 64 lower-case hex digits.
func (n Nonce) String() string { return encodeHex(n[:]) }

// MarshalText writes the form of String.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText is ParseNonce.
func (n *Nonce) UnmarshalText(text []byte) error {
	parsed, err := ParseNonce(string(text))
	if err != nil {
		return err
	}
	*n = parsed
	return nil
}

// ValidTransaction reports whether s has the form of a transaction hash: 0x and 64 hex digits of any letter case.
func ValidTransaction(s string) bool {
	var hash [32]byte
	return decodeHex(hash[:], s)
}

// decodeHex fills dst from 0x and exactly as many hex digits as it holds.
func decodeHex(dst []byte, s string) bool {
	if len(s) != 2+2*len(dst) || s[:2] != "0x" {
		return false
	}
	_, err := hex.Decode(dst, []byte(s[2:]))
	return err == nil
}

func encodeHex(b []byte) string { return "0x" + hex.EncodeToString(b) }
