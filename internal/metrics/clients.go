// Package metrics counts what a purser does, and reads in the background what is slow to read.
package metrics

import (
	"context"
	"errors"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Results of calls of a facilitator and an RPC.
const (
	callOK      = "ok"
	callRefused = "refused" // the facilitator said no
	callError   = "error"   // no verdict, or no answer
)

// Facilitator counts the calls of a facilitator.
func Facilitator(f pay.Facilitator) pay.Facilitator {
	m := meteredFacilitator{f}
	if b, ok := f.(pay.Breaking); ok {
		return struct {
			meteredFacilitator
			pay.Breaking
		}{m, b}
	}
	return m
}

type meteredFacilitator struct{ pay.Facilitator }

func (f meteredFacilitator) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	a, err := f.Facilitator.Verify(ctx, x)
	facilitatorCalled("verify", a.Valid, err)
	return a, err
}

func (f meteredFacilitator) Settle(ctx context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	a, err := f.Facilitator.Settle(ctx, x)
	facilitatorCalled("settle", a.Success, err)
	return a, err
}

func (f meteredFacilitator) Probe(ctx context.Context) error {
	err := f.Facilitator.Probe(ctx)
	facilitatorCalled("probe", true, err)
	return err
}

func facilitatorCalled(call string, yes bool, err error) {
	result := callOK
	switch {
	case err != nil:
		result = callError
	case !yes:
		result = callRefused
	}
	Process.Facilitator.WithLabelValues(call, result).Inc()
}

// Chain counts the questions to an RPC. Each takes one or several calls.
type Chain struct{ chain.Networks }

// Identify implements [pay.Chain].
func (c Chain) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	id, err := c.Networks.Identify(ctx, n, a)
	rpcAsked(ctx, n, "identify", err)
	return id, err
}

// Allowance implements [pay.Allowances].
func (c Chain) Allowance(ctx context.Context, n x402.Network, a x402.Asset, owner, spender x402.Address) (money.Amount, error) {
	have, err := c.Networks.Allowance(ctx, n, a, owner, spender)
	rpcAsked(ctx, n, "allowance", err)
	return have, err
}

// Code implements [pay.Codes].
func (c Chain) Code(
	ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, sign func(context.Context) ([32]byte, x402.Signature, error),
) (pay.WalletCode, error) {
	code, err := c.Networks.Code(ctx, n, a, owner, sign)
	rpcAsked(ctx, n, "code", err)
	return code, err
}

// Balance implements [pay.Chain].
func (c Chain) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	have, err := c.Networks.Balance(ctx, n, a, owner)
	rpcAsked(ctx, n, "balance", err)
	return have, err
}

// Trace implements [pay.Chain].
func (c Chain) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, err := c.Networks.Trace(ctx, q)
	rpcAsked(ctx, q.Network, "trace", err)
	return t, err
}

// Head implements [pay.Header].
func (c Chain) Head(ctx context.Context, n x402.Network) (pay.ChainBlock, error) {
	b, err := c.Networks.Head(ctx, n)
	rpcAsked(ctx, n, "head", err)
	return b, err
}

func rpcAsked(ctx context.Context, n x402.Network, question string, err error) {
	if errors.Is(err, pay.ErrUnwatched) || err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return // there is none, or the caller has left, which says nothing about the RPC
	}
	result := callOK
	if err != nil {
		result = callError
	}
	Process.RPC.WithLabelValues(n.Name, question, result).Inc()
}

var (
	_ pay.Chain             = Chain{}
	_ pay.ChainScanner      = Chain{}
	_ treasury.ChainHistory = Chain{}
	_ pay.Header            = Chain{}
)
