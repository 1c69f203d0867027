package chain

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
)

// Block names a block of the chain.
type Block struct {
	Number uint64
	Hash   string // 0x + 64 hex, lower case
	Time   time.Time
}

// SafeBlock is the newest block that no reorganization is expected to take back: the one
// that the RPC holds to be safe, or else the finalized one.
func (c *Client) SafeBlock(ctx context.Context) (Block, error) {
	b, err := c.safeBlock(ctx)
	if err != nil {
		return Block{}, fmt.Errorf("safe block: %w", err)
	}
	return Block{Number: uint64(b.Number), Hash: b.Hash, Time: time.Unix(int64(b.Time), 0).UTC()}, nil
}

// Head is the newest block that the RPC has.
func (c *Client) Head(ctx context.Context) (pay.ChainBlock, error) {
	b, err := c.block(ctx, atLatest)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("latest block: %w", err)
	}
	return named(b), nil
}
