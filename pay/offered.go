package pay

import (
	"errors"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// ErrBehind: an offer could be paid, and another one is preferred.
var ErrBehind = errors.New("an offer before it in the order of choice is paid")

// Offered is one of the offers of a challenge, as the choice has seen it.
type Offered struct {
	Means

	Network string // our name, or the seller's if we have none
	Asset   x402.Address
	Symbol  string // of the asset; "": it is none that purser knows
	PayTo   x402.Address
	Amount  money.Amount // in the smallest unit
	// Expires is the end of the offer itself; zero: it has none.
	Expires time.Time
	// Refusal says why it is not paid: [ErrBehind], or an error of [Payer.Open]. nil: it would be.
	Refusal error
}

// offered tells of a requirement that was considered.
func (p *Payer) offered(c choice, err error) Offered {
	req := c.requirement
	o := Offered{
		Means: meansOf(req), Network: c.network.Name, Asset: req.Asset, Symbol: c.asset.Symbol, PayTo: req.PayTo, Amount: req.Amount, Expires: req.Expires,
		Refusal: err,
	}
	if o.Network == "" {
		if n, known := p.known(req.Network); known {
			o.Network = n.Name
		} else {
			o.Network = x402.NetworkLabel(req.Network)
		}
	}
	return o
}
