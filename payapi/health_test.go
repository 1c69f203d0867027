package payapi_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// hanging is an RPC that stops answering on command.
type hanging struct {
	pay.Chain
	hangs          atomic.Bool
	asked          chan struct{} // one for every question that hangs
	asking, gaveUp atomic.Int64
}

func (h *hanging) Identify(ctx context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	h.asking.Add(1)
	defer h.asking.Add(-1)
	if h.hangs.Load() {
		h.asked <- struct{}{}
		<-ctx.Done()
		h.gaveUp.Add(1)
		return pay.ChainIdentity{}, ctx.Err()
	}
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: "0x" + strings.Repeat("01", 32)}, nil
}

// A readiness probe must not fail while a dependency hangs. The answer comes before the
// dependency's timeout.
func TestHealthWhileADependencyHangs(t *testing.T) {
	t.Parallel()
	rpc := &hanging{asked: make(chan struct{}, 100)}
	rpc.hangs.Store(true)
	w := newWorld(t, func(s *setup) { s.pay.Chain = rpc })
	answers := make(chan answer)
	for range 3 {
		go func() {
			a, err := w.try(t.Context(), "GET", "/health", "", nil)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	for range 3 {
		a := <-answers
		if n := rpc.gaveUp.Load(); n != 0 {
			t.Fatalf("answered only when the RPC had been given up %d times", n)
		}
		a.is(200, "").want("ok", true).want("rpc.configured", true).want("rpc.ok", false).want("rpc.error", "no answer yet")
	}
	if n := len(rpc.asked); n != 1 {
		t.Fatalf("%d probes at the same time", n)
	}
	<-rpc.asked

	rpc.hangs.Store(false)
	w.eventually("the first probe is given up", func() bool { return rpc.gaveUp.Load() == 1 })
	w.eventually("the RPC is well", func() bool {
		w.clock.advance(11 * time.Second)
		return w.call("GET", "/health", "", nil).is(200, "").at("rpc.ok") == true
	})

	// While a probe hangs, the last result is shown.
	rpc.hangs.Store(true)
	w.eventually("the RPC is asked again", func() bool {
		w.clock.advance(11 * time.Second)
		w.call("GET", "/health", "", nil).is(200, "").want("rpc.ok", true)
		return len(rpc.asked) == 1
	})
	for range 3 {
		w.call("GET", "/health", "", nil).is(200, "").want("rpc.ok", true)
	}
	if n := rpc.gaveUp.Load(); n != 1 {
		t.Fatalf("the RPC was given up %d times", n)
	}

	// Closing ends the probe and does not wait for the RPC.
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rpc.asking.Load(); n != 0 {
		t.Fatalf("%d probes are left behind", n)
	}
	if n := rpc.gaveUp.Load(); n != 2 {
		t.Fatalf("the last probe was not ended: %d", n)
	}
}
