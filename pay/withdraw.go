package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

const (
	// withdrawalGrace is the time after its validity in which the same command gets the earlier
	// withdrawal. A person, or a machine that was started again, repeats later than an agent.
	withdrawalGrace = time.Hour
)

// Order is an operator's order to move money out of a wallet. Package treasury makes it.
type Order struct {
	Wallet Wallet // a deleted one can be emptied, too
	To     x402.Address
	// Amount is in the smallest unit of the network's asset; nil: all that is free. A free amount is money that an
	// earlier order of all did not have.
	Amount *money.Amount
	// Again: an earlier, equal order that has settled is another one. One that may not have moved its
	// money yet is driven on all the same.
	Again bool
	// Sign: the signed transfer is handed out, and no facilitator is asked.
	Sign bool
	// Draw decides how much moves, on each try, or why nothing may.
	Draw func(Holdings) (money.Amount, error)
}

// withdrawalIdentity recognizes equal orders; amount is nil for all that is free.
func withdrawalIdentity(walletID string, to x402.Address, amount *money.Amount) Hash {
	of := "all"
	if amount != nil {
		of = amount.String()
	}
	return HashOf("withdrawal", walletID, to.String(), of)
}

// Withdrawn says what became of a withdrawal.
type Withdrawn struct {
	Payment *Payment
	// Earlier: it is that of an earlier, equal order.
	Earlier bool
	// Payload is to be sent by the operator: without a facilitator, or as ordered. It is empty once
	// the money has moved.
	Payload x402.Payload
}

// Withdraw moves money out of a wallet by a payment like any other: it is journaled first, closed by
// evidence, and made once however often the order comes. It keeps no limits of the wallet's key but
// the reservations of the wallet, and goes on while payments are paused.
//
// Until an hour after its validity, an equal order gets the same withdrawal; see Order.Again. An
// order of everything gets an earlier one while that may still move its money, or if nothing is left.
//
// Errors: *InputError before anything is journaled, *FailedError, *OpenError, ErrNoAddress, ErrNoChain,
// ErrUnavailable, *ReconcilingError, *ClockError.
func (p *Payer) Withdraw(ctx context.Context, o Order) (Withdrawn, error) {
	r, err := p.ordered(ctx, o)
	if err != nil {
		return Withdrawn{}, err
	}
	a, err := p.begin(ctx, r)
	if err != nil {
		return Withdrawn{}, err
	}
	out := Withdrawn{Earlier: a.how != Created}
	switch {
	case a.row.State == Settled:
	case a.row.Authorization.Rail.Other():
		_, err = a.ready(a.send)
	case a.row.Terms.Settlement == SettlePayer && !o.Sign:
		_, err = a.ready(a.settle)
	default:
		_, err = a.ready(a.depart)
		out.Payload = a.payload
	}
	out.Payment = a.row
	if out.Payment.State == Settled {
		p.balances.forget(balanceKey{asset: a.row.Terms.Asset, owner: a.row.Authorization.From})
	}
	// purser cannot know whether the operator reads the answer: an equal order gets it again.
	a.finish(false, true)
	return out, err
}

// QuoteWithdrawal decides on an order as Withdraw does, and leaves it at that: see [Payer.Quote].
func (p *Payer) QuoteWithdrawal(ctx context.Context, o Order) (Quote, error) {
	if err := p.enter(); err != nil {
		return Quote{}, err
	}
	defer p.background.Done()
	r, err := p.ordered(ctx, o)
	if err != nil {
		return Quote{}, err
	}
	return p.quote(ctx, r)
}

// ordered makes the request of an order.
func (p *Payer) ordered(ctx context.Context, o Order) (Request, error) {
	k, err := p.store.Key(ctx, o.Wallet.KeyID)
	if err != nil {
		return Request{}, fmt.Errorf("reading the wallet's key: %w", err)
	}
	n, _ := p.network(o.Wallet.Network)
	rail, err := p.withdrawing(n)
	switch {
	case err != nil:
		return Request{}, err
	case rail != nil && o.Sign:
		return Request{}, &InputError{Field: "sign", Reason: "purser itself sends what leaves a wallet on " + n.Name}
	}
	settlement := SettlePayer
	if o.Sign || p.opts.Facilitator == nil || rail != nil {
		settlement = SettleSeller
	}
	return Request{Key: k, Door: policy.DoorOperator, Settlement: settlement, URL: WithdrawalURL + o.To.String(), Anew: o.Again, withdrawal: &o}, nil
}

// proposeWithdrawal is propose for a withdrawal.
func (p *Payer) proposeWithdrawal(ctx context.Context, r Request) (*Begin, choice, error) {
	o := r.withdrawal
	b := &Begin{Owner: p.owner}
	h, err := p.Holdings(ctx, o.Wallet)
	if err != nil {
		return nil, choice{}, err
	}
	n, _ := p.network(o.Wallet.Network) // Holdings has found it
	// No authorization is valid for longer, because a restored backup waits for that long: after it, no
	// transfer can come that the books do not know.
	c := choice{wallet: o.Wallet, network: n, asset: h.Asset, validity: MaxValidity}
	amount, declined := o.Draw(h)
	if o.Amount == nil && declined == nil {
		r.Anew = true // there is money that the earlier order did not have
	}
	if declined == nil {
		if r.Challenge, err = x402.TransferChallenge(c.network, c.asset, o.To, amount, c.validity); err != nil {
			return nil, choice{}, fmt.Errorf("making a withdrawal: %w", err)
		}
		c.requirement = r.Challenge.Accepts[0]
	}
	t := Terms{Settlement: r.Settlement, Network: c.network.Name, Scheme: "exact", Asset: c.asset.Address, PayTo: o.To, Amount: amount}
	of := withdrawalIdentity(o.Wallet.ID, o.To, o.Amount)
	// An equal order that comes while the first one is at work is the same.
	b.CallIdentity = CallIdentity{KeyID: r.Key.ID, Fingerprint: of, Identity: of, Terms: t, Anew: r.Anew, Gripped: p.gripped}
	b.Judgement = Judgement{Declined: declined, Unpaused: true}
	if declined != nil {
		return b, c, nil
	}
	read, err := p.read(r.Challenge)
	if err != nil {
		return nil, choice{}, err
	}
	c.id, c.offer = read.id, r.Challenge.Offer(0)
	row := p.row(r, b.CallIdentity, c, p.now().UTC())
	row.Host, row.Authorization.Nonce = WithdrawalHost, p.newNonce(string(of[:]))
	if rail, _ := p.withdrawing(n); rail != nil {
		if err := transferBy(ctx, rail, n.Rail, row, c.asset, o.Amount == nil); err != nil {
			b.Declined = err
			return b, c, nil
		}
		b.Terms, row.Check = row.Terms, p.nextCheck(row, row.Created)
	}
	b.New = row
	once := money.New(1)
	undecided := Limit{
		Reservation: Reservation{Counter: undecidedCounter(o.Wallet.ID, of), Amount: once, Release: AtSettled | AtVoid | AtRefusedExpired},
		Max:         &once, Refusal: &InputError{Field: "withdrawal", Reason: "an equal one has expired, and it is not known yet whether it moved its money. " +
			"Wait for the chain's word; without an RPC, close it with a ruling"},
	}
	hold := Limit{Reservation: p.hold(c, row.Authorization.Value), Max: h.Balance, Since: h.moved}
	hold.Refusal = &InputError{Field: "amount", Reason: "the wallet has just paid for something, and less is left: try again"}
	b.Limits = []Limit{undecided, hold}
	return b, c, nil
}

// undecidedCounter counts equal withdrawals of which it is not known whether they moved their money.
func undecidedCounter(walletID string, identity Hash) Counter {
	text, _ := identity.MarshalText()
	return Counter("withdrawal/" + walletID + "/" + string(text[:16]))
}

// Holdings says what a wallet has, and how much of it cannot be withdrawn now.
type Holdings struct {
	Asset x402.Asset
	// Balance is the chain's word; nil: it is not known, and Unknown says why.
	Balance *money.Amount
	Unknown error
	// Reserved is for open payments, in the asset's smallest unit.
	Reserved money.Amount

	moved money.Amount // by purser, before Balance was read
}

// Holdings asks the chain what a wallet has now: of the asset of which most can be withdrawn. ErrNoAddress.
func (p *Payer) Holdings(ctx context.Context, w Wallet) (most Holdings, err error) {
	n, ok := p.network(w.Network)
	if w.Address == nil || !ok {
		return Holdings{}, ErrNoAddress
	}
	p.proveForOperator(ctx, w) // what has left already is not reserved
	for i, a := range n.Assets {
		h, err := p.holdings(ctx, w, n, a)
		if err != nil {
			return Holdings{}, err
		}
		free, _ := h.Free()
		if least, known := most.Free(); i == 0 || known && free.Cmp(least) > 0 {
			most = h
		}
	}
	return most, nil
}

// holdings asks about one asset.
func (p *Payer) holdings(ctx context.Context, w Wallet, n x402.Network, a x402.Asset) (Holdings, error) {
	h := Holdings{Asset: a}
	// The reservations are read first: a payment that settles meanwhile counts twice and never not at
	// all.
	var err error
	if h.Reserved, err = p.store.Counter(ctx, holdCounter(w.ID, h.Asset.Symbol)); err != nil {
		return h, err
	}
	if p.opts.Chain == nil {
		h.Unknown = ErrNoChain
		return h, nil
	}
	if h.moved, err = p.store.Counter(ctx, movedCounter(w.ID, h.Asset.Symbol)); err != nil {
		return h, err
	}
	ask, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	var have money.Amount
	if h.Unknown = p.CheckChain(ask, n, h.Asset); h.Unknown == nil {
		have, h.Unknown = p.opts.Chain.Balance(ask, n, h.Asset, *w.Address)
	}
	switch {
	case h.Unknown == nil:
		h.Balance = &have
	case ctx.Err() != nil:
		return h, ctx.Err()
	case errors.Is(h.Unknown, ErrUnwatched):
		h.Unknown = fmt.Errorf("%w: %w", ErrNoChain, h.Unknown)
	}
	return h, nil
}

// Free returns what can be withdrawn. It is not known while the balance is not.
func (h Holdings) Free() (free money.Amount, known bool) {
	if h.Balance == nil {
		return free, false
	}
	return h.Balance.SubSaturated(h.Reserved), true
}
