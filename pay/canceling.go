package pay

import (
	"time"

	"github.com/purserpay/purser/money"
)

// Canceling says that an operator cancels a payment's authorization on the chain. It is journaled
// before the cancellation is signed, and its terms before the transaction is. From then on purser does
// not send the payload again, and does not take "used already" for a settlement: a canceled
// authorization is refused with the same words.
type Canceling struct {
	At time.Time `json:"At"` // of the order
	// HandedOut: the operator has got the signed cancellation, and any account may send it.
	HandedOut bool `json:"HandedOut,omitempty"`
	// Terms belong to the last transaction; without gas, none was made.
	Terms TransactionTerms `json:"Terms,omitzero"`
}

// Approving holds the last order by which an operator lets Permit2 move tokens of a wallet. It is journaled
// before the transaction is signed.
type Approving struct {
	At     time.Time    `json:"At"`
	Amount money.Amount `json:"Amount"` // that Permit2 may move in all
	// Terms belong to the transaction of the order.
	Terms TransactionTerms `json:"Terms"`
}

// TransactionTerms hold the part of a transaction beside the call. With it they are all of it: the
// same terms never make a second one.
type TransactionTerms struct {
	Nonce uint64 `json:"Nonce,omitempty"` // the number of the transaction among those of its account
	Gas   uint64 `json:"Gas,omitempty"`   // at most; 0: there is no transaction
	// MaxFee bounds what is paid for a unit of gas, and Tip what its block's producer gets of that; both
	// in wei.
	MaxFee money.Amount `json:"MaxFee,omitzero"`
	Tip    money.Amount `json:"Tip,omitzero"`
}

// UncancelableError: the authorization of a payment cannot be canceled, or need not be.
type UncancelableError struct{ Payment, Reason string }

func (e *UncancelableError) Error() string {
	return "payment " + e.Payment + " cannot be canceled: " + e.Reason
}

// Cancelable returns nil if the payment's authorization may still move money, else *UncancelableError.
func (p *Payment) Cancelable(now time.Time) error {
	no := func(reason string) error { return &UncancelableError{Payment: p.ID, Reason: reason} }
	switch {
	case p.State == Settled:
		return no("it is settled, so its money has moved")
	case !now.Before(p.ValidBefore()):
		return no("it has expired, so nothing can move its money any more")
	case p.State == Void && !p.Doubted:
		return no("it is void, so nothing can move its money")
	case p.Authorization.Rail.Other():
		return no("its rail knows no cancellation")
	}
	return nil
}

// Canceled reports whether the payment is void for good because an operator has canceled it.
func (p *Payment) Canceled() bool {
	return p.Canceling != nil && p.State == Void && !p.Doubted && p.Reason == reasonCanceled
}
