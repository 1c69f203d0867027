package pay_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// slowTraces counts traces by nonce, and holds those of its node back.
type slowTraces struct {
	pay.Chain
	mu      sync.Mutex
	traced  map[x402.Nonce]int
	entered chan struct{}
	goOn    chan struct{} // nil: they are not held back
}

func (c *slowTraces) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	c.mu.Lock()
	c.traced[q.Authorization.Nonce]++
	c.mu.Unlock()
	if c.goOn != nil {
		select {
		case c.entered <- struct{}{}:
		default:
		}
		<-c.goOn
	}
	return c.Chain.Trace(ctx, q)
}

// Two nodes find the same payments due. Each payment is looked at once.
func TestRecoveryOfTwoNodesLooksOnce(t *testing.T) {
	t.Parallel()
	const payments = 30
	w := newWorld(t, nil)
	var ids []string
	for n := range payments {
		ids = append(ids, w.mustBuy(fmt.Sprintf("https://h%d.example.com/", n), "5", "", false).ID)
	}
	counted := func(slow bool) (*slowTraces, *pay.Payer) {
		c := &slowTraces{Chain: w.opts.Chain, traced: map[x402.Nonce]int{}, entered: make(chan struct{}, 1)}
		if slow {
			c.goOn = make(chan struct{})
		}
		o := w.opts
		o.Chain = c
		return c, must(pay.New(o))
	}
	slow, a := counted(true)
	_, b := counted(false)
	w.chain.advance(25e9)
	done := make(chan int, 1)
	go func() { n, _ := a.RecoverOnce(context.Background()); done <- n }()
	<-slow.entered // it has its list
	if _, err := b.RecoverOnce(t.Context()); err != nil {
		t.Error(err)
	}
	close(slow.goOn)
	<-done
	twice := 0
	for _, id := range ids {
		if p := w.payment(id); p.Checks > 1 {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d of %d payments were looked at twice, and wait twice as long for the next look", twice, payments)
	}
}
