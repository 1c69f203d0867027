package codec

import (
	"encoding/binary"
	"math/big"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Parts reads the parts of a row, or of a record of the journal. Bad reports that a part was missing.
type Parts struct {
	Rest []byte
	Bad  bool
}

// Uvarint reads a number.
func (d *Parts) Uvarint() uint64 {
	n, size := binary.Uvarint(d.Rest)
	if size <= 0 {
		d.Bad, d.Rest = true, nil
		return 0
	}
	d.Rest = d.Rest[size:]
	return n
}

// Bytes reads n bytes, which belong to the row.
func (d *Parts) Bytes(n uint64) []byte {
	if n > uint64(len(d.Rest)) {
		d.Bad, d.Rest = true, nil
		return nil
	}
	b := d.Rest[:n]
	d.Rest = d.Rest[n:]
	return b
}

// text reads n bytes as a part of row, which has all bytes of the row up to its end.
func (d *Parts) text(row string, n uint64) string {
	from := len(row) - len(d.Rest)
	return row[from : from+len(d.Bytes(n))]
}

func (d *Parts) amount() money.Amount {
	b := d.Bytes(1)
	if d.Bad || b[0] > 32 {
		d.Bad = true
		return money.Amount{}
	}
	b = d.Bytes(uint64(b[0]))
	if len(b) <= 8 {
		var n uint64
		for _, digit := range b {
			n = n<<8 | uint64(digit)
		}
		return money.New(n)
	}
	a, _ := money.FromBig(new(big.Int).SetBytes(b))
	return a
}

func (d *Parts) sum() pay.Sum {
	n := d.Uvarint()
	return pay.Sum{Count: int(n & (1<<62 - 1)), Amount: d.amount(), Corrected: d.amount()}
}
