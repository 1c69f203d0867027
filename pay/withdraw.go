package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/x402"
)

const (
	// withdrawalGrace is the time after its validity in which the same command gets the earlier
	// withdrawal. A person, or a machine that was started again, repeats later than an agent.
	withdrawalGrace = time.Hour
	// withdrawalHost stands for the host of a seller in the books.
	withdrawalHost = "withdrawal"
)

// WithdrawalURL begins the URL of a withdrawal in the books. The address that got the money follows.
const WithdrawalURL = "withdraw:"

// Withdrawal is an operator's order to move money out of a wallet.
type Withdrawal struct {
	Wallet Wallet // a deleted one can be emptied, too
	To     x402.Address
	// Amount is in the smallest unit of the network's asset; nil: all that is not reserved.
	Amount *x402.Amount
	// Again: an earlier withdrawal of the same amount to the same address that has settled is
	// another one. One that may not have moved its money yet is driven on all the same.
	Again bool
	// Sign: the signed transfer is handed out, and no facilitator is asked.
	Sign bool
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

// Withdraws reports whether the payment is a withdrawal: its payee is no seller.
func (p *Payment) Withdraws() bool { return p.Door == DoorOperator }

// Withdraw moves money out of a wallet by a payment like any other: it is journaled first, closed by
// evidence, and made once however often the order comes. It keeps no limits of the wallet's key but
// the reservations of the wallet, and goes on while payments are paused.
//
// Until an hour after its validity, an equal order gets the same withdrawal; see Withdrawal.Again. An
// order of everything gets an earlier one while that may still move its money, or if nothing is left.
//
// Errors: *InputError before anything is journaled, *FailedError, *OpenError, ErrNoAddress, ErrNoChain,
// ErrUnavailable, *ReconcilingError, *ClockError.
func (p *Payer) Withdraw(ctx context.Context, w Withdrawal) (Withdrawn, error) {
	k, err := p.store.Key(ctx, w.Wallet.KeyID)
	if err != nil {
		return Withdrawn{}, fmt.Errorf("reading the wallet's key: %w", err)
	}
	settlement := SettlePayer
	if p.signsOnly(w) {
		settlement = SettleSeller
	}
	a, err := p.begin(ctx, Request{
		Key: k, Door: DoorOperator, Settlement: settlement, URL: WithdrawalURL + w.To.String(), Anew: w.Again, withdrawal: &w,
	})
	if err != nil {
		return Withdrawn{}, err
	}
	out := Withdrawn{Earlier: a.how != Created}
	switch {
	case a.row.State == Settled:
	case a.row.Terms.Settlement == SettlePayer && !w.Sign:
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

// SendsWithdrawals reports whether purser has a facilitator that sends a withdrawal. Without one, it
// hands out the signed transfer.
func (p *Payer) SendsWithdrawals() bool { return p.opts.Facilitator != nil }

// signsOnly reports whether the signed transfer is handed out.
func (p *Payer) signsOnly(w Withdrawal) bool { return w.Sign || p.opts.Facilitator == nil }

// proposeWithdrawal is propose for a withdrawal.
func (p *Payer) proposeWithdrawal(ctx context.Context, r Request) (*Begin, choice, error) {
	w := r.withdrawal
	c, err := p.withdrawalChoice(w)
	if err != nil {
		return nil, choice{}, err
	}
	b := &Begin{Owner: p.owner}
	h, err := p.Holdings(ctx, w.Wallet)
	if err != nil {
		return nil, choice{}, err
	}
	amount, declined := h.withdrawable(w)
	if w.Amount == nil && declined == nil {
		r.Anew = true // there is money that the earlier order did not have
	}
	if declined == nil {
		if r.Challenge, err = x402.TransferChallenge(c.network, c.asset, w.To, amount, c.validity); err != nil {
			return nil, choice{}, fmt.Errorf("making a withdrawal: %w", err)
		}
		c.requirement = r.Challenge.Accepts[0]
	}
	t := Terms{Settlement: r.Settlement, Network: c.network.Name, Scheme: "exact", Asset: c.asset.Address, PayTo: w.To, Amount: amount}
	of := w.identity()
	// An equal order that comes while the first one is at work is the same.
	b.CallIdentity = CallIdentity{KeyID: r.Key.ID, Fingerprint: of, Identity: of, Terms: t, Anew: r.Anew, Held: p.held}
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
	row.Host = withdrawalHost
	b.New = row
	once := x402.NewAmount(1)
	undecided := Limit{
		Reservation: Reservation{Counter: undecidedCounter(w.Wallet.ID, of), Amount: once, Release: AtSettled | AtVoid | AtRefusedExpired},
		Max:         &once, Refusal: &InputError{Field: "withdrawal", Reason: "an equal one has expired, and it is not known yet whether it moved its money. " +
			"Wait for the chain's word; without an RPC, close it with a ruling"},
	}
	hold := Limit{Reservation: p.hold(c, amount), Max: h.Balance, Since: h.moved}
	hold.Refusal = &InputError{Field: "amount", Reason: "the wallet has just paid for something, and less is left: try again"}
	b.Limits = []Limit{undecided, hold}
	return b, c, nil
}

// identity recognizes an equal order.
func (w *Withdrawal) identity() Hash {
	what := "all"
	if w.Amount != nil {
		what = w.Amount.String()
	}
	return HashOf("withdrawal", w.Wallet.ID, w.To.String(), what)
}

// undecidedCounter counts equal withdrawals of which it is not known whether they moved their money.
func undecidedCounter(walletID string, identity Hash) Counter {
	text, _ := identity.MarshalText()
	return Counter("withdrawal/" + walletID + "/" + string(text[:16]))
}

// withdrawalChoice checks what is wrong with an order whatever the wallet holds.
func (p *Payer) withdrawalChoice(w *Withdrawal) (choice, error) {
	n, ok := p.network(w.Wallet.Network)
	if !ok {
		return choice{}, &InputError{Field: "wallet", Reason: "its network " + w.Wallet.Network + " is not configured"}
	}
	// No authorization is valid for longer, because a restored backup waits for that long: after it, no
	// transfer can come that the books do not know.
	c := choice{wallet: w.Wallet, network: n, asset: n.Assets[0], validity: maxValidity}
	bad := func(reason string) (choice, error) { return choice{}, &InputError{Field: "to", Reason: reason} }
	switch {
	case w.Wallet.Address == nil:
		return choice{}, ErrNoAddress
	case w.To.IsZero():
		return bad("the zero address has no owner: what is sent there is lost")
	case w.To == c.asset.Address:
		return bad("that is the token's contract: what is sent there is lost")
	case w.To == *w.Wallet.Address:
		return bad("that is the wallet's own address")
	case w.Amount != nil && w.Amount.IsZero():
		return choice{}, &InputError{Field: "amount", Reason: "0 moves nothing"}
	case w.Amount != nil && w.Amount.Cmp(maxAmount) > 0:
		return choice{}, &InputError{Field: "amount", Reason: "no token has that much"}
	}
	return c, nil
}

// Holdings says what a wallet has, and how much of it cannot be withdrawn now.
type Holdings struct {
	Asset x402.Asset
	// Balance is the chain's word; nil: it is not known, and Unknown says why.
	Balance *x402.Amount
	Unknown error
	// Reserved is for open payments, in the asset's smallest unit.
	Reserved x402.Amount

	moved x402.Amount // by purser, before Balance was read
}

// Holdings asks the chain what a wallet has now. ErrNoAddress.
func (p *Payer) Holdings(ctx context.Context, w Wallet) (Holdings, error) {
	n, ok := p.network(w.Network)
	if w.Address == nil || !ok {
		return Holdings{}, ErrNoAddress
	}
	h := Holdings{Asset: n.Assets[0]}
	p.proveForOperator(ctx, w) // what has left already is not reserved
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
	var have x402.Amount
	if h.Unknown = p.checkChain(ask, n, h.Asset); h.Unknown == nil {
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
func (h Holdings) Free() (free x402.Amount, known bool) {
	if h.Balance == nil {
		return free, false
	}
	if free, under := h.Balance.Sub(h.Reserved); !under {
		return free, true
	}
	return x402.Amount{}, true
}

// withdrawable returns the amount of a withdrawal. Without a known balance, a given amount is taken
// as it is: the token refuses what the wallet does not have.
func (h Holdings) withdrawable(w *Withdrawal) (x402.Amount, error) {
	free, known := h.Free()
	switch {
	case !known && w.Amount == nil:
		return free, fmt.Errorf("all of it is not known, so give an amount: %w", h.Unknown)
	case !known:
		return *w.Amount, nil
	case w.Amount == nil && free.IsZero():
		return free, &InputError{Field: "amount", Reason: "nothing is left to withdraw: " + h.text()}
	case w.Amount == nil:
		return free, nil
	case w.Amount.Cmp(free) > 0:
		return *w.Amount, &InputError{Field: "amount", Reason: fmt.Sprintf("%s is more than can be withdrawn: %s", h.money(*w.Amount), h.text())}
	}
	return *w.Amount, nil
}

func (h Holdings) money(a x402.Amount) string {
	return a.Format(h.Asset.Decimals) + " " + h.Asset.Symbol
}

// text says what the wallet holds.
func (h Holdings) text() string {
	text := "the wallet holds " + h.money(*h.Balance)
	if !h.Reserved.IsZero() {
		text += ", and " + h.money(h.Reserved) + " of it is reserved for open payments"
	}
	return text
}
