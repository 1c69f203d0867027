package tempo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// Bounds of what the rail signs.
const (
	// lasts is the validity of a transaction. The chain takes 30 s at most.
	lasts = 25 * time.Second
	// sponsorNeeds is the validity that sponsors want to see, with some seconds for the way.
	sponsorNeeds = 18 * time.Second
	// payerNeeds is the least validity without a sponsor.
	payerNeeds = 10 * time.Second
	// maxGas is the most gas that sponsors allow.
	maxGas = 2_000_000
	// gasEmpty is the gas that a transfer takes beside to a payee that has nothing. A payee may have sent its money on since
	// the estimate, and a transaction without enough gas fails and costs it.
	gasEmpty = 250_000
	// maxPrice and maxTip bound the price of a unit of gas, in billionths of a billionth of a dollar.
	maxPrice = 100_000_000_000
	maxTip   = 10_000_000_000
	// maxFee is the most that the gas of one payment may cost, in millionths of a dollar: 5 cents.
	maxFee = 50_000
	// feeUnit is the price of a millionth of a dollar.
	feeUnit = 1_000_000_000_000
)

// Node is the part of an RPC that the rail needs.
type Node interface {
	// Price returns the price of a unit of gas in the newest block, and the tip beside it that nodes advise.
	Price(ctx context.Context) (base, tip money.Amount, err error)
	// Gas returns the gas that some calls of an account take in one transaction.
	Gas(ctx context.Context, from x402.Address, calls []Call) (uint64, error)
	// Submit gives a signed transaction to the chain, as 0x and hex digits.
	Submit(ctx context.Context, signed string) error
}

// Rail pays offers of MPP for the method tempo.
type Rail struct {
	node Node
	now  pay.Clock
}

var (
	_ pay.Rail    = (*Rail)(nil)
	_ pay.Payees  = (*Rail)(nil)
	_ pay.Marking = (*Rail)(nil)
)

// NewRail returns the rail. A nil clock is the system's.
func NewRail(n Node, now pay.Clock) *Rail {
	if now == nil {
		now = time.Now
	}
	return &Rail{n, now}
}

// Number returns the rail's number in the books.
func (*Rail) Number() x402.Rail { return Number }

// Network returns Tempo's main network.
func (*Rail) Network() x402.Network { return Network() }

// Takes says why the rail cannot pay a requirement.
func (*Rail) Takes(r x402.Requirement) error {
	_, err := taken(r)
	return err
}

// taken reads the offer of a requirement, or says why the rail cannot pay it.
func taken(r x402.Requirement) (offer, error) {
	if r.Problem != nil {
		return offer{}, r.Problem
	}
	o, err := readOffer(r.Raw)
	if err == nil && (o.currency != r.Asset || o.amount != r.Amount || o.transfers[0].To != r.PayTo) {
		err = errors.New("the request differs from the terms")
	}
	if err != nil {
		return offer{}, &x402.UnsupportedError{Kind: "scheme", Value: r.Scheme, Detail: err.Error()}
	}
	return o, nil
}

// Payees returns the payees beside the first one.
func (*Rail) Payees(r x402.Requirement) (list []pay.Payee) {
	o, err := readOffer(r.Raw)
	if err != nil {
		return nil
	}
	for _, t := range o.transfers[1:] {
		list = append(list, pay.Payee{To: t.To, Amount: t.Amount})
	}
	return list
}

// Mark returns the client's part of an attribution memo.
func (*Rail) Mark(n x402.Nonce) []byte {
	client, is := Attributed(n)
	if !is {
		return nil
	}
	return client[:]
}

// Authorize makes the transaction of a new payment. Its memo, which binds it to the challenge, becomes the nonce. A
// payer without a sponsor pays for gas: Value then has the most that it can cost, beside the price.
func (r *Rail) Authorize(ctx context.Context, a x402.Authorization, req x402.Requirement) (x402.Authorization, error) {
	o, err := taken(req)
	if err != nil {
		return a, err
	}
	if slices.ContainsFunc(o.transfers, func(t Transfer) bool { return t.To == a.From }) {
		return a, errors.New("a payee is the wallet that would pay")
	}
	memo := Attribution(o.realm, o.id, [ClientSize]byte(a.Nonce[:ClientSize]))
	t := Transaction{ChainID: chainID, Calls: o.calls(memo), Sponsored: o.sponsored}
	fee, err := r.price(ctx, a.From, &t)
	if err != nil {
		return a, err
	}
	needs := sponsorNeeds
	if !t.Sponsored {
		needs, t.FeeToken = payerNeeds, o.currency
	}
	now := r.now()
	ends := now.Add(lasts)
	if !req.Expires.IsZero() && req.Expires.Before(ends) {
		ends = req.Expires
	}
	if t.ValidBefore = min(a.ValidBefore, uint64(ends.Unix())); time.Unix(int64(t.ValidBefore), 0).Sub(now) < needs {
		return a, fmt.Errorf("the challenge ends in less than %s", needs)
	}
	var overflow bool
	if a.Value, overflow = o.amount.Add(fee); overflow {
		return a, errors.New("the amount is too great")
	}
	a.ValidBefore, a.Nonce, a.Message = t.ValidBefore, memo, hexOf(t.Unsigned())
	return a, nil
}

// price sets what the gas of a transaction may cost, and returns the most that its payer pays for it.
func (r *Rail) price(ctx context.Context, from x402.Address, t *Transaction) (fee money.Amount, err error) {
	base, tip, err := r.node.Price(ctx)
	if err != nil {
		return fee, err
	}
	if t.Gas, err = r.node.Gas(ctx, from, t.Calls); err != nil {
		return fee, err
	}
	if !t.Sponsored {
		t.Gas += uint64(len(t.Calls)) * gasEmpty
	}
	t.Gas = min(t.Gas, maxGas)
	most, none := money.New(maxPrice), money.Amount{}
	if t.Tip = tip; t.Tip.Cmp(money.New(maxTip)) > 0 {
		t.Tip = money.New(maxTip)
	}
	if base.AddSaturated(t.Tip).Cmp(most) > 0 {
		return fee, errors.New("gas of the network is too dear at the moment")
	}
	if t.MaxFee = base.AddSaturated(base).AddSaturated(t.Tip); t.MaxFee.Cmp(most) > 0 {
		t.MaxFee = most
	}
	if t.Sponsored {
		return none, nil
	}
	if fee = feeOf(t.MaxFee, t.Gas); fee.Cmp(money.New(maxFee)) > 0 {
		return none, errors.New("gas of the network is too dear at the moment")
	}
	return fee, nil
}

// feeOf returns what gas costs in the smallest unit of a token. The chain rounds it up.
func feeOf(price money.Amount, gas uint64) money.Amount {
	whole := price.TimesSaturated(gas).AddSaturated(money.New(feeUnit - 1)).Big()
	whole.Quo(whole, money.New(feeUnit).Big())
	fee, _ := money.FromBig(whole) // of a part of an amount
	return fee
}

// Sign returns the message that the wallet signs.
func (*Rail) Sign(a x402.Authorization) pay.Message {
	t, err := transactionOf(a)
	if err != nil {
		return pay.Message{From: a.From, Verify: func(x402.Signature) error { return err }}
	}
	digest := t.Digest()
	return pay.Message{From: a.From, Digest: digest, Bytes: t.Unsigned(), Verify: func(s x402.Signature) error {
		from, err := x402.Recover(digest, s)
		if err == nil && from != a.From {
			err = fmt.Errorf("it is not by %s", a.From)
		}
		return err
	}}
}

// transactionOf reads the transaction of an authorization.
func transactionOf(a x402.Authorization) (Transaction, error) {
	b, err := parseHex(a.Message)
	if err != nil {
		return Transaction{}, fmt.Errorf("the transaction of the payment: %w", err)
	}
	t, _, err := Decode(b)
	if err != nil {
		return t, fmt.Errorf("the transaction of the payment: %w", err)
	}
	return t, nil
}

// Payload joins a challenge with the signed transaction. Package mpp makes a credential of it.
func (*Rail) Payload(o x402.Offer, a x402.Authorization, s x402.Signature) (x402.Payload, error) {
	t, err := transactionOf(a)
	if err != nil {
		return x402.Payload{}, err
	}
	signed, err := t.Signed(s)
	if err != nil {
		return x402.Payload{}, err
	}
	return mpp.Payload(o, a.From, struct {
		Signature string `json:"signature"`
		Type      string `json:"type"`
	}{hexOf(signed), "transaction"})
}
