package codec

import (
	"fmt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Brief holds the fields of a payment's row that filters and sums read. To decode the others,
// too, takes five times as long.
type Brief struct {
	Task       string       `cbor:"5,keyasint,omitempty"`
	RequestURL string       `cbor:"6,keyasint,omitempty"`
	Host       string       `cbor:"7,keyasint,omitempty"`
	PayTo      x402.Address `cbor:"12,keyasint"`
	Amount     Number       `cbor:"13,keyasint,omitempty"`
	Currency   string       `cbor:"14,keyasint,omitempty"`
	Created    Nanos        `cbor:"16,keyasint,omitempty"`
	Charged    Number       `cbor:"50,keyasint,omitempty"`
}

// DecodeBrief decodes the row of a payment as far as a Brief needs it.
func DecodeBrief(encoded []byte) (r Brief, err error) {
	if len(encoded) < 2 || encoded[0] != Version {
		return r, fmt.Errorf("payment of an unknown encoding")
	}
	if err := unmarshal(encoded[2:], &r); err != nil {
		return r, fmt.Errorf("decode payment: %w", err)
	}
	r.Host = longHost(r.Host, r.RequestURL)
	return r, nil
}

// Moved is [pay.Payment.Moved].
func (r Brief) Moved() (money.Amount, error) {
	if a, err := r.Charged.Amount(); err != nil || !a.IsZero() {
		return a, err
	}
	return r.Amount.Amount()
}
