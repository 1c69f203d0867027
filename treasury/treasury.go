// Package treasury carries out an operator's orders for wallets: it withdraws, cancels authorizations, lets
// Permit2 move tokens, and reads what the chain tells of the past. Its withdrawals are payments of package pay.
package treasury

import (
	"context"
	"errors"

	"github.com/purserpay/purser/pay"
)

// Treasury carries out orders with what a Payer has. It keeps nothing itself.
type Treasury struct {
	payer *pay.Payer
	pay.Options
}

// Of makes the Treasury of a Payer.
func Of(p *pay.Payer) Treasury { return Treasury{p, p.Options()} }

// closing reports whether the Payer was closed.
func (t Treasury) closing() bool {
	leave, err := t.payer.Enter()
	if err != nil {
		return true
	}
	leave()
	return false
}

// detached returns a context that outlives its caller, for writes that must happen.
func detached(caller context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(caller), pay.LeaseTime)
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}
