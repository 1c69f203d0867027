package x402_test

import (
	"math/big"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
)

// drawAmount draws from the whole range, small amounts more often than not.
func drawAmount(t *rapid.T, label string) money.Amount {
	b := rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label)
	a, ok := money.FromBig(new(big.Int).SetBytes(b))
	if !ok {
		t.Fatalf("32 bytes are no amount: %x", b)
	}
	return a
}

// must returns a value that the test knows to be good.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
