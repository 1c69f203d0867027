package x402_test

import (
	"slices"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// The end of the wait for an authorization is found in its call, also behind another call and behind words like its own.
func TestValidAfterIn(t *testing.T) {
	t.Parallel()
	a := x402.Authorization{
		From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{2}), Value: money.New(5), ValidAfter: 1<<29 - 1, ValidBefore: 2_000_000_000,
		Nonce: x402.Nonce{9, 8},
	}
	of := func(change func(*x402.Authorization)) []byte {
		b := a
		change(&b)
		return b.Call(x402.Signature{})
	}
	same := func(*x402.Authorization) {}
	other := of(func(b *x402.Authorization) { b.Nonce, b.ValidAfter = x402.Nonce{1}, 7 })
	for name, data := range map[string][]byte{
		"alone": of(same), "within another call": slices.Concat([]byte("aggregate"), other, of(same), other), "cut behind its nonce": of(same)[:4+6*32],
	} {
		if got, ok := x402.ValidAfterIn(data, a); !ok || got != a.ValidAfter {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
	for name, data := range map[string][]byte{
		"empty": nil, "another nonce": other, "cut": of(same)[:4+6*32-1],
		"another payee":  of(func(b *x402.Authorization) { b.To = a.From }),
		"another amount": of(func(b *x402.Authorization) { b.Value = money.New(6) }),
	} {
		if got, ok := x402.ValidAfterIn(data, a); ok {
			t.Errorf("%s: %d", name, got)
		}
	}
}
