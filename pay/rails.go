package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// AllowanceError: a seller wants to be paid through Permit2, and the wallet has allowed it to move less
// than the payment takes. Purser never allows anything by itself.
type AllowanceError struct {
	Wallet     Wallet
	Have, Need money.Amount
	Command    string // that allows more
	Open       bool   // open payments take what is missing
}

func (e *AllowanceError) Error() string {
	less := ""
	if e.Open {
		less = ", less what is in open payments"
	}
	return fmt.Sprintf("permit2_allowance_required: wallet %s lets Permit2 move %s%s, and the payment takes %s; an operator can allow more: %s",
		e.Wallet.Address, money.Text(e.Have), less, money.Text(e.Need), e.Command)
}

// DefaultWays returns the ways to pay in the order of choice. Ways that need nothing of the wallet but its tokens
// come before ways that take a fee of it, or need an allowance.
func DefaultWays() []string {
	return []string{x402.RailEIP3009.String(), x402.WayMPP, x402.WayTempoSponsored, x402.WayTempo, x402.RailPermit2.String()}
}

// inOrder orders the requirements of a challenge by their ways. The seller's order counts among those of one way.
func (p *Payer) inOrder(accepts []x402.Requirement) []int {
	order := make([]int, len(accepts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.rank(accepts[a]) - p.rank(accepts[b]) })
	return order
}

// rank returns the place of a requirement's way. Ways that are not listed come last.
func (p *Payer) rank(r x402.Requirement) int {
	if at := slices.Index(p.opts.Ways, r.Named()); at >= 0 {
		return at
	}
	return len(p.opts.Ways)
}

// takes says why purser does not pay in the requirement's way, although package x402 could. Permit2
// tells of no transfer by an event, so only an RPC can say what became of a payment.
func (p *Payer) takes(req x402.Requirement, network string) error {
	switch rail := req.Rail(); {
	case p.rank(req) == len(p.opts.Ways) && (req.Way != "" || !rail.Other()):
		return &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: "the way " + req.Named() + " is not enabled (PURSER_RAILS)"}
	case req.Nonce != nil && !p.watches(network), rail.Other() && !p.watches(network) && !p.asksAgain(network):
		return &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: p.needsRPC(network)}
	case rail.Other() && SignsFor(p.opts.Wallets, network) != nil:
		return &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: SignsFor(p.opts.Wallets, network).Error()}
	case rail.Other(), req.Scheme == x402.SchemeCharge:
		return nil
	case !slices.Contains(p.opts.Schemes, req.Scheme):
		return &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: "it is not enabled"}
	case !rail.Permit2():
		return nil
	}
	if _, can := p.opts.Chain.(Allowances); !can || !p.watches(network) {
		return &x402.UnsupportedError{
			Kind: "scheme", Value: req.Scheme, Detail: "Permit2 needs an RPC of the network (" + p.opts.Names.of(SourceRPC, network) + ")",
		}
	}
	return nil
}

// needsRPC says why nothing is paid that only an RPC of a network can tell of.
func (p *Payer) needsRPC(network string) string {
	return "purser pays it with an RPC of " + network + " only (" + p.opts.Names.of(SourceRPC, network) + ")"
}

// allowed checks that Permit2 may move what a payment takes. The allowance is remembered like a balance,
// and read afresh before it is too little. Without an answer the payment goes on, as one does without its
// balance: the seller finds out, and the chain tells what became of it.
func (p *Payer) allowed(ctx context.Context, c *choice) error {
	chain, can := p.opts.Chain.(Allowances)
	if !c.requirement.Rail().Permit2() || c.wallet.Address == nil || !can {
		return nil
	}
	read := func(ctx context.Context) (knownBalance, error) { return p.allowance(ctx, chain, *c) }
	have, fresh, err := p.look(ctx, *c, c.allowanceKey(), p.slowRPC, asRemembered, read)
	if err == nil && !fresh && have.amount.Cmp(c.requirement.Amount) < 0 {
		have, _, err = p.look(ctx, *c, c.allowanceKey(), p.slowRPC, afreshToPay, read)
	}
	switch {
	case errors.Is(err, ErrUnwatched):
		return p.takes(c.requirement, c.network.Name)
	case is[*QuestionsError](err):
		return err
	case err != nil:
		p.log.WarnContext(ctx, "allowance not known", "wallet", c.wallet.ProviderID, "error", err)
		return nil
	}
	c.allowance = &have
	if have.amount.Cmp(c.requirement.Amount) < 0 {
		return p.lacksAllowance(*c, false)
	}
	return nil
}

// allowance asks how much of the wallet's tokens Permit2 may move. What has moved through it so far is
// read first, like that of a balance.
func (p *Payer) allowance(ctx context.Context, chain Allowances, c choice) (have knownBalance, err error) {
	if have.moved, err = p.store.Counter(ctx, movedCounter(c.wallet.ID, permitted(c.asset))); err != nil {
		return have, fmt.Errorf("%w: %w", errUncounted, err)
	}
	if err = p.CheckChain(ctx, c.network, c.asset); err == nil {
		have.amount, err = chain.Allowance(ctx, c.network, c.asset, *c.wallet.Address, x402.Permit2)
	}
	return have, err
}

func (p *Payer) lacksAllowance(c choice, open bool) error {
	return failedFor(nil, &AllowanceError{
		Wallet: c.wallet, Have: c.allowance.amount, Need: c.requirement.Amount, Command: p.opts.Names.Approve + " " + c.wallet.ID, Open: open,
	})
}

// permitted names what Permit2 may move of an asset in counters, beside the asset itself.
func permitted(a x402.Asset) string { return a.Symbol + ".permit2" }

// allowanceLimit reserves the part of an allowance that a payment takes, because open payments of all keys
// that draw from the wallet share it. There is none for a payment that the token itself moves.
func (p *Payer) allowanceLimit(c choice, t Terms) []Limit {
	if !c.requirement.Rail().Permit2() {
		return nil
	}
	r := p.hold(c, t.Amount)
	r.Counter = holdCounter(c.wallet.ID, permitted(c.asset))
	l := Limit{Reservation: r}
	if c.allowance != nil {
		l.Max, l.Since, l.Refusal = &c.allowance.amount, c.allowance.moved, p.lacksAllowance(c, true)
		if lacks, is := errors.AsType[*FailedError](l.Refusal); is {
			lacks.again = func(ctx context.Context) bool { return p.freed(ctx, c, c.allowanceKey()) }
		}
	}
	return []Limit{l}
}
