package pay_test

import (
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Of several refusals the books keep the last one's words, and silence takes none away.
func TestSellersWordsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.mustOpen(w.proxied("https://a.example/x", "100", ""))
	a.Answer402("first\x00")
	if got := a.Payment().SellerSaid; got != "first" {
		t.Errorf("the seller said %q", got)
	}
	a.Receipt(x402.Receipt{ErrorReason: "insufficient_funds", ErrorMessage: "the wallet holds\n0"})
	a.Answer402("")
	a.Finish(false)
	w.quiet()
	if got := w.payment(a.Payment().ID).SellerSaid; got != "insufficient_funds: the wallet holds 0" {
		t.Errorf("the books say %q", got)
	}
	r := x402.Receipt{ErrorReason: "posted"}
	if p, err := w.payer.PostReceipt(t.Context(), w.key, a.Payment().ID, r); err != nil || p.SellerSaid != "posted" {
		t.Errorf("%+v, %v", p, err)
	}
	r = x402.Receipt{Success: true, ErrorReason: "none", Transaction: w.sellerMoves(a.Payload()), Network: "eip155:8453"}
	if p, err := w.payer.PostReceipt(t.Context(), w.key, a.Payment().ID, r); err != nil || p.State != pay.Settled || p.SellerSaid != "posted" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestEmptyWallet(t *testing.T) {
	t.Parallel()
	from := x402.EVMAddress([20]byte{0x62})
	for _, c := range []struct {
		said  string
		state pay.State
		empty bool
	}{
		{"insufficient_funds", pay.Open, true},
		{"invalid_exact_evm_insufficient_balance: the wallet holds 0", pay.Open, true},
		{"Insufficient funds", pay.Void, true},
		{"permit2_insufficient_balance", pay.Open, true},
		{"insufficient_funds", pay.Settled, false},
		{"insufficient_allowance", pay.Open, false},
		{"transfer failed: insufficient funds for gas * price + value", pay.Open, false},
		{"", pay.Open, false},
	} {
		p := pay.Payment{State: c.state, SellerSaid: c.said, Authorization: x402.Authorization{From: from}}
		want := ""
		if c.empty {
			want = "fund the wallet " + from.String() + ": it seems to be empty"
		}
		if got := p.EmptyWallet(); got != want {
			t.Errorf("%q: %q", c.said, got)
		}
	}
}
