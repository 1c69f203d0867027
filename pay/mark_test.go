package pay_test

import (
	"slices"
	"testing"

	"github.com/purserpay/purser/money"
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
	n := pay.ShortNonce(w.payer, "a", 0)
	used := pay.UsedAuthorization{Rail: x402.OtherRails, Nonce: x402.Nonce(slices.Concat([]byte{7}, n[:10], make([]byte, 21)))}
	if !pay.Tagged(w.payer, used, "a") || pay.Tagged(w.payer, used, "b") {
		t.Errorf("%x is not the key's alone", used.Nonce)
	}
	if used.Nonce[0] = 8; pay.Tagged(w.payer, used, "a") {
		t.Error("a nonce without a mark has a tag")
	}
	if pay.ShortNonce(w.payer, "a", 0) == n {
		t.Error("two payments have one nonce")
	}
}

// The nonce of a withdrawal tells its order, whatever the wallet has paid for gas beside the amount.
func TestMarksTellTheWithdrawal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	five, wallet, to := money.New(5), pay.Wallet{ID: "wallet"}, x402.EVMAddress([20]byte{19: 9})
	for name, amount := range map[string]*money.Amount{"of an amount": &five, "of all": nil} {
		of := pay.WithdrawalIdentity(wallet.ID, to, amount)
		u := pay.UsedAuthorization{Nonce: pay.NewNonce(w.payer, string(of[:])), To: to, Value: money.New(7), Fee: money.New(2)}
		if got := pay.WithdrawnBy(w.payer, wallet, u); got != of {
			t.Errorf("%s: %x", name, got)
		}
		u.Fee = money.New(1)
		if got := pay.WithdrawnBy(w.payer, wallet, u); amount != nil && got != (pay.Hash{}) {
			t.Errorf("%s: another amount is %x", name, got)
		}
	}
}

// The mark of an idempotency key is read from what the chain tells of a payment.
func TestMarksTellTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Rails = []pay.Rail{brief{}} })
	mark := pay.OrderMark(w.payer, "a", "order 1")
	if mark == 0 || mark >= 1<<29 || mark == pay.OrderMark(w.payer, "b", "order 1") || mark == pay.OrderMark(w.payer, "a", "order 2") {
		t.Errorf("mark %d", mark)
	}
	if pay.OrderMark(w.payer, "a", "") != 0 {
		t.Error("no order has a mark")
	}
	for _, order := range []uint64{0, mark} {
		n := pay.ShortNonce(w.payer, "a", order)
		u := pay.UsedAuthorization{Rail: x402.OtherRails, Nonce: x402.Nonce(slices.Concat([]byte{7}, n[:10], make([]byte, 21))), ValidAfter: 5}
		if got := pay.OrderOf(w.payer, u); got != order || !pay.Tagged(w.payer, u, "a") {
			t.Errorf("%x is of order %d, not %d", n, got, order)
		}
	}
	for after, want := range map[uint64]uint64{0: 0, mark: mark, 1 << 29: 0, 1_800_000_000: 0} {
		if got := pay.OrderOf(w.payer, pay.UsedAuthorization{ValidAfter: after}); got != want {
			t.Errorf("valid after %d: order %d", after, got)
		}
	}
}
