package adminapi

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// NewCancellation is the body of POST /purser/wallets/{id}/cancel. Wallets are named by id or address.
type NewCancellation struct {
	Payment string `json:"payment,omitempty"` // its id; without one: all that may still move money
	// SignOnly: the signed cancellations are answered, and not sent.
	SignOnly bool `json:"sign_only,omitempty"`
	// MaxFee bounds the price of a unit of gas, in wei.
	MaxFee string `json:"max_fee,omitempty"`
	// MaxCost bounds the cost of each transaction, in wei. Without both, the network's own bound holds.
	MaxCost string `json:"max_cost,omitempty"`
}

// CancelPlan answers POST /purser/wallets/{id}/cancel/plan: what the order would do.
type CancelPlan struct {
	WalletID string    `json:"wallet_id"`
	Network  string    `json:"network"`
	From     string    `json:"from"`
	Payments []Payment `json:"payments"` // whose authorizations would be canceled, oldest first
	Amount   string    `json:"amount"`   // of them together, in the smallest unit
	Currency string    `json:"currency"`
	Expired  int       `json:"expired"` // payments that need no cancellation: nothing can move them
	Signs    bool      `json:"signs"`   // the signed cancellations would be answered
	// Cost is that of the transactions; nil if none would be sent.
	Cost *TransactionCost `json:"cost,omitempty"`
}

// TransactionCost says what transactions of a wallet would cost, in wei.
type TransactionCost struct {
	Coin   string `json:"coin"`    // the symbol of what is paid with
	MaxFee string `json:"max_fee"` // the highest price of a unit of gas
	Each   string `json:"each"`    // one transaction, at most
	Most   string `json:"most"`    // all, at most
	Now    string `json:"now"`     // all, at the present price
	Have   string `json:"have"`    // what the wallet has
}

// Results of a cancellation.
const (
	CancelFinal     = "canceled"  // for good, says the chain
	CancelIncluded  = "included"  // in a block, which the network may still take back
	CancelSent      = "sent"      // in no block yet
	CancelSigned    = "signed"    // handed out
	CancelMoved     = "moved"     // the transfer came first
	CancelUndecided = "undecided" // the token refuses: it is used or canceled, and the chain has not said which
	CancelFailed    = "failed"    // Error says why
)

// Cancellation says what became of an order for one payment.
type Cancellation struct {
	Payment
	Result     string `json:"result"`
	Earlier    bool   `json:"earlier"` // an earlier order had begun
	CanceledBy string `json:"cancel_transaction,omitempty"`
	Cost       string `json:"cost,omitempty"`    // of that transaction, in wei
	Refused    string `json:"refused,omitempty"` // the token's words
	Error      string `json:"error,omitempty"`
	Call       *Call  `json:"call,omitempty"` // for any account to send
}

// Cancellations answers POST /purser/wallets/{id}/cancel.
type Cancellations struct {
	WalletID      string         `json:"wallet_id"`
	From          string         `json:"from"`
	Network       string         `json:"network"`
	Coin          string         `json:"coin"`
	Cancellations []Cancellation `json:"cancellations"` // oldest payment first
}

// cancellation reads an order.
func (p *Purser) cancellation(r *http.Request, want NewCancellation) (o treasury.Cancel, err error) {
	if o.Wallet, err = p.findWallet(r.Context(), r.PathValue("id")); err != nil {
		return o, err
	}
	if o.Wallet.Address == nil {
		return o, pay.ErrNoAddress
	}
	if want.Payment != "" {
		row, err := p.findPayment(r.Context(), want.Payment)
		if err != nil {
			return o, err
		}
		o.PaymentID = row.ID
	}
	o.Sign = want.SignOnly
	o.MaxFee, o.MaxCost, err = maxFees(want.MaxFee, want.MaxCost)
	return o, err
}

// maxFees reads the bounds on the price of gas and on the cost of a transaction; nil: none.
func maxFees(price, cost string) (fee, most *money.Amount, err error) {
	read := func(field, text string) (*money.Amount, error) {
		if text == "" {
			return nil, nil
		}
		amount, err := money.Parse(text)
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "%s: %w", field, err)
		}
		return &amount, nil
	}
	if fee, err = read("max_fee", price); err == nil {
		most, err = read("max_cost", cost)
	}
	return fee, most, err
}

func (p *Purser) planCancellation(r *http.Request, want NewCancellation) (any, error) {
	o, err := p.cancellation(r, want)
	if err != nil {
		return nil, err
	}
	plan, err := treasury.Of(p.Payer).PlanCancel(r.Context(), o)
	if err != nil {
		return nil, err
	}
	shown := CancelPlan{
		WalletID: o.Wallet.ID, Network: o.Wallet.Network, From: o.Wallet.Address.String(), Payments: []Payment{},
		Expired: plan.Expired, Signs: o.Sign, Cost: shownCost(plan.Cost),
	}
	var sum money.Amount
	for _, row := range plan.Payments {
		shown.Payments, shown.Currency = append(shown.Payments, shownPayment(row)), row.Currency
		sum = sum.AddSaturated(row.Terms.Amount)
	}
	shown.Amount = sum.String()
	return shown, nil
}

func shownCost(c *treasury.TransactionCost) *TransactionCost {
	if c == nil {
		return nil
	}
	return &TransactionCost{
		Coin: c.Network.Coin, MaxFee: c.MaxFee.String(), Each: c.Each.String(), Most: c.Most.String(), Now: c.Now.String(), Have: c.Have.String(),
	}
}

func (p *Purser) cancel(r *http.Request, want NewCancellation) (any, error) {
	o, err := p.cancellation(r, want)
	if err != nil {
		return nil, err
	}
	// An operator who has said yes gets it done, although the command ends.
	list, err := treasury.Of(p.Payer).Cancel(context.WithoutCancel(r.Context()), o)
	if err != nil {
		return nil, err
	}
	n, known := x402.NetworkByWire(o.Wallet.Network)
	if !known {
		return nil, fmt.Errorf("the network %s of wallet %s is not known", o.Wallet.Network, o.Wallet.ID)
	}
	shown := Cancellations{
		WalletID: o.Wallet.ID, From: o.Wallet.Address.String(), Network: n.Name, Coin: n.Coin, Cancellations: []Cancellation{},
	}
	for _, c := range list {
		shown.Cancellations = append(shown.Cancellations, shownCancellation(c, n))
	}
	return shown, nil
}

func shownCancellation(c treasury.Cancellation, n x402.Network) Cancellation {
	shown := Cancellation{
		Payment: shownPayment(c.Payment), Result: resultOf(c), Earlier: c.Earlier, CanceledBy: c.Transaction, Refused: c.Refused,
	}
	if c.Mined != nil {
		shown.Cost = c.Mined.Cost.String()
	}
	if c.Err != nil {
		shown.Error = c.Err.Error()
	}
	if c.Signature != nil {
		message := c.Message()
		shown.Call = &Call{
			ChainID: n.ChainID, Contract: c.Payment.Terms.Asset.String(), Function: "cancelAuthorization",
			Data: "0x" + hex.EncodeToString(message.Call(*c.Signature)), Cancellation: &message, Signature: c.Signature.String(),
			Expires: c.Payment.ValidBefore(),
		}
	}
	return shown
}

func resultOf(c treasury.Cancellation) string {
	switch {
	case c.Err != nil:
		return CancelFailed
	case c.Signature != nil:
		return CancelSigned
	case c.Payment.State == pay.Settled:
		return CancelMoved
	case c.Payment.State == pay.Void && !c.Payment.Doubted:
		return CancelFinal
	case c.Mined != nil && c.Mined.OK:
		return CancelIncluded
	case c.Transaction != "" && c.Mined == nil:
		return CancelSent
	}
	return CancelUndecided
}
