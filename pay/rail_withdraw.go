package pay

import (
	"context"
	"fmt"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Withdrawing is a further method of a [Rail] by which purser itself sends money out of a wallet: no facilitator knows
// such a network.
type Withdrawing interface {
	// Transfer completes the authorization of a withdrawal as [Rail].Authorize does. Its Nonce stays.
	Transfer(ctx context.Context, a x402.Authorization, asset x402.Asset) (x402.Authorization, error)
	// Send gives a signed withdrawal to the chain, and waits for a moment until it has it. To send it again is harmless.
	Send(ctx context.Context, p x402.Payload) error
}

// withdrawing returns the rail of a network that withdrawals go by; nil: they are transfers as facilitators take them.
// The error is an *InputError.
func (p *Payer) withdrawing(n x402.Network) (Withdrawing, error) {
	if n.Rail == 0 {
		return nil, nil
	}
	if rail, can := p.other(n.Rail).(Withdrawing); can {
		return rail, nil
	}
	return nil, &InputError{Field: "wallet", Reason: "purser moves nothing out of wallets on " + n.Name + " without an RPC (" + p.opts.Names.of(SourceRPC, n.Name) + ")"}
}

// transferBy completes the row of a withdrawal by a rail. The wallet pays for gas from the same asset, so an order of all
// leaves that. The error is an *InputError or an *UnreadyError.
func transferBy(ctx context.Context, rail Withdrawing, number x402.Rail, row *Payment, asset x402.Asset, all bool) error {
	row.Authorization.Rail, row.Bound = number, true
	a, err := rail.Transfer(ctx, row.Authorization, asset)
	if err == nil && all {
		fee := a.Value.SubSaturated(row.Terms.Amount)
		rest, under := row.Terms.Amount.Sub(fee)
		if under || rest.IsZero() {
			return &InputError{Field: "amount", Reason: fmt.Sprintf("what is left does not pay for its own way: up to %s", money.Text(fee))}
		}
		row.Terms.Amount, row.Authorization.Value = rest, rest
		a, err = rail.Transfer(ctx, row.Authorization, asset)
	}
	if err != nil {
		return &UnreadyError{row.Terms.Network, err}
	}
	row.Authorization = a
	return nil
}

// send gives a withdrawal to the chain, and asks it what became of that.
func (a *Attempt) send() error {
	n, _ := a.payer.known(a.row.Terms.Network)
	rail, err := a.payer.withdrawing(n)
	if err != nil {
		return err
	}
	if err := a.depart(); err != nil {
		return err
	}
	ctx, cancel := a.SendContext(0)
	defer cancel()
	if err := rail.Send(ctx, a.payload); err != nil {
		_ = a.record(ctx, Outcome{Reason: "not sent, or not known: " + err.Error()})
		return &FailedError{Stage: StageSettle, Payment: a.row, Detail: err.Error(), Cause: err}
	}
	if err := a.record(ctx, a.payer.weigh(ctx, a.row, usedClaim("purser has sent it", nil))); err != nil {
		a.payer.log.WarnContext(ctx, "withdrawal not recorded", "payment", a.row.ID, "error", err)
	}
	return nil
}
