package x402

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Address names an account or a contract of a network. An EVM address has 20 bytes, and its text form is the
// mixed-case checksum of EIP-55. An address of another network is the text that the network itself uses. The zero
// value is the zero address of the EVM, which has no owner.
type Address struct {
	evm  [20]byte
	text string // of another network than an EVM; "": evm counts
}

// EVMAddress returns the address with these 20 bytes.
func EVMAddress(b [20]byte) Address { return Address{evm: b} }

// ParseAddress reads an EVM address from a seller or facilitator: 0x and 40 hex digits. It does not
// check EIP-55: the reference implementations of x402 accept any letter case.
func ParseAddress(s string) (a Address, err error) {
	err = decodeHex(a.evm[:], s, "an address")
	return a, err
}

// ParseCheckedAddress reads an EVM address that a person typed. In mixed case it must have a correct
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

// The length of an address of another network than an EVM, in bytes of its text. A shorter text could be taken
// for the bytes of an EVM address.
const minForeign, maxForeign = 21, 128

// ForeignAddress returns an address of another network than an EVM: 21 to 128 letters, digits and -_.: in the
// network's own spelling. The rail of the network checks it further.
func ForeignAddress(text string) (Address, error) {
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_.:", r)
	}
	if len(text) < minForeign || len(text) > maxForeign || strings.HasPrefix(text, "0x") || strings.ContainsFunc(text, odd) {
		return Address{}, errors.New("not an address of another network than an EVM")
	}
	return Address{text: text}, nil
}

// AddressOf returns the address whose [Address.Bytes] these are.
func AddressOf(b []byte) (Address, error) {
	if len(b) == len(Address{}.evm) {
		return EVMAddress([20]byte(b)), nil
	}
	return ForeignAddress(string(b))
}

// EVM returns the 20 bytes of an EVM address, and zeros for an address of another network.
func (a Address) EVM() [20]byte { return a.evm }

// Foreign reports whether the address is of another network than an EVM.
func (a Address) Foreign() bool { return a.text != "" }

// Bytes returns the form that stores keep: 20 bytes of an EVM address, the text of another one.
func (a Address) Bytes() []byte {
	if a.Foreign() {
		return []byte(a.text)
	}
	return a.evm[:]
}

// String returns the text form.
func (a Address) String() string {
	if a.Foreign() {
		return a.text
	}
	text := []byte(encodeHex(a.evm[:]))
	digits := text[2:]
	hash := hex.EncodeToString(Keccak256(digits))
	for i, digit := range digits {
		if digit >= 'a' && hash[i] >= '8' { // EIP-55
			digits[i] -= 'a' - 'A'
		}
	}
	return string(text)
}

// IsZero reports whether a is the zero address, which has no owner.
func (a Address) IsZero() bool { return a == Address{} }

// MarshalText writes the text form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an EVM address with ParseCheckedAddress. It serves purser's own books and the policies that
// operators write.
func (a *Address) UnmarshalText(text []byte) error {
	return unmarshal(a, text, func(s string) (Address, error) {
		checked, err := ParseCheckedAddress(s)
		if err != nil {
			if foreign, unknown := ForeignAddress(s); unknown == nil {
				return foreign, nil
			}
		}
		return checked, err
	})
}

// MarshalBinary writes the form of Bytes.
func (a Address) MarshalBinary() ([]byte, error) { return a.Bytes(), nil }

// UnmarshalBinary reads with AddressOf.
func (a *Address) UnmarshalBinary(b []byte) (err error) {
	*a, err = AddressOf(b)
	return err
}

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
