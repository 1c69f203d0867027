package adminapi

import (
	"context"
	"net/http"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// NewApproval is the body of POST /purser/wallets/{id}/approve. Wallets are named by id or address.
type NewApproval struct {
	Amount string `json:"amount"` // that Permit2 may move in all, in the smallest unit; "0": nothing
	// Network is that of the wallet; "": it is not compared.
	Network string `json:"network,omitempty"`
	// MaxFee bounds the price of a unit of gas, in wei.
	MaxFee string `json:"max_fee,omitempty"`
	// MaxCost bounds the cost of each transaction, in wei. Without both, the network's own bound holds.
	MaxCost string `json:"max_cost,omitempty"`
}

// ApprovalPlan answers POST /purser/wallets/{id}/approve/plan: what the order would do.
type ApprovalPlan struct {
	WalletID  string `json:"wallet_id"`
	Network   string `json:"network"`
	From      string `json:"from"`
	Spender   string `json:"spender"` // Permit2
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
	Allowance string `json:"allowance"` // what Permit2 may move now
	// Cost is that of the transaction; nil if none is needed.
	Cost *TransactionCost `json:"cost,omitempty"`
}

// Approved answers POST /purser/wallets/{id}/approve.
type Approved struct {
	WalletID  string `json:"wallet_id"`
	Network   string `json:"network"`
	From      string `json:"from"`
	Spender   string `json:"spender"`
	Currency  string `json:"currency"`
	Was       string `json:"allowance_before"`
	Allowance string `json:"allowance"`
	// Transaction is "" if none was needed. Mined says that it is in a block.
	Transaction string `json:"transaction,omitempty"`
	Mined       bool   `json:"mined"`
	Cost        string `json:"cost,omitempty"` // of the transaction, in wei
	Coin        string `json:"coin"`
}

// approval reads an order.
func (p *Purser) approval(r *http.Request, want NewApproval) (o treasury.AllowanceOrder, n x402.Network, err error) {
	if o.Wallet, err = p.findWallet(r.Context(), r.PathValue("id")); err != nil {
		return o, n, err
	}
	n, known := x402.NetworkByWire(o.Wallet.Network)
	switch {
	case o.Wallet.Address == nil:
		return o, n, pay.ErrNoAddress
	case !known || want.Network != "" && want.Network != n.Name:
		return o, n, Errorf(http.StatusBadRequest, "network: the wallet is on %s", o.Wallet.Network)
	}
	if o.Amount, err = money.Parse(want.Amount); err != nil {
		return o, n, Errorf(http.StatusBadRequest, "amount: %w", err)
	}
	o.MaxFee, o.MaxCost, err = maxFees(want.MaxFee, want.MaxCost)
	return o, n, err
}

func (p *Purser) planApproval(r *http.Request, want NewApproval) (any, error) {
	o, n, err := p.approval(r, want)
	if err != nil {
		return nil, err
	}
	plan, err := treasury.Of(p.Payer).PlanAllowance(r.Context(), o)
	if err != nil {
		return nil, err
	}
	return ApprovalPlan{
		WalletID: o.Wallet.ID, Network: n.Name, From: o.Wallet.Address.String(), Spender: x402.Permit2.String(),
		Amount: o.Amount.String(), Currency: plan.Asset.Symbol, Allowance: plan.Have.String(), Cost: shownCost(plan.Cost),
	}, nil
}

func (p *Purser) approve(r *http.Request, want NewApproval) (any, error) {
	o, n, err := p.approval(r, want)
	if err != nil {
		return nil, err
	}
	// An operator who has said yes gets it done, although the command ends.
	done, err := treasury.Of(p.Payer).Allow(context.WithoutCancel(r.Context()), o)
	if err != nil {
		return nil, err
	}
	shown := Approved{
		WalletID: o.Wallet.ID, Network: n.Name, From: o.Wallet.Address.String(), Spender: x402.Permit2.String(),
		Currency: done.Asset.Symbol, Was: done.Was.String(), Allowance: done.Have.String(),
		Transaction: done.Transaction, Mined: done.Mined != nil, Coin: n.Coin,
	}
	if done.Mined != nil {
		shown.Cost = done.Mined.Cost.String()
	}
	return shown, nil
}
