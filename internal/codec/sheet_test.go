package codec_test

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// amounts draws an amount of any size.
func amounts() *rapid.Generator[money.Amount] {
	return rapid.Custom(func(t *rapid.T) money.Amount {
		a, _ := money.FromBig(new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "bytes")))
		return a
	})
}

func sums() *rapid.Generator[pay.Sum] {
	return rapid.Custom(func(t *rapid.T) pay.Sum {
		return pay.Sum{Count: rapid.IntRange(0, 1<<40).Draw(t, "count"), Amount: amounts().Draw(t, "amount"), Corrected: amounts().Draw(t, "corrected")}
	})
}

// A sheet is read as it was written. A sheet that is cut off ends in an error, or behind a whole entry.
func TestSheetRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counters := rapid.SliceOf(rapid.Custom(func(t *rapid.T) codec.CounterValue {
			return codec.CounterValue{Counter: pay.Counter(rapid.String().Draw(t, "name")), Amount: amounts().Draw(t, "amount")}
		})).Draw(t, "counters")
		drawn := rapid.SliceOf(rapid.Custom(func(t *rapid.T) codec.Drawn {
			return codec.Drawn{WalletID: rapid.String().Draw(t, "wallet"), WalletDay: pay.WalletDay{Spent: sums().Draw(t, "spent"), Withdrawn: sums().Draw(t, "withdrawn")}}
		})).Draw(t, "drawn")
		row := codec.EncodeCounters(len(counters), func(i int) codec.CounterValue { return counters[i] })
		readsBack(t, row, counters, codec.DecodeCounters)
		readsBack(t, codec.EncodeDrawn(drawn), drawn, codec.DecodeDrawn)
	})
}

func readsBack[T comparable](t *rapid.T, row []byte, list []T, decode func([]byte) ([]T, error)) {
	got, err := decode(row)
	if err != nil || !slices.Equal(got, list) {
		t.Fatalf("%+v was read as %+v, %v", list, got, err)
	}
	cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut")
	if got, err := decode(row[:cut]); err == nil && (len(got) >= len(list) || !slices.Equal(got, list[:len(got)])) {
		t.Fatalf("%d of %d bytes were read as %+v", cut, len(row), got)
	}
	row[0]++
	if got, err := decode(row); err == nil {
		t.Fatalf("an unknown version was read as %+v", got)
	}
}
