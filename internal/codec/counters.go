package codec

import (
	"encoding/binary"
	"errors"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// CountersVersion is the first byte of a row with several counters.
const CountersVersion = 1

// CounterValue is a counter with its amount.
type CounterValue struct {
	Counter pay.Counter
	Amount  x402.Amount
}

// Size bounds the bytes that a counter takes in a row.
func (v CounterValue) Size() int { return binary.MaxVarintLen16 + len(v.Counter) + 1 + 32 }

// EncodeCounters writes the version and the counters in their order, each name behind its length.
func EncodeCounters(list []CounterValue) []byte {
	size := 1
	for _, v := range list {
		size += v.Size()
	}
	to := append(make([]byte, 0, size), CountersVersion)
	for _, v := range list {
		to = append(binary.AppendUvarint(to, uint64(len(v.Counter))), v.Counter...)
		to = appendAmount(to, v.Amount)
	}
	return to
}

// DecodeCounters decodes a row; nil is an empty one.
func DecodeCounters(encoded []byte) (list []CounterValue, err error) {
	if encoded == nil {
		return nil, nil
	}
	if len(encoded) == 0 || encoded[0] != CountersVersion {
		return nil, errors.New("counters of an unknown encoding")
	}
	d := Parts{Rest: encoded[1:]}
	for len(d.Rest) > 0 && !d.Bad {
		name := d.Bytes(d.Uvarint())
		list = append(list, CounterValue{pay.Counter(name), d.amount()})
	}
	if d.Bad {
		return nil, errors.New("counters that are damaged")
	}
	return list, nil
}
