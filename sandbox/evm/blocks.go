package evm

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/miner"
)

// finalEvery is the number of blocks from one finalized block to the next.
const finalEvery = 32

// often is the time between two looks at the pool and the clock.
const often = 20 * time.Millisecond

// produce makes the blocks of the chain until ctx ends. No other goroutine adds blocks.
func (c *Chain) produce(ctx context.Context) error {
	var asked []chan struct{} // calls of Mine that wait
	for ctx.Err() == nil {
		head := c.eth.BlockChain().CurrentBlock()
		now := c.now()
		waiting, _ := c.eth.TxPool().Stats()
		wait := untilNextBlock(head.Time, now, waiting > 0 || len(asked) > 0)
		if wait <= 0 {
			if err := c.seal(ctx, head, now); err != nil {
				return fmt.Errorf("make block %d: %w", head.Number.Uint64()+1, err)
			}
			for _, done := range asked {
				close(done)
			}
			asked = nil
			continue
		}
		select {
		case <-ctx.Done():
		case done := <-c.mine:
			asked = append(asked, done)
		case <-time.After(min(wait, often)):
		}
	}
	return nil
}

// untilNextBlock returns the time to wait before the next block. headTime is the time of the last
// block in Unix seconds.
//
// Block times are whole seconds, each later than its parent's. When a block is wanted, it comes at
// once unless the chain is ahead of the clock. A payment after an idle second thus does not wait,
// and the chain leads by a second at most. Without a want, a block comes when its second has begun,
// because an idle chain must not show a stale time.
func untilNextBlock(headTime uint64, now time.Time, wanted bool) time.Duration {
	due := time.Unix(int64(headTime), 0)
	if !wanted {
		due = due.Add(time.Second)
	}
	return due.Sub(now)
}

// seal makes a block of the pool's transactions, makes it the head, and sends the receipts to the
// waiting callers.
func (c *Chain) seal(ctx context.Context, head *types.Header, now time.Time) error {
	args := &miner.BuildPayloadArgs{
		Parent:      head.Hash(),
		Timestamp:   nextBlockTime(head.Time, now),
		Withdrawals: types.Withdrawals{},
		BeaconRoot:  &common.Hash{},
	}
	if _, err := rand.Read(args.Random[:]); err != nil {
		return fmt.Errorf("draw the block's random value: %w", err)
	}
	block, _, err := c.eth.Miner().BuildTestingPayload(args, nil, false, nil)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	chain := c.eth.BlockChain()
	if _, err := chain.InsertBlockWithoutSetHead(context.WithoutCancel(ctx), block, false); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	if _, err := chain.SetCanonical(block); err != nil {
		return fmt.Errorf("set as head: %w", err)
	}
	chain.SetSafe(block.Header())
	if block.NumberU64()%finalEvery == 0 {
		chain.SetFinalized(block.Header())
	}
	// The pool follows the chain in the background. Until it has caught up, it still offers
	// transactions of this block.
	if err := c.eth.TxPool().Sync(); err != nil {
		return fmt.Errorf("wait for the transaction pool: %w", err)
	}
	for _, receipt := range chain.GetReceiptsByHash(block.Hash()) {
		c.announce(receipt)
	}
	return nil
}

// nextBlockTime returns the time of a block that is made now, in Unix seconds.
func nextBlockTime(headTime uint64, now time.Time) uint64 {
	return max(headTime+1, uint64(now.Unix()))
}

// Mine waits for a block that was begun after the call. The block comes at once, or within a second
// when the chain is ahead of the clock.
func (c *Chain) Mine(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case c.mine <- done:
	case <-c.done:
		return c.stopped()
	case <-ctx.Done():
		return fmt.Errorf("ask for a block: %w", ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-c.done:
		return c.stopped()
	case <-ctx.Done():
		return fmt.Errorf("wait for a block: %w", ctx.Err())
	}
}

// stopped says why no more blocks come. It must only be called once c.done is closed.
func (c *Chain) stopped() error {
	if c.failed != nil {
		return fmt.Errorf("%w: %w", ErrClosed, c.failed)
	}
	return ErrClosed
}

// await registers for a transaction's receipt. The caller must call it before the transaction can
// be mined, and forget afterwards.
func (c *Chain) await(tx common.Hash) <-chan *types.Receipt {
	ch := make(chan *types.Receipt, 1)
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	c.waiters[tx] = ch
	return ch
}

func (c *Chain) forget(tx common.Hash) {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	delete(c.waiters, tx)
}

func (c *Chain) announce(receipt *types.Receipt) {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	if ch, ok := c.waiters[receipt.TxHash]; ok {
		ch <- receipt // the channel has room, and a transaction is mined once
	}
}
