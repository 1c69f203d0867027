package pay

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// choice holds the requirement that will be paid, and the wallet that pays it.
type choice struct {
	keyID       string // whose call it is; "": an operator's
	requirement x402.Requirement
	network     x402.Network
	asset       x402.Asset
	wallet      Wallet
	validity    time.Duration
	id          string        // of the payment, if one is made
	offer       x402.Offer    // what its payload echoes, with the id where the seller wants that
	giveBack    func()        // of the facilitator's turn; nil: none was taken
	allowance   *knownBalance // of Permit2; nil: it is not known, or not needed
	// first holds the terms of the first requirement that could be paid as far as the chain has no word. They are the
	// same for a repeat on REST, which the terms tell from another purchase.
	first *Terms
	// others: requirements behind this one may be paid where the wallet has too little for it.
	others bool
	offers []Offered // of a quote
}

// chosen reports whether there is a requirement that could be paid if the policy allowed it.
func (c choice) chosen() bool { return c.wallet.ID != "" }

// unused gives back what the choice holds of the facilitator.
func (c choice) unused() {
	if c.giveBack != nil {
		c.giveBack()
	}
}

// reading holds the parts of a challenge, and the wallets of its key, that are the same for all of its
// requirements. They are read once: sellers and clients choose the number of requirements.
type reading struct {
	id      string // of the payment, if one is made
	naming  x402.Identification
	signed  *x402.SignedOffers
	wallets []Wallet // of the key; nil: not read yet
	first   *Terms   // see choice
}

// read reads a challenge. The id has the time of the clock, so that a list of some days is a seek.
func (p *Payer) read(c x402.Challenge) (*reading, error) {
	id, err := p.paymentIDs.at(p.now())
	if err != nil {
		return nil, fmt.Errorf("naming a payment: %w", err)
	}
	return &reading{id: id, naming: c.Identify(id), signed: c.SignedOffers()}, nil
}

// HeaderError: the challenge has no entry that could be read as a requirement.
type HeaderError struct{ Cause error }

func (e *HeaderError) Error() string { return "no usable payment requirement: " + e.Cause.Error() }
func (e *HeaderError) Unwrap() error { return e.Cause }

// choose takes the first requirement that can be paid (docs/design/payments.md) from a wallet that has the money, as far as
// that is known. [Options.Ways] orders them. When there is none, the error is that of the entry that came furthest. A
// policy refusal comes with its choice, because the monthly quota is answered before it (§5).
func (p *Payer) choose(ctx context.Context, r Request, pol policy.Policy) (choice, error) {
	var (
		best     choice
		bestErr  error = &HeaderError{Cause: errors.New("accepts is empty")}
		bestRank       = -1
		offers   []Offered
	)
	if len(r.Challenge.Accepts) == 0 && r.Challenge.OffersSignIn() {
		bestErr = &x402.UnsupportedError{Kind: "extension", Value: "sign-in-with-x", Detail: "the seller takes no payments here"}
	}
	read, err := p.read(r.Challenge)
	if err != nil {
		return choice{}, err
	}
	at := pol.Site(r.URL)
	order := p.inOrder(r.Challenge.Accepts)
	for n, i := range order {
		c, rank, err := p.consider(ctx, r, pol, at, read, i)
		if rank == rankFault {
			return choice{}, err
		}
		switch {
		case err != nil:
		case bestRank == rankPayable:
			err = ErrBehind
		default:
			c.others, rank = p.others(c, r.Challenge.Accepts, order[n+1:]), rankPayable
			if err = p.short(ctx, r, c); err != nil {
				c.others, rank = false, rankShort
			}
		}
		if r.quoting {
			offers = append(offers, p.offered(c, err))
		}
		if rank > bestRank {
			best, bestErr, bestRank = c, err, rank
		}
		if bestRank == rankPayable && !r.quoting {
			break
		}
	}
	switch {
	case bestRank >= rankShort: // the transaction says whether the wallet is short
		best.id, bestErr = read.id, nil
	case bestRank < rankPolicy:
		best = choice{}
	}
	best.first, best.offers = read.first, offers
	return best, bestErr
}

// others reports whether any of the requirements that come behind a choice could be paid with what is too little for it:
// from another balance, or because it costs less.
func (p *Payer) others(c choice, accepts []x402.Requirement, behind []int) bool {
	for _, i := range behind {
		n, ours := p.network(accepts[i].Network)
		if ours && (n.Name != c.network.Name || accepts[i].Asset != c.asset.Address || accepts[i].Amount.Cmp(c.requirement.Amount) < 0) {
			return true
		}
	}
	return false
}

// maxOffer bounds the bytes that a payment keeps of its challenge. Sellers and clients choose how
// many there are. Long descriptions and optional extensions are left out above it.
const maxOffer = 8 << 10

// maxAmount bounds an amount: no pinned token has more, and sums of it stay below 2^256.
var maxAmount, _ = money.FromBig(new(big.Int).Lsh(big.NewInt(1), 128))

// MaxAmount returns the most that an amount can be.
func MaxAmount() money.Amount { return maxAmount }

func validity(asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = defaultValidity
	}
	return min(asked, MaxValidity)
}

// walletFor finds the first wallet on a network that the key may use: *NoWalletError. Wallets of the
// provider in use come first, because no other one can sign.
func (p *Payer) walletFor(ctx context.Context, k Key, read *reading, network string) (Wallet, error) {
	if read.wallets == nil {
		ws, err := p.store.Wallets(ctx, k.ID)
		if err != nil {
			return Wallet{}, err
		}
		read.wallets = append([]Wallet{}, ws...)
	}
	var first *Wallet
	for i, w := range read.wallets {
		switch {
		case w.Network != network:
		case w.Provider() == p.opts.Wallets.Name():
			return w, nil
		case first == nil:
			first = &read.wallets[i]
		}
	}
	if first == nil {
		return Wallet{}, &NoWalletError{Network: network}
	}
	return *first, nil
}
