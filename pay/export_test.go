package pay

import (
	"context"

	"github.com/purserpay/purser/policy"
)

// GripCount counts the payments that a payer has a grip on.
var GripCount = (*Payer).gripCount

// RetainOnce takes one step of removing old payments.
var RetainOnce = (*Payer).retainOnce

// PaceOf returns the bound on the payments that a key begins in a minute beside its policy's; 0: none.
func PaceOf(p *Payer, k Key, door policy.Door) uint64 {
	j, err := p.judgement(context.Background(), k, p.PolicyOf(k, door), nil, p.now())
	if err != nil {
		panic(err)
	}
	return uint64(j.PerMinute)
}

// WithdrawalIdentity recognizes equal orders, NewNonce marks what one has moved, and WithdrawnBy reads the mark.
var (
	WithdrawalIdentity = withdrawalIdentity
	NewNonce           = (*Payer).newNonce
	WithdrawnBy        = (*Payer).withdrawn
)

// ShortNonce makes a nonce for a rail with room for a mark only, and Tagged looks for a key's tag in an authorization.
// OrderMark makes the mark of an idempotency key, and OrderOf reads it.
var (
	ShortNonce = (*Payer).shortNonce
	OrderMark  = (*Payer).orderMark
	OrderOf    = (*Payer).orderOf
	Tagged     = (*Payer).tagged
)
