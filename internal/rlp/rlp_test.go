package rlp_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/internal/rlp"
)

// The examples of the specification.
func TestWritesAsSpecified(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		"83646f67":                        rlp.String([]byte("dog")),
		"c88363617483646f67":              rlp.List(rlp.String([]byte("cat")), rlp.String([]byte("dog"))),
		"80":                              rlp.Uint(0),
		"0f":                              rlp.Uint(15),
		"820400":                          rlp.Uint(1024),
		"c7c0c1c0c3c0c1c0":                rlp.List(rlp.List(), rlp.List(rlp.List()), rlp.List(rlp.List(), rlp.List(rlp.List()))),
		"b838" + strings.Repeat("61", 56): rlp.String(bytes.Repeat([]byte("a"), 56)),
	} {
		if hex.EncodeToString(got) != want {
			t.Errorf("%x instead of %s", got, want)
		}
		if _, err := rlp.Decode(got); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRefusesOtherForms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "8100", "b800", "b80161", "c1", "83646f", "83646f6767", "b90001ff", "f800", "bf0100000000000000", strings.Repeat("c1", 20) + "c0"} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rlp.Decode(b); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

func write(i rlp.Item) []byte {
	if !i.List {
		return rlp.String(i.Bytes)
	}
	var items [][]byte
	for _, inner := range i.Items {
		items = append(items, write(inner))
	}
	return rlp.List(items...)
}

// Any bytes are refused, or are the only form of what was read.
func TestReadsOneForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0x80, 0xc0, 0xc1, 0xc2, 0xb8, 0xf8})), 1, 80).Draw(t, "bytes")
		if i, err := rlp.Decode(b); err == nil && !bytes.Equal(write(i), b) {
			t.Fatalf("%x is read as %+v", b, i)
		}
	})
}
