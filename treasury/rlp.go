package treasury

import (
	"bytes"

	"github.com/purserpay/purser/money"
)

// RLP is the encoding of Ethereum's transactions: strings of bytes and lists. A byte below it is a string of its
// own. Any other item begins with one byte that has the kind and the length of what follows.
const (
	rlpStrings = 0x80
	rlpLists   = 0xc0
	rlpShort   = 55 // the greatest length in that byte; that of a greater one stands behind it
)

// rlpString encodes a string of bytes.
func rlpString(b []byte) []byte {
	if len(b) == 1 && b[0] < rlpStrings {
		return b
	}
	return rlp(rlpStrings, b)
}

// rlpNumber encodes a number, the highest byte first. RLP writes no leading zeros.
func rlpNumber(b []byte) []byte { return rlpString(bytes.TrimLeft(b, "\x00")) }

// rlpList encodes a list of encoded items, one after the other.
func rlpList(items []byte) []byte { return rlp(rlpLists, items) }

func rlp(kind byte, content []byte) []byte {
	if len(content) <= rlpShort {
		return append([]byte{kind + byte(len(content))}, content...)
	}
	length := money.New(uint64(len(content))).AppendBytes(nil)
	return append(append([]byte{kind + rlpShort + byte(len(length))}, length...), content...)
}

// readNumber fills dst with the number that begins b, and returns what follows it. The number must fit.
func readNumber(dst, b []byte) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	if b[0] < rlpStrings {
		dst[len(dst)-1] = b[0]
		return b[1:], true
	}
	size := int(b[0]) - rlpStrings
	if size > len(dst) || size >= len(b) {
		return nil, false
	}
	copy(dst[len(dst)-size:], b[1:])
	return b[1+size:], true
}
