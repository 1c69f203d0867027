package adminapi

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// NewWithdrawal is the body of POST /purser/wallets/{id}/withdraw. Wallets are named by id or address.
type NewWithdrawal struct {
	To string `json:"to"` // in mixed case with a correct checksum (EIP-55)
	// Amount is in the smallest unit. Either it is given, or All.
	Amount string `json:"amount,omitempty"`
	All    bool   `json:"all,omitempty"` // all that is not reserved
	// ToOwn: the address may be that of a wallet of purser's own.
	ToOwn bool `json:"to_own,omitempty"`
	// Again: an equal withdrawal that has settled is not repeated.
	Again bool `json:"again,omitempty"`
	// SignOnly: the signed transfer is answered, and not sent.
	SignOnly bool `json:"sign_only,omitempty"`
}

// Holdings says what a wallet has, in the smallest unit.
type Holdings struct {
	Balance *string `json:"balance"` // nil when it is not known, and Unknown says why
	Unknown string  `json:"balance_unknown,omitempty"`
	// Reserved is kept for open payments, the last of which is valid until ReservedUntil.
	Reserved      string    `json:"reserved"`
	ReservedUntil time.Time `json:"reserved_until,omitzero"`
}

// WithdrawalPlan answers POST /purser/wallets/{id}/withdraw/plan: what the withdrawal would do.
type WithdrawalPlan struct {
	WalletID string `json:"wallet_id"`
	Network  string `json:"network"`
	From     string `json:"from"`
	To       string `json:"to"`
	Amount   string `json:"amount"` // in the smallest unit
	Currency string `json:"currency"`
	Holdings
	// Signs: the signed transfer would be answered, and be valid for some seconds.
	Signs   bool     `json:"signs"`
	Seconds int      `json:"valid_seconds"`
	Repeats *Payment `json:"repeats,omitempty"` // the earlier withdrawal that the order gets
}

// Withdrawn answers POST /purser/wallets/{id}/withdraw.
type Withdrawn struct {
	Payment
	WalletID string `json:"wallet_id"`
	From     string `json:"from"`
	Earlier  bool   `json:"earlier"` // an equal order has made it before
	Holdings
	Transfer *Call `json:"transfer,omitempty"` // for the operator to send; nil: the money has moved
}

// Call is a signed message with the call of a contract that uses it. Any account can make the call,
// and pays the gas.
type Call struct {
	ChainID       uint64              `json:"chain_id"`
	Contract      string              `json:"contract"`
	Function      string              `json:"function"`
	Data          string              `json:"data"` // 0x and hex digits
	Authorization *x402.Authorization `json:"authorization,omitempty"`
	Cancellation  *x402.Cancellation  `json:"cancellation,omitempty"`
	Signature     string              `json:"signature"`
	Expires       time.Time           `json:"expires_at,omitzero"`
}

// Authorization is a payment that a part of a wallet's balance is kept for.
type Authorization struct {
	Payment
	WalletID string `json:"wallet_id"`
	Nonce    string `json:"nonce"`
	Signed   bool   `json:"signed"`
}

// Authorizations answers GET /purser/wallets/{id}/authorizations.
type Authorizations struct {
	WalletID       string          `json:"wallet_id"`
	Address        string          `json:"address"`
	Authorizations []Authorization `json:"authorizations"` // newest first
	Holdings
}

// withdrawal reads an order.
func (p *Purser) withdrawal(r *http.Request, want NewWithdrawal) (o treasury.Withdrawal, err error) {
	bad := func(field string, err error) (treasury.Withdrawal, error) {
		return o, Errorf(http.StatusBadRequest, "%s: %w", field, err)
	}
	if (want.Amount == "") != want.All {
		return bad("amount", errors.New("either an amount or all"))
	}
	if o.Wallet, err = p.findWallet(r.Context(), r.PathValue("id")); err != nil {
		return o, err
	}
	if o.To, err = x402.ParseCheckedAddress(want.To); err != nil {
		return bad("to", err)
	}
	if want.Amount != "" {
		amount, err := money.Parse(want.Amount)
		if err != nil {
			return bad("amount", err)
		}
		o.Amount = &amount
	}
	o.Again, o.Sign = want.Again, want.SignOnly
	own, err := p.Store.WalletByAddress(r.Context(), o.To)
	switch {
	case errors.Is(err, pay.ErrWalletNotFound):
		err = nil
	case err == nil && own.ID != o.Wallet.ID && !want.ToOwn:
		return bad("to", fmt.Errorf("that is the address of purser's own wallet %s, of key %s: --to-own says that you mean it", own.ID, own.KeyID))
	}
	return o, err
}

func (p *Purser) planWithdrawal(r *http.Request, want NewWithdrawal) (any, error) {
	o, err := p.withdrawal(r, want)
	if err != nil {
		return nil, err
	}
	plan, err := treasury.Of(p.Payer).PlanWithdrawal(r.Context(), o)
	if err != nil {
		return nil, refusal(err)
	}
	shown := WithdrawalPlan{
		WalletID: o.Wallet.ID, Network: o.Wallet.Network, From: o.Wallet.Address.String(), To: o.To.String(),
		Amount: plan.Amount.String(), Currency: plan.Asset.Symbol, Signs: plan.Signs, Seconds: int(plan.Valid / time.Second),
	}
	if plan.Repeats != nil {
		shown.Repeats = new(shownPayment(plan.Repeats))
	}
	shown.Holdings, _, err = p.holdings(r.Context(), o.Wallet)
	return shown, err
}

func (p *Purser) withdraw(r *http.Request, want NewWithdrawal) (any, error) {
	o, err := p.withdrawal(r, want)
	if err != nil {
		return nil, err
	}
	// An operator who has said yes gets it done, although the command ends: less is left open so.
	out, err := treasury.Of(p.Payer).Withdraw(context.WithoutCancel(r.Context()), o)
	if err != nil {
		return nil, refusal(err)
	}
	shown := Withdrawn{
		Payment: shownPayment(out.Payment), WalletID: o.Wallet.ID, From: o.Wallet.Address.String(), Earlier: out.Earlier,
	}
	if out.Payload.JSON != nil {
		if shown.Transfer, err = transferCall(out.Payment, out.Payload); err != nil {
			return nil, err
		}
	}
	if shown.Holdings, _, err = p.holdings(r.Context(), o.Wallet); err != nil {
		return nil, err
	}
	return shown, nil
}

// refusal says what became of a withdrawal that was not made, and what to do.
func refusal(err error) error {
	if in, is := errors.AsType[*pay.InputError](err); is {
		return in
	}
	var about *pay.Payment
	status := http.StatusConflict
	if f, is := errors.AsType[*pay.FailedError](err); is {
		about, status = f.Payment, http.StatusBadGateway
	} else if open, is := errors.AsType[*pay.OpenError](err); is {
		about = open.Payment
	}
	switch {
	case about != nil && about.State == pay.Void && !about.Doubted:
		return Errorf(status, "%w (payment %s moved nothing)", err, about.ID)
	case about != nil && time.Now().Before(about.ValidBefore()):
		return Errorf(status, "%w (payment %s may still move the money until %s: the same command goes on with it, and makes no second one)",
			err, about.ID, about.ValidBefore().Format(time.RFC3339))
	case about != nil:
		return Errorf(status, "%w (payment %s has expired: when the chain has said what became of it, the same command makes a new one)", err, about.ID)
	}
	return err
}

// holdings reads what a wallet has and which payments hold a part of it.
func (p *Purser) holdings(ctx context.Context, w pay.Wallet) (h Holdings, list []*pay.Payment, err error) {
	has, err := p.Payer.Holdings(ctx, w)
	if err != nil {
		return h, nil, refusal(err)
	}
	if list, err = treasury.Of(p.Payer).Authorizations(ctx, w.ID); err != nil {
		return h, nil, err
	}
	h.Reserved = has.Reserved.String()
	switch {
	case has.Balance != nil:
		h.Balance = new(has.Balance.String())
	case errors.Is(has.Unknown, pay.ErrNoChain):
		h.Unknown = "no RPC of this network is configured (" + p.Payer.RPCSetting(w.Network) + ")"
	default:
		p.Log.Warn("balance not known", "wallet", w.ID, "network", w.Network, "error", has.Unknown)
		h.Unknown = "the RPC did not tell it; purser's log has the reason"
	}
	for _, row := range list {
		if row.ValidBefore().After(h.ReservedUntil) {
			h.ReservedUntil = row.ValidBefore()
		}
	}
	return h, list, nil
}

// transferCall returns a signed transfer as a call of the token.
func transferCall(row *pay.Payment, payload x402.Payload) (*Call, error) {
	n, known := x402.NetworkByWire(row.Terms.Network)
	a, s, err := payload.Authorization()
	if err != nil || !known {
		return nil, fmt.Errorf("payment %s on %s cannot be shown as a call: %w", row.ID, row.Terms.Network, err)
	}
	return &Call{
		ChainID: n.ChainID, Contract: row.Terms.Asset.String(), Function: "transferWithAuthorization",
		Data: "0x" + hex.EncodeToString(a.Call(s)), Authorization: &a, Signature: s.String(), Expires: row.ValidBefore(),
	}, nil
}

func (p *Purser) authorizations(r *http.Request) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	h, list, err := p.holdings(r.Context(), w)
	if err != nil {
		return nil, err
	}
	shown := Authorizations{WalletID: w.ID, Address: w.Address.String(), Authorizations: []Authorization{}, Holdings: h}
	for _, row := range list {
		shown.Authorizations = append(shown.Authorizations, Authorization{
			Payment: shownPayment(row), WalletID: row.WalletID, Nonce: row.Authorization.Nonce.String(), Signed: row.Signature != nil,
		})
	}
	return shown, nil
}
