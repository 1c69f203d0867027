package chain_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

func TestSafe(t *testing.T) {
	t.Parallel()
	n := onBase()
	c := connect(t, n, chain.Options{})
	for _, step := range []struct {
		noSafe bool
		want   uint64
	}{{false, n.safe}, {true, n.safe - 10}} {
		n.noSafe = step.noSafe
		b, err := c.Safe(t.Context(), base)
		if err != nil || b.Number != step.want || b.Hash != hash(step.want) || b.Time.Unix() != n.time(step.want) {
			t.Errorf("%+v, %v; want block %d", b, err, step.want)
		}
	}
	if b, err := connect(t, says(200, `{}`), chain.Options{}).Safe(t.Context(), base); err == nil || b != (pay.ChainBlock{}) {
		t.Errorf("%+v, %v", b, err)
	}
}

// A network without an RPC has no evidence, whatever is asked.
func TestNetworksWithoutAnRPC(t *testing.T) {
	t.Parallel()
	all := chain.Networks{"polygon": connect(t, says(200, `{}`), chain.Options{})}
	_, identify := all.Identify(t.Context(), base, usdc)
	_, balance := all.Balance(t.Context(), base, usdc, x402.Address{})
	_, trace := all.Trace(t.Context(), pay.TraceQuery{Network: base, Asset: usdc})
	_, head := all.Head(t.Context(), base)
	_, safe := all.Safe(t.Context(), base)
	_, before := all.Before(t.Context(), base, time.Now())
	_, used := all.Used(t.Context(), pay.UsedQuery{Network: base})
	_, account := all.AccountState(t.Context(), base, x402.Address{})
	_, fees := all.Fees(t.Context(), base)
	_, gas := all.EstimateGas(t.Context(), base, treasury.Transaction{})
	_, data := all.DataFee(t.Context(), base, treasury.Transaction{})
	_, mined := all.Mined(t.Context(), base, "")
	send := all.Send(t.Context(), base, treasury.SignedTransaction{})
	for name, err := range map[string]error{
		"identify": identify, "balance": balance, "trace": trace, "head": head, "safe": safe, "before": before, "used": used,
		"account": account, "fees": fees, "gas": gas, "data fee": data, "mined": mined, "send": send,
	} {
		if !errors.Is(err, pay.ErrUnwatched) {
			t.Errorf("%s: %v", name, err)
		}
	}
	polygon, _ := x402.NetworkByWire("polygon")
	if _, err := all.Head(t.Context(), polygon); err == nil || errors.Is(err, pay.ErrUnwatched) {
		t.Errorf("the RPC of polygon: %v", err)
	}
}

// A network whose nodes know no safe block is asked for its final one at once.
func TestSafeTagOfNetwork(t *testing.T) {
	t.Parallel()
	polygon, _ := x402.NetworkByWire("polygon")
	n := onBase()
	if b, err := connect(t, n, chain.Options{}).Safe(t.Context(), polygon); err != nil || b.Number != n.safe-10 {
		t.Errorf("%+v, %v", b, err)
	}
}
