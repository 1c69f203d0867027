package chain

import (
	"context"
	"fmt"
	"math/big"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

var (
	_ pay.Allowances = (*Client)(nil)
	_ pay.Allowances = Networks(nil)
)

const selectorAllowance = "dd62ed3e" // allowance(address,address)

// Allowance returns how much of the owner's tokens a spender may move, at the latest block.
func (c *Client) Allowance(ctx context.Context, _ x402.Network, a x402.Asset, owner, spender x402.Address) (money.Amount, error) {
	word, err := c.tokenCall(ctx, a.Address, atLatest, selectorAllowance, addressWord(owner), addressWord(spender))
	if err != nil {
		return money.Amount{}, fmt.Errorf("allowance of %s for %s: %w", owner, spender, err)
	}
	amount, _ := money.FromBig(new(big.Int).SetBytes(word[:])) // 32 bytes always fit
	return amount, nil
}

// Allowance is Client.Allowance of the network's RPC.
func (all Networks) Allowance(ctx context.Context, n x402.Network, a x402.Asset, owner, spender x402.Address) (money.Amount, error) {
	return of(all, n, func(c Reader) (money.Amount, error) { return c.Allowance(ctx, n, a, owner, spender) })
}
