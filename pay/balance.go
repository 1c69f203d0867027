package pay

import (
	"context"
	"errors"
	"time"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/x402"
)

// balanceTime is how long a payment waits for its wallet's balance at most. Without an
// answer the payment goes on: the balance only saves one that would fail.
const balanceTime = 3 * time.Second

// newBalanceBreaker is for an RPC that does not tell balances: payments stop waiting for it,
// but for one now and then.
func newBalanceBreaker() *breaker.Breaker {
	return breaker.New(breaker.Options{Failures: 3, Wait: 5 * time.Second, MaxWait: time.Minute})
}

// balanceSoon is balance for somebody who waits, unless the RPC has failed too often by a breaker: payments have one of
// their own, so that those who only look at wallets cannot have them go unchecked.
func (p *Payer) balanceSoon(ctx context.Context, c choice, failing *breaker.Breaker) (x402.Amount, error) {
	trying, err := failing.Allow(p.now())
	if err != nil {
		return x402.Amount{}, err
	}
	soon, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	have, err := p.balance(soon, c)
	switch {
	case err == nil, errors.Is(err, errUnwatched):
		failing.Succeeded()
	case ctx.Err() == nil: // and nobody who has left
		failing.Failed(p.now())
	case trying: // the next one finds out how it is
		failing.Unused(p.now())
	}
	return have, err
}
