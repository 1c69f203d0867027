package pay

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/purserpay/purser/x402"
)

// choice holds the requirement that will be paid, and the wallet that pays it.
type choice struct {
	index       int
	requirement x402.Requirement
	network     x402.Network
	asset       x402.Asset
	wallet      Wallet
	validity    time.Duration
	giveBack    func() // of the facilitator's turn; nil: none was taken
}

// chosen reports whether there is a requirement that could be paid if the policy allowed it.
func (c choice) chosen() bool { return c.wallet.ID != "" }

// unused gives back what the choice holds of the facilitator.
func (c choice) unused() {
	if c.giveBack != nil {
		c.giveBack()
	}
}

// HeaderError: the challenge has no entry that could be read as a requirement.
type HeaderError struct{ Cause error }

func (e *HeaderError) Error() string { return "no usable payment requirement: " + e.Cause.Error() }
func (e *HeaderError) Unwrap() error { return e.Cause }

// choose takes the first requirement that can be paid (docs/design.md §3.1). When there is none,
// the error is that of the entry that came furthest. A policy refusal comes with its choice,
// because the monthly quota is answered before it (§5).
func (p *Payer) choose(ctx context.Context, r Request, pol Policy) (choice, error) {
	var (
		best     choice
		bestErr  error = &HeaderError{Cause: errors.New("accepts is empty")}
		bestRank       = -1
	)
	at := pol.site(r.URL)
	for i := range r.Challenge.Accepts {
		c, rank, err := p.consider(ctx, r, pol, at, i)
		if err == nil {
			c.index = i
			return c, nil
		}
		if rank == rankFault {
			return choice{}, err
		}
		if rank > bestRank {
			c.index = i
			best, bestErr, bestRank = c, err, rank
		}
	}
	if bestRank < rankPolicy {
		best = choice{}
	}
	return best, bestErr
}

// maxOffer bounds the bytes that a payment keeps of its challenge. Sellers and clients choose how
// many there are.
const maxOffer = 8 << 10

// maxAmount bounds an amount: no pinned token has more, and sums of it stay below 2^256.
var maxAmount, _ = x402.AmountFromBig(new(big.Int).Lsh(big.NewInt(1), 128))

// How far a requirement came before it was turned down; rankFault is our own failure.
const (
	rankHeader = iota
	rankWallet
	rankTerms
	rankPolicy
	rankFault
)

func (p *Payer) consider(ctx context.Context, r Request, pol Policy, at site, index int) (choice, int, error) {
	req := r.Challenge.Accepts[index]
	c := choice{requirement: req}
	if req.Network == "" {
		return c, rankHeader, &HeaderError{Cause: &x402.FieldError{Field: "network", Reason: "missing"}}
	}
	network, ok := p.network(req.Network)
	if !ok {
		return c, rankWallet, &NoWalletError{Network: x402.NetworkLabel(req.Network)}
	}
	wallet, err := p.walletFor(ctx, r.Key, network.Name)
	var none *NoWalletError
	if errors.As(err, &none) {
		return c, rankWallet, err
	} else if err != nil {
		return c, rankFault, err
	}
	_, asset, err := req.Supports()
	var unsupported *x402.UnsupportedError
	if errors.As(err, &unsupported) {
		return c, rankTerms, err
	} else if err != nil {
		return c, rankHeader, &HeaderError{Cause: err}
	}
	if req.Amount.Cmp(maxAmount) > 0 {
		return c, rankTerms, &x402.UnsupportedError{Kind: "asset", Value: req.Asset.String(), Detail: "no token has that much"}
	}
	c.network, c.wallet, c.asset = network, wallet, asset
	if req.Amount.IsZero() {
		// Any client can make such payments: no wallet is too empty for them.
		return c, rankPolicy, refusedBy("amount", "an amount of 0 is no payment")
	}
	if size := r.Challenge.Offer(index).Size(); size > maxOffer {
		return c, rankPolicy, refusedBy("challenge-too-large", "%d bytes of the challenge would have to be kept, and %d is the most", size, maxOffer)
	}
	c.validity = validity(req.MaxTimeout)
	if c.validity < minValidity {
		return c, rankPolicy, &PolicyError{Rule: "validity", Detail: fmt.Sprintf("the requirement is valid for %s, less than %s", c.validity, minValidity)}
	}
	if err := pol.allows(r.Door, at, r.Task, req.PayTo, req.Amount); err != nil {
		return c, rankPolicy, err
	}
	return c, rankPolicy, nil
}

func validity(asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = defaultValidity
	}
	return min(asked, maxValidity)
}

// walletFor finds the oldest live wallet of the key on a network: *NoWalletError.
func (p *Payer) walletFor(ctx context.Context, k Key, network string) (Wallet, error) {
	ws, err := p.store.Wallets(ctx, k.ID)
	if err != nil {
		return Wallet{}, err
	}
	for _, w := range ws {
		if w.Network == network {
			return w, nil
		}
	}
	return Wallet{}, &NoWalletError{Network: network}
}
