package pay

import (
	"context"
	"fmt"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Rail is a way to move money that package x402 does not know: another key, another curve, another chain. Its
// evidence comes from [Options.Chain], which must serve its network.
//
// Only Authorize may ask others. The same input gives the same bytes in the other methods, because a repeat signs
// and encodes again.
type Rail interface {
	// Number is kept with each payment: at least [x402.OtherRails], and never that of another rail.
	Number() x402.Rail
	// Network returns the network on which the rail moves money, with its assets. No other rail has it.
	Network() x402.Network
	// Takes says why the rail cannot pay a requirement: *x402.UnsupportedError, or what is wrong with it.
	Takes(r x402.Requirement) error
	// Authorize completes the authorization of a new payment: Message, Nonce, an earlier ValidBefore, and Height if
	// the network counts blocks. Nonce marks its use. It is unique for the wallet: see [ErrChallengeTaken]. Where the
	// payer pays for gas in the asset, Value grows by the most that it can cost: budgets and wallets hold it until
	// [Trace.Moved] tells.
	Authorize(ctx context.Context, a x402.Authorization, r x402.Requirement) (x402.Authorization, error)
	// Sign returns the message that the wallet signs.
	Sign(a x402.Authorization) Message
	// Payload joins the echoed parts of a challenge with the signed authorization.
	Payload(o x402.Offer, a x402.Authorization, s x402.Signature) (x402.Payload, error)
}

// Payees is a further method of a [Rail] whose payments can have several payees. Each of them must pass the rules.
type Payees interface {
	// Payees returns those beside [x402.Requirement.PayTo], with their parts of the amount.
	Payees(r x402.Requirement) []Payee
}

// Payee gets a part of a payment, in the asset's smallest unit.
type Payee struct {
	To     x402.Address
	Amount money.Amount
}

// payees returns all that a requirement would pay.
func (p *Payer) payees(req x402.Requirement) []x402.Address {
	all := []x402.Address{req.PayTo}
	for _, one := range p.beside(req) {
		all = append(all, one.To)
	}
	return all
}

// beside returns the payees beside the one that terms name.
func (p *Payer) beside(req x402.Requirement) []Payee {
	if rail, several := p.other(req.Rail()).(Payees); several {
		return rail.Payees(req)
	}
	return nil
}

// gas returns the most that the wallet pays for gas beside the price.
func (p *Payment) gas() money.Amount { return p.Authorization.Value.SubSaturated(p.Terms.Amount) }

// cost writes the most that the payment takes.
func (p *Payment) cost() string {
	text := money.Text(p.Authorization.Value)
	if gas := p.gas(); !gas.IsZero() {
		text += ", with up to " + money.Text(gas) + " for gas,"
	}
	return text
}

// other returns the rail with a number, and nil for those of package x402 and unknown ones.
func (p *Payer) other(number x402.Rail) Rail {
	for _, r := range p.opts.Rails {
		if r.Number() == number {
			return r
		}
	}
	return nil
}

// supports finds the asset of a requirement, or says why purser cannot pay it: an error of
// [x402.Requirement.Supports].
func (p *Payer) supports(req x402.Requirement) (x402.Asset, error) {
	if !req.Rail().Other() {
		_, a, err := req.Supports()
		return a, err
	}
	rail := p.other(req.Rail())
	if rail == nil {
		detail := "purser has no " + req.Rail().String()
		if n, ours := p.network(req.Network); ours && n.Rail == req.Rail() {
			detail = p.needsRPC(n.Name)
		}
		return x402.Asset{}, &x402.UnsupportedError{Kind: "scheme", Value: req.Scheme, Detail: detail}
	}
	if err := rail.Takes(req); err != nil {
		return x402.Asset{}, err
	}
	n := rail.Network()
	a, known := n.Asset(req.Asset)
	switch {
	case req.Network != n.Name && req.Network != n.CAIP2(): // the wallet was chosen by it
		return a, &x402.UnsupportedError{Kind: "network", Value: req.Network, Detail: "its rail pays on " + n.Name}
	case !known:
		return a, &x402.UnsupportedError{Kind: "asset", Value: req.Asset.String(), Detail: "not a known token of " + n.Name}
	}
	return a, nil
}

// known finds a network by our name or its wire name, whether purser pays on it or not.
func (p *Payer) known(network string) (x402.Network, bool) {
	if n, ok := p.network(network); ok {
		return n, true
	}
	return x402.NetworkByWire(network)
}

// assetOf looks up the network and the asset of a payment's terms.
func (p *Payer) assetOf(row *Payment) (n x402.Network, a x402.Asset, err error) {
	if !row.Authorization.Rail.Other() {
		return row.Asset()
	}
	rail, known := p.other(row.Authorization.Rail), false
	if rail != nil {
		n = rail.Network()
		a, known = n.Asset(row.Terms.Asset)
	}
	if !known || n.Name != row.Terms.Network {
		return n, a, fmt.Errorf("payment %s: purser does not pay with %s on %s by %s", row.ID, row.Terms.Asset, row.Terms.Network, row.Authorization.Rail)
	}
	return n, a, nil
}

// authorize completes the authorization of a new payment on a rail that package x402 does not know, or says why the
// rail cannot: *UnreadyError, *QuestionsError. order is the mark of its idempotency key.
func (p *Payer) authorize(ctx context.Context, row *Payment, req x402.Requirement, order uint64) error {
	rail := p.other(row.Authorization.Rail)
	if rail == nil {
		return nil
	}
	if err := p.questions.rail(row.KeyID, p.now()); err != nil {
		return err
	}
	if _, short := rail.(Marking); short {
		row.Authorization.Nonce = p.shortNonce(row.KeyID, order)
	}
	n := rail.Network()
	asset, _ := n.Asset(req.Asset)
	a := row.Authorization
	err := p.CheckChain(ctx, n, asset) // only this RPC can tell what becomes of the payment
	if err == nil {
		a, err = rail.Authorize(ctx, a, req)
	}
	if err != nil {
		p.log.WarnContext(ctx, "payment not authorized", "rail", row.Authorization.Rail.String(), "network", row.Terms.Network, "error", err)
		p.identity.forget(n)
		return &UnreadyError{row.Terms.Network, err}
	}
	row.Authorization, row.Bound = a, true
	row.Check = p.nextCheck(row, row.Created)
	return nil
}

// holdAll has the wallet's part of the limits hold all that the payment can move: the rail may have added a fee.
func (b *Begin) holdAll() {
	for i := range b.Limits {
		if strings.HasPrefix(string(b.Limits[i].Counter), holdPrefix) {
			b.Limits[i].Amount = b.New.Authorization.Value
		}
	}
}

// message returns the message that the wallet of a payment signs.
func (p *Payer) message(row *Payment) (Message, error) {
	n, asset, err := p.assetOf(row)
	if err != nil {
		return Message{}, err
	}
	if rail := p.other(row.Authorization.Rail); rail != nil {
		return rail.Sign(row.Authorization), nil
	}
	if row.Authorization.From.Foreign() || row.Authorization.To.Foreign() {
		return Message{}, fmt.Errorf("payment %s: an address is of another network than an EVM", row.ID)
	}
	return MessageOf(row.Authorization, asset, n.ChainID), nil
}

// payload builds the contents of the payment header from an offer's parts. It fails without a signature.
func (p *Payer) payload(row *Payment, o x402.Offer) (x402.Payload, error) {
	if row.Signature == nil || row.Retired {
		return x402.Payload{}, fmt.Errorf("payment %s has no payload", row.ID)
	}
	if rail := p.other(row.Authorization.Rail); rail != nil {
		return rail.Payload(o, row.Authorization, *row.Signature)
	}
	return o.Payload(row.Authorization, *row.Signature)
}
