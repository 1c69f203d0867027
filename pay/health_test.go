package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Health tells of a network that nothing is paid on, because it has no RPC.
func TestHealthTellsOfNoRPC(t *testing.T) {
	t.Parallel()
	base, _ := x402.NetworkByWire("base")
	tempo, _ := x402.NetworkByWire("tempo")
	w := newWorld(t, func(o *pay.Options) { o.Chain, o.Networks = nil, []x402.Network{base, tempo} })
	h := w.payer.Health(t.Context())
	if n := h.Networks; h.RPC.OK || !errors.Is(h.RPC.Err, pay.ErrUnwatched) || n[0].Unready || n[0].RPC.Configured || !n[1].Unready || !errors.Is(n[1].RPC.Err, pay.ErrUnwatched) {
		t.Errorf("%+v", h)
	}
}

// deadChain answers nothing while it is dead.
type deadChain struct {
	pay.Chain
	dead atomic.Bool
}

var errDead = errors.New("connection refused")

func (c *deadChain) Identify(ctx context.Context, n x402.Network, a x402.Asset) (pay.ChainIdentity, error) {
	if c.dead.Load() {
		return pay.ChainIdentity{}, errDead
	}
	return c.Chain.Identify(ctx, n, a)
}

func (c *deadChain) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error) {
	if c.dead.Load() {
		return money.Amount{}, errDead
	}
	return c.Chain.Balance(ctx, n, a, owner)
}

// A person who looks at an RPC that has died or come back is told so by the first look, and not by the one after it. Payments
// that failed to ask it count, although the RPC was remembered as good.
func TestHealthTellsOfNow(t *testing.T) {
	t.Parallel()
	chain := new(deadChain)
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain = o.Chain, chain })
	var ahead atomic.Int64
	w.opts.Clock = func() time.Time { return w.chain.clock().Add(time.Duration(ahead.Load())) }
	w.restart()
	if h := w.payer.Health(t.Context()); !h.RPC.OK {
		t.Fatalf("before: %v", h.RPC.Err)
	}
	for n, dead := range []bool{true, false} {
		chain.dead.Store(dead)
		ahead.Add(int64(11 * time.Second))
		a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), "5", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		if h := w.payer.Health(t.Context()); h.RPC.OK == dead {
			t.Errorf("dead %v: %+v", dead, h.RPC)
		}
	}
}
