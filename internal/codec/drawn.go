package codec

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/purserpay/purser/pay"
)

// DrawnVersion is the first byte of a row.
const DrawnVersion = 1

// Drawn holds what a key drew from a wallet on a day.
type Drawn struct {
	WalletID string
	pay.WalletDay
}

// IndexOfWallet finds the sums of a wallet; -1: there are none.
func IndexOfWallet(list []Drawn, walletID string) int {
	return slices.IndexFunc(list, func(d Drawn) bool { return d.WalletID == walletID })
}

// EncodeDrawn writes the version, and each wallet's id behind its length with what was spent and withdrawn.
func EncodeDrawn(list []Drawn) []byte {
	to := append(make([]byte, 0, 1+64*len(list)), DrawnVersion)
	for _, d := range list {
		to = append(binary.AppendUvarint(to, uint64(len(d.WalletID))), d.WalletID...)
		to = appendSum(appendSum(to, d.Spent), d.Withdrawn)
	}
	return to
}

// DecodeDrawn decodes a row; nil is an empty one. The day is beside it.
func DecodeDrawn(encoded []byte) (list []Drawn, err error) {
	if encoded == nil {
		return nil, nil
	}
	if len(encoded) == 0 || encoded[0] != DrawnVersion {
		return nil, errors.New("sums of wallets of an unknown encoding")
	}
	r := Parts{Rest: encoded[1:]}
	for len(r.Rest) > 0 && !r.Bad {
		d := Drawn{WalletID: string(r.Bytes(r.Uvarint()))}
		d.Spent, d.Withdrawn = r.sum(), r.sum()
		list = append(list, d)
	}
	if r.Bad {
		return nil, errors.New("sums of wallets that are damaged")
	}
	return list, nil
}
