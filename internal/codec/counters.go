package codec

import (
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// CountersVersion is the first byte of a row with several counters.
const CountersVersion = 1

// CounterValue is a counter with its amount.
type CounterValue struct {
	Counter pay.Counter
	Amount  money.Amount
}

// ByName compares counters by their names.
func ByName(a, b CounterValue) int { return cmp.Compare(a.Counter, b.Counter) }

// shortCounter estimates a counter with a short name in a row, in bytes.
const shortCounter = 48

// Size bounds the bytes that a counter takes in a row.
func (v CounterValue) Size() int { return binary.MaxVarintLen16 + len(v.Counter) + 1 + 32 }

// EncodeCounters writes the version and n counters in their order, each name behind its length.
func EncodeCounters(n int, at func(i int) CounterValue) []byte {
	size := 1
	for i := range n {
		size += at(i).Size()
	}
	to := append(make([]byte, 0, size), CountersVersion)
	for i := range n {
		v := at(i)
		to = append(binary.AppendUvarint(to, uint64(len(v.Counter))), v.Counter...)
		to = appendAmount(to, v.Amount)
	}
	return to
}

// DecodeCounters decodes a row; nil is an empty one.
func DecodeCounters(encoded []byte) (list []CounterValue, err error) {
	list = make([]CounterValue, 0, len(encoded)/shortCounter)
	if err := VisitCounters(encoded, func(v CounterValue) { list = append(list, v) }); err != nil {
		return nil, err
	}
	return list, nil
}

// VisitCounters decodes a row; nil is an empty one. Counters of a damaged row may have been visited.
func VisitCounters(encoded []byte, visit func(CounterValue)) error {
	if encoded == nil {
		return nil
	}
	if len(encoded) == 0 || encoded[0] != CountersVersion {
		return errors.New("counters of an unknown encoding")
	}
	d, names := Parts{Rest: encoded[1:]}, string(encoded) // names are parts of it
	for len(d.Rest) > 0 && !d.Bad {
		name := d.text(names, d.Uvarint())
		if v := (CounterValue{pay.Counter(name), d.amount()}); !d.Bad {
			visit(v)
		}
	}
	if d.Bad {
		return errors.New("counters that are damaged")
	}
	return nil
}
