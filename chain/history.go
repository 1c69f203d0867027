package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

var _ treasury.ChainHistory = (*Client)(nil)

// LastBefore finds the last safe block before a moment.
func (c *Client) LastBefore(ctx context.Context, n x402.Network, moment time.Time) (pay.ChainBlock, error) {
	safe, err := c.safeBlock(ctx, n)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("safe block: %w", err)
	}
	goal := moment.Unix() // block times are whole seconds
	if moment.Nanosecond() == 0 {
		goal--
	}
	number, err := c.lastOf(ctx, uint64(max(0, goal)), safe, 0)
	if err == nil {
		var b header
		if b, err = c.blockNumbered(ctx, number); err == nil {
			return chainBlock(b), nil
		}
	}
	return pay.ChainBlock{}, fmt.Errorf("last block before %s: %w", moment.UTC().Format(time.RFC3339), err)
}

// BlockTime returns the time of a block.
func (c *Client) BlockTime(ctx context.Context, _ x402.Network, number uint64) (time.Time, error) {
	b, err := c.blockNumbered(ctx, number)
	return chainBlock(b).Time, err
}

// BalanceAt returns the owner's token balance at a block. RPCs may refuse old blocks.
func (c *Client) BalanceAt(ctx context.Context, _ x402.Network, a x402.Asset, owner x402.Address, b pay.ChainBlock) (money.Amount, error) {
	got, err := c.tokenCall(ctx, a.Address, atBlock(headerOf(b)), selectorBalanceOf, addressWord(owner))
	if err != nil {
		return money.Amount{}, fmt.Errorf("balance of %s at block %d: %w", owner, b.Number, err)
	}
	amount, _ := money.FromBig(new(big.Int).SetBytes(got[:])) // 32 bytes always fit
	return amount, nil
}

// Transfers lists the transfers from and to some wallets in a range of blocks. When the RPC refuses the
// range, Transfers asks for a smaller one.
func (c *Client) Transfers(ctx context.Context, q treasury.TransfersQuery) (a treasury.TransfersAnswer, err error) {
	if q.From > q.To {
		return a, errors.New("transfers: not a range of blocks")
	}
	if a.Size = q.Size; a.Size == 0 || a.Size > maxGrown {
		a.Size = maxRange
	}
	for {
		a.Through = min(q.From+a.Size-1, q.To)
		if a.Transfers, err = c.transfersOf(ctx, q, a.Through); err == nil {
			return a, nil
		}
		asked := a.Through - q.From + 1
		if asked == 1 && mayBeTooLarge(err) && ctx.Err() == nil { // any account can fill a block with transfers of nothing
			if a.Transfers, err = c.transfersOfBlock(ctx, q); err == nil {
				return a, nil
			}
		}
		if !mayBeTooLarge(err) || asked == 1 || ctx.Err() != nil {
			return a, fmt.Errorf("transfers in blocks %d to %d: %w", q.From, a.Through, err)
		}
		a.Size = asked / 2
	}
}

// transfersOf reads the wallets' transfers in both directions, in the order of the chain.
func (c *Client) transfersOf(ctx context.Context, q treasury.TransfersQuery, to uint64) ([]treasury.Transfer, error) {
	return transfersBy(q, to, func(at int, wallets []string) (logs []transferLog, err error) {
		topics := []any{topicTransfer, nil, wallets}
		if at == 1 {
			topics = []any{topicTransfer, wallets}
		}
		return logs, c.call(ctx, &logs, "eth_getLogs", map[string]any{
			"address": q.Asset.Address, "topics": topics, "fromBlock": quantity(q.From), "toBlock": quantity(to),
		})
	})
}

// transfersOfBlock is transfersOf for a block with more logs than the RPC lists at once.
func (c *Client) transfersOfBlock(ctx context.Context, q treasury.TransfersQuery) ([]treasury.Transfer, error) {
	all, err := c.logsOf(ctx, q.From, q.Asset)
	if err != nil {
		return nil, err
	}
	return transfersBy(q, q.From, func(at int, wallets []string) (logs []transferLog, _ error) {
		for _, l := range all {
			if len(l.Topics) == 3 && strings.EqualFold(l.Topics[0], topicTransfer) && slices.Contains(wallets, strings.ToLower(l.Topics[at])) {
				logs = append(logs, l)
			}
		}
		return logs, nil
	})
}

// transfersBy lists the transfers in the logs that read returns. They have one of some wallets at a place
// of their topics.
func transfersBy(q treasury.TransfersQuery, to uint64, read func(at int, wallets []string) ([]transferLog, error)) ([]treasury.Transfer, error) {
	type place struct{ block, index uint64 }
	found := map[place]treasury.Transfer{}
	for wallets := range slices.Chunk(q.Wallets, maxTopics) {
		topics := make([]string, len(wallets))
		for i, w := range wallets {
			topics[i] = addressTopic(w)
		}
		for _, at := range []int{1, 2} { // from them, and to them
			logs, err := read(at, topics)
			if err != nil {
				return nil, err
			}
			for _, l := range logs {
				t, err := l.transfer(q, at, topics, to)
				if err != nil {
					return nil, err
				}
				if was, known := found[place{t.Block, t.Index}]; known && was != t {
					return nil, fmt.Errorf("%w: two logs at one place of block %d", errScan, t.Block)
				}
				found[place{t.Block, t.Index}] = t
			}
		}
	}
	list := make([]treasury.Transfer, 0, len(found))
	for _, t := range found {
		if !t.Value.IsZero() { // any account can make transfers of nothing
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b treasury.Transfer) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Index, b.Index))
	})
	return list, nil
}

// transfer reads a log, and refuses one that the filter does not select: at a place of its topics it has
// one of the wallets.
func (l *transferLog) transfer(q treasury.TransfersQuery, at int, wallets []string, to uint64) (t treasury.Transfer, err error) {
	if l.Address != q.Asset.Address || l.Removed || uint64(l.BlockNumber) < q.From || uint64(l.BlockNumber) > to ||
		!x402.ValidTransaction(l.Transaction) || len(l.Topics) != 3 || !strings.EqualFold(l.Topics[0], topicTransfer) ||
		!slices.Contains(wallets, strings.ToLower(l.Topics[at])) {
		return t, errScan
	}
	t = treasury.Transfer{Transaction: strings.ToLower(l.Transaction), Block: uint64(l.BlockNumber), Index: uint64(l.Index)}
	value, err := x402.ParseNonce(l.Data) // any 32 bytes
	if err != nil {
		return t, errScan
	}
	t.Value, _ = money.FromBig(new(big.Int).SetBytes(value[:])) // 32 bytes always fit
	if t.From, err = topicAddress(strings.ToLower(l.Topics[1])); err == nil {
		t.To, err = topicAddress(strings.ToLower(l.Topics[2]))
	}
	return t, err
}
