// Package money has amounts of a digital currency: whole numbers of its smallest unit, and their texts for people.
// It knows no protocol, no chain and no payment.
package money

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/holiman/uint256"
)

// maxDecimalDigits is the number of decimal digits of 2^256-1.
const maxDecimalDigits = 78

var errAmount = errors.New("not a whole number of smallest units below 2^256")

// Amount counts the smallest units of an asset, from 0 to 2^256-1: 1 USDC is 1000000. Amounts can
// be compared with ==. Its text and JSON form is a canonical decimal.
type Amount struct{ n uint256.Int }

// Parse reads a canonical decimal: digits only, without sign, spaces or leading zeros, below 2^256.
func Parse(s string) (Amount, error) {
	if !AllDigits(s) || len(s) > maxDecimalDigits || (len(s) > 1 && s[0] == '0') {
		return Amount{}, errAmount
	}
	var a Amount
	if err := a.n.SetFromDecimal(s); err != nil {
		return Amount{}, errAmount
	}
	return a, nil
}

// New returns u smallest units.
func New(u uint64) Amount {
	var a Amount
	a.n.SetUint64(u)
	return a
}

// FromBytes32 reads a big-endian uint256, as the ABI encodes it.
func FromBytes32(w [32]byte) (a Amount) {
	a.n.SetBytes32(w[:])
	return a
}

// FromBig converts b. It returns false when b is nil, negative, or at least 2^256.
func FromBig(b *big.Int) (Amount, bool) {
	if b == nil || b.Sign() < 0 {
		return Amount{}, false
	}
	var a Amount
	if a.n.SetFromBig(b) {
		return Amount{}, false
	}
	return a, true
}

// ParseUnits reads an amount in whole units, such as "10" or "0.25" USDC, for an asset with the given number of
// decimals. More decimals than the asset has are an error, never rounded.
func ParseUnits(s string, decimals int) (Amount, error) {
	if decimals < 0 || decimals >= maxDecimalDigits {
		return Amount{}, fmt.Errorf("%d decimals are out of range", decimals)
	}
	whole, fraction, point := strings.Cut(s, ".")
	if !AllDigits(whole) || (point && !AllDigits(fraction)) {
		return Amount{}, errors.New(`not a decimal number like "0.25"`)
	}
	if len(fraction) > decimals {
		return Amount{}, fmt.Errorf("more than %d decimals", decimals)
	}
	digits := strings.TrimLeft(whole+fraction+strings.Repeat("0", decimals-len(fraction)), "0")
	if digits == "" {
		return Amount{}, nil
	}
	return Parse(digits)
}

// Format writes a in whole units without trailing zeros, such as "1.5".
func (a Amount) Format(decimals int) string {
	s := a.String()
	if decimals <= 0 {
		return s
	}
	if len(s) <= decimals {
		s = strings.Repeat("0", decimals+1-len(s)) + s
	}
	whole, fraction := s[:len(s)-decimals], strings.TrimRight(s[len(s)-decimals:], "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// String returns the canonical decimal.
func (a Amount) String() string { return a.n.Dec() }

// IsZero reports whether a is 0.
func (a Amount) IsZero() bool { return a.n.IsZero() }

// Cmp returns -1 if a < b, 0 if a == b, and +1 if a > b.
func (a Amount) Cmp(b Amount) int { return a.n.Cmp(&b.n) }

// Add returns a+b. On overflow the sum is meaningless.
func (a Amount) Add(b Amount) (sum Amount, overflow bool) {
	_, overflow = sum.n.AddOverflow(&a.n, &b.n)
	return sum, overflow
}

// AddSaturated returns a+b, or the largest amount on overflow.
func (a Amount) AddSaturated(b Amount) Amount {
	sum, overflow := a.Add(b)
	if overflow {
		sum, _ = Amount{}.Sub(New(1)) // wraps around to the largest
	}
	return sum
}

// TimesSaturated returns a*n, or the largest amount on overflow.
func (a Amount) TimesSaturated(n uint64) Amount {
	var product Amount
	if _, overflow := product.n.MulOverflow(&a.n, uint256.NewInt(n)); overflow {
		return Amount{n: *new(uint256.Int).SetAllOne()}
	}
	return product
}

// Sub returns a-b. On underflow the difference is meaningless.
func (a Amount) Sub(b Amount) (diff Amount, underflow bool) {
	_, underflow = diff.n.SubOverflow(&a.n, &b.n)
	return diff, underflow
}

// SubSaturated returns a-b, or 0 on underflow.
func (a Amount) SubSaturated(b Amount) Amount {
	diff, underflow := a.Sub(b)
	if underflow {
		return Amount{}
	}
	return diff
}

// Big returns a as a new big.Int.
func (a Amount) Big() *big.Int { return a.n.ToBig() }

// Bytes32 returns a as a big-endian uint256, as the ABI encodes it.
func (a Amount) Bytes32() [32]byte { return a.n.Bytes32() }

// AppendBytes appends the big-endian bytes without leading zeros: none for zero.
func (a Amount) AppendBytes(to []byte) []byte {
	for i := a.n.ByteLen() - 1; i >= 0; i-- {
		to = append(to, byte(a.n[i/8]>>(i%8*8))) //nolint:gosec // the lowest byte
	}
	return to
}

// MarshalText writes the canonical decimal.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads with ParseAmount.
func (a *Amount) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*a = parsed
	}
	return err
}

// AllDigits reports whether s holds decimal digits only, and at least one.
func AllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
