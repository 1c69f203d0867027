package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/purserpay/purser/x402"
)

// AllowanceError: a seller wants to be paid through Permit2, and the wallet has allowed it to move less
// than the payment takes. Purser never allows anything by itself.
type AllowanceError struct {
	Wallet     Wallet
	Have, Need x402.Amount
	Command    string // that allows more
}

func (e *AllowanceError) Error() string {
	return fmt.Sprintf("permit2_allowance_required: wallet %s lets Permit2 move %s, and the payment takes %s; an operator can allow more: %s",
		e.Wallet.Address, Money(e.Have), Money(e.Need), e.Command)
}

// byRail orders the requirements of a challenge: those that the token takes itself come before those of
// Permit2, which need an allowance.
func byRail(accepts []x402.Requirement) []int {
	order := make([]int, len(accepts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(accepts[a]) - rank(accepts[b]) })
	return order
}

func rank(r x402.Requirement) int {
	if r.Rail().Permit2() {
		return 1
	}
	return 0
}

// takes says why purser does not pay in the requirement's way, although package x402 could. Permit2
// tells of no transfer by an event, so only an RPC can say what became of a payment.
func (p *Payer) takes(req x402.Requirement, network string) error {
	if !slices.Contains(p.opts.Schemes, req.Scheme) {
		return &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: "it is not enabled"}
	}
	if !req.Rail().Permit2() {
		return nil
	}
	if _, can := p.opts.Chain.(Allowances); !can || !p.watches(network) {
		return &x402.UnsupportedError{
			Kind: "scheme", Value: req.Scheme, Detail: "Permit2 needs an RPC of the network (" + p.opts.Names.of(SourceRPC, network) + ")",
		}
	}
	return nil
}

// allowed checks that Permit2 may move what a payment takes. The allowance is remembered like a balance,
// and read afresh before it is too little. Without an answer the payment goes on, as one does without its
// balance: the seller finds out, and the chain tells what became of it.
func (p *Payer) allowed(ctx context.Context, c choice) error {
	chain, can := p.opts.Chain.(Allowances)
	if !c.requirement.Rail().Permit2() || c.wallet.Address == nil || !can {
		return nil
	}
	read := func(ctx context.Context) (have knownBalance, err error) {
		if err = p.checkChain(ctx, c.network, c.asset); err == nil {
			have.amount, err = chain.Allowance(ctx, c.network, c.asset, *c.wallet.Address, x402.Permit2)
		}
		return have, err
	}
	need := c.requirement.Amount
	have, fresh, err := p.look(ctx, c, c.allowanceKey(), p.slowRPC, asRemembered, read)
	if err == nil && !fresh && have.amount.Cmp(need) < 0 {
		have, _, err = p.look(ctx, c, c.allowanceKey(), p.slowRPC, afreshToPay, read)
	}
	switch {
	case errors.Is(err, ErrUnwatched):
		return p.takes(c.requirement, c.network.Name)
	case is[*QuestionsError](err):
		return err
	case err != nil:
		p.log.WarnContext(ctx, "allowance not known", "wallet", c.wallet.ProviderID, "error", err)
	case have.amount.Cmp(need) < 0:
		return failedFor(nil, &AllowanceError{
			Wallet: c.wallet, Have: have.amount, Need: need, Command: p.opts.Names.Approve + " " + c.wallet.ID,
		})
	}
	return nil
}
