// Package rlp writes and reads RLP, the encoding of transactions of Ethereum and its like: strings of bytes, and lists.
// A byte below 0x80 is a string of its own. Any other item begins with one byte that has the kind and the length of
// what follows. It knows no transactions.
package rlp

import (
	"bytes"
	"errors"
	"slices"

	"github.com/purserpay/purser/money"
)

const (
	stringKind = 0x80
	listKind   = 0xc0
	short      = 55 // the greatest length in the first byte; that of a greater one stands behind it
)

// String encodes a string of bytes.
func String(b []byte) []byte {
	if len(b) == 1 && b[0] < stringKind {
		return b
	}
	return item(stringKind, b)
}

// Number encodes a number, the highest byte first. RLP writes no leading zeros.
func Number(b []byte) []byte { return String(bytes.TrimLeft(b, "\x00")) }

// Uint encodes a number.
func Uint(n uint64) []byte { return Amount(money.New(n)) }

// Amount encodes an amount as a number.
func Amount(a money.Amount) []byte { return Number(a.AppendBytes(nil)) }

// List encodes a list of encoded items.
func List(items ...[]byte) []byte { return item(listKind, slices.Concat(items...)) }

func item(kind byte, content []byte) []byte {
	if len(content) <= short {
		return append([]byte{kind + byte(len(content))}, content...)
	}
	length := money.New(uint64(len(content))).AppendBytes(nil)
	return append(append([]byte{kind + short + byte(len(length))}, length...), content...)
}

// ReadNumber fills dst with the number that begins b, and returns what follows it. The number must fit.
func ReadNumber(dst, b []byte) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	if b[0] < stringKind {
		dst[len(dst)-1] = b[0]
		return b[1:], true
	}
	size := int(b[0]) - stringKind
	if size > len(dst) || size >= len(b) {
		return nil, false
	}
	copy(dst[len(dst)-size:], b[1:])
	return b[1+size:], true
}

// Item is a string of bytes, or a list.
type Item struct {
	Bytes []byte // of a string
	Items []Item // of a list
	List  bool
}

var errMalformed = errors.New("not RLP in its only form")

// Decode reads one item, which must be all of b. It refuses what [String] and [List] would write in another way.
func Decode(b []byte) (Item, error) {
	i, rest, err := decode(b, 0)
	if err == nil && len(rest) > 0 {
		err = errMalformed
	}
	return i, err
}

// maxDepth bounds lists within lists: transactions have four.
const maxDepth = 8

func decode(b []byte, depth int) (i Item, rest []byte, err error) {
	content, rest, list, ok := split(b)
	if !ok || depth > maxDepth {
		return i, nil, errMalformed
	}
	if !list {
		return Item{Bytes: content}, rest, nil
	}
	i.List = true
	for len(content) > 0 {
		var inner Item
		if inner, content, err = decode(content, depth+1); err != nil {
			return i, nil, err
		}
		i.Items = append(i.Items, inner)
	}
	return i, rest, nil
}

// split takes the first item off b.
func split(b []byte) (content, rest []byte, list, ok bool) {
	if len(b) == 0 {
		return nil, nil, false, false
	}
	if b[0] < stringKind {
		return b[:1], b[1:], false, true
	}
	kind := byte(stringKind)
	if b[0] >= listKind {
		kind = listKind
	}
	size, head := int(b[0]-kind), 1
	if size > short {
		digits := size - short
		if digits > 4 || len(b) < 1+digits || b[1] == 0 {
			return nil, nil, false, false
		}
		size, head = 0, 1+digits
		for _, d := range b[1:head] {
			size = size<<8 | int(d)
		}
		if size <= short {
			return nil, nil, false, false
		}
	}
	if len(b)-head < size || kind == stringKind && size == 1 && b[head] < stringKind {
		return nil, nil, false, false
	}
	return b[head : head+size], b[head+size:], kind == listKind, true
}
