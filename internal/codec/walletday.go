package codec

import (
	"errors"

	"github.com/purserpay/purser/pay"
)

// WalletDayVersion is the first byte of a row.
const WalletDayVersion = 1

// EncodeWalletDay writes the version, what was spent, and what was withdrawn.
func EncodeWalletDay(d pay.WalletDay) []byte {
	return appendSum(appendSum(append(make([]byte, 0, 32), WalletDayVersion), d.Spent), d.Withdrawn)
}

// DecodeWalletDay decodes a row; nil is an empty one. The day is in its key.
func DecodeWalletDay(encoded []byte) (d pay.WalletDay, err error) {
	if encoded == nil {
		return d, nil
	}
	if len(encoded) == 0 || encoded[0] != WalletDayVersion {
		return d, errors.New("daily sums of an unknown encoding")
	}
	r := Parts{Rest: encoded[1:]}
	d.Spent, d.Withdrawn = r.sum(), r.sum()
	if r.Bad || len(r.Rest) > 0 {
		return pay.WalletDay{}, errors.New("daily sums that are damaged")
	}
	return d, nil
}
