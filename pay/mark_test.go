package pay_test

import (
	"slices"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// brief is a rail that keeps ten bytes of a nonce, behind a byte of its own.
type brief struct{ pay.Rail }

func (brief) Number() x402.Rail { return x402.OtherRails }

func (brief) Network() x402.Network {
	n, _ := x402.NetworkByWire("tempo")
	return n
}

func (brief) Mark(n x402.Nonce) []byte {
	if n[0] != 7 {
		return nil
	}
	return n[1:11]
}

// The mark of a payment tells the key that has made it.
func TestMarksTellTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Rails = []pay.Rail{brief{}} })
	n := pay.ShortNonce(w.payer, "a")
	used := pay.UsedAuthorization{Rail: x402.OtherRails, Nonce: x402.Nonce(slices.Concat([]byte{7}, n[:10], make([]byte, 21)))}
	if !pay.Tagged(w.payer, used, "a") || pay.Tagged(w.payer, used, "b") {
		t.Errorf("%x is not the key's alone", used.Nonce)
	}
	if used.Nonce[0] = 8; pay.Tagged(w.payer, used, "a") {
		t.Error("a nonce without a mark has a tag")
	}
	if pay.ShortNonce(w.payer, "a") == n {
		t.Error("two payments have one nonce")
	}
}
