package proxy

import (
	"fmt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// dryRunError ends a request that is not to be paid for: what would be paid, or what would refuse it.
type dryRunError struct {
	quote   pay.Quote
	refusal error // nil: it would be paid
}

func (e *dryRunError) Error() string {
	if e.refusal != nil {
		return "dry run: " + e.refusal.Error()
	}
	return "dry run"
}

func (e *dryRunError) Unwrap() error { return e.refusal }

// quoteView tells a client what would be paid.
type quoteView struct {
	Amount  string `json:"amount"` // in the asset's smallest unit
	Price   string `json:"price"`
	Network string `json:"network"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Wallet  string `json:"wallet,omitempty"` // the address that pays
}

// viewOf returns nil if nothing could be paid.
func viewOf(q pay.Quote) *quoteView {
	if q.Terms.Network == "" {
		return nil
	}
	v := &quoteView{
		Amount: q.Terms.Amount.String(), Price: money.Text(q.Terms.Amount), Network: q.Terms.Network,
		Asset: q.Terms.Asset.String(), PayTo: q.Terms.PayTo.String(),
	}
	if q.Wallet.Address != nil {
		v.Wallet = q.Wallet.Address.String()
	}
	return v
}

func (v *quoteView) words() string {
	return fmt.Sprintf("dry run: %s on %s to %s would be paid from %s", v.Price, v.Network, v.PayTo, v.Wallet)
}
