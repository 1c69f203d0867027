package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// coded is an RPC that tells of wallets' code.
type coded struct {
	*truth
	code  pay.WalletCode
	err   error
	asked atomic.Int32
}

func (c *coded) Code(
	ctx context.Context, _ x402.Network, _ x402.Asset, owner x402.Address, sign func(context.Context) ([32]byte, x402.Signature, error),
) (pay.WalletCode, error) {
	c.asked.Add(1)
	if c.err != nil || c.code.Kind == "" {
		return c.code, c.err
	}
	digest, sig, err := sign(ctx)
	if from, bad := x402.Recover(digest, sig); err == nil && (bad != nil || from != owner) {
		err = errors.New("not a signature of the wallet")
	}
	return c.code, err
}

// A wallet whose code refuses its signatures pays nothing, and nothing is signed. Code that accepts them, no code,
// and an RPC that does not tell hold nothing up. The answer is remembered, a refusal for half a minute.
func TestWalletCode(t *testing.T) {
	t.Parallel()
	chain := &coded{}
	w := newWorld(t, func(o *pay.Options) { o.Chain, chain.truth = chain, o.Chain.(*truth) })
	calls := 0
	pays := func() error {
		calls++
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", calls), "100", ""))
		return err
	}
	chain.code = pay.WalletCode{Kind: "a delegation"}
	for range 3 {
		var refused *pay.WalletCodeError
		if err := pays(); !errors.As(err, &refused) || pay.Code(refused) != pay.CodeWalletCode {
			t.Fatal(err)
		}
	}
	if n := chain.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	chain.code = pay.WalletCode{} // the operator has removed it
	w.chain.advance(31 * time.Second)
	for range 3 {
		if err := pays(); err != nil {
			t.Fatal(err)
		}
	}
	if n := chain.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	chain.code = pay.WalletCode{Kind: "a delegation", Accepts: true}
	w.chain.advance(11 * time.Minute)
	if err := pays(); err != nil || chain.asked.Load() != 3 {
		t.Errorf("%v, asked %d times", err, chain.asked.Load())
	}
	chain.err = errors.New("the RPC is down")
	w.chain.advance(11 * time.Minute)
	if err := pays(); err != nil || chain.asked.Load() != 4 {
		t.Errorf("%v, asked %d times", err, chain.asked.Load())
	}
}
