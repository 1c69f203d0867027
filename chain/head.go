package chain

import (
	"context"
	"fmt"

	"github.com/purserpay/purser/pay"
)

// Safe returns the newest safe block: the RPC's `safe` block, or its `finalized` one when it does
// not know `safe`. No reorganization is expected to remove it.
func (c *Client) Safe(ctx context.Context) (pay.ChainBlock, error) {
	b, err := c.safeBlock(ctx)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("safe block: %w", err)
	}
	return chainBlock(b), nil
}

// Head returns the newest block that the RPC has.
func (c *Client) Head(ctx context.Context) (pay.ChainBlock, error) {
	b, err := c.block(ctx, atLatest)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("latest block: %w", err)
	}
	return chainBlock(b), nil
}
