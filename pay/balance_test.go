package pay_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// hangingChain tells no balances while it hangs.
type hangingChain struct {
	pay.Chain
	hangs atomic.Bool
	asked atomic.Int64
}

func (c *hangingChain) Balance(ctx context.Context, a x402.Asset, owner x402.Address) (x402.Amount, error) {
	c.asked.Add(1)
	if c.hangs.Load() {
		<-ctx.Done()
		return x402.Amount{}, ctx.Err()
	}
	return c.Chain.Balance(ctx, a, owner)
}

// An RPC that hangs keeps the first few payments for a moment and those after them not at
// all; now and then one finds out how it is.
func TestHangingRPC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var chain *hangingChain
		w := newWorld(t, func(o *pay.Options) {
			chain = &hangingChain{Chain: o.Chain}
			o.Chain = chain
		})
		chain.hangs.Store(true)
		took := func(n int) time.Duration {
			t.Helper()
			began := time.Now()
			a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", n), "5", ""))
			if err != nil {
				t.Error(err)
				return 0
			}
			a.Finish(true)
			return time.Since(began)
		}
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				if d := took(n); d < 2*time.Second || d > 10*time.Second {
					t.Errorf("one of the first took %s", d)
				}
			})
		}
		all.Wait()
		asked := chain.asked.Load()
		for n := range 20 {
			if d := took(100 + n); d > time.Second {
				t.Errorf("took %s", d)
			}
		}
		if n := chain.asked.Load() - asked; n != 0 {
			t.Errorf("asked %d times", n)
		}
		chain.hangs.Store(false)
		w.chain.advance(6 * time.Second)
		took(200)
		took(201)
		if chain.asked.Load() == asked {
			t.Error("never asked again")
		}
	})
}
