// Package metrics counts what a purser does, and reads in the background what is slow to read.
package metrics

import (
	"context"
	"errors"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/pay"
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
type Chain struct{ *chain.Client }

// Identify implements [pay.Chain].
func (c Chain) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	id, err := c.Client.Identify(ctx, n, a)
	rpcAsked(ctx, "identify", err)
	return id, err
}

// Balance implements [pay.Chain].
func (c Chain) Balance(ctx context.Context, a x402.Asset, owner x402.Address) (x402.Amount, error) {
	have, err := c.Client.Balance(ctx, a, owner)
	rpcAsked(ctx, "balance", err)
	return have, err
}

// Trace implements [pay.Chain].
func (c Chain) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, err := c.Client.Trace(ctx, q)
	rpcAsked(ctx, "trace", err)
	return t, err
}

// Head implements [pay.Header].
func (c Chain) Head(ctx context.Context) (pay.ChainBlock, error) {
	b, err := c.Client.Head(ctx)
	rpcAsked(ctx, "head", err)
	return b, err
}

func rpcAsked(ctx context.Context, question string, err error) {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return // the caller has left, which says nothing about the RPC
	}
	result := callOK
	if err != nil {
		result = callError
	}
	Process.RPC.WithLabelValues(question, result).Inc()
}

var (
	_ pay.Chain        = Chain{}
	_ pay.ChainScanner = Chain{}
	_ pay.Header       = Chain{}
)
