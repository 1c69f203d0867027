package tempo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// maxTopics bounds the wallets in one filter, because RPCs limit its size.
const maxTopics = 100

// Used lists what wallets have paid in a range of blocks: a transaction with a memo is one payment, of all that it has
// moved out of the wallet. When the RPC refuses the range, Used asks for a smaller one. In the end it identifies the RPC
// and checks the blocks.
func (c *Client) Used(ctx context.Context, q pay.UsedQuery) (a pay.UsedAnswer, err error) {
	if q.From > q.To || q.To > q.Safe.Number {
		return a, fmt.Errorf("transfers in blocks %d to %d: not a range of final blocks", q.From, q.To)
	}
	if a.Size = q.Size; a.Size == 0 || a.Size > chain.MaxRange {
		a.Size = chain.MaxRange
	}
	var logs []chain.LogEntry
	for {
		a.Through = min(q.From+a.Size-1, q.To)
		logs, err = c.walletLogs(ctx, q, a.Through)
		if err == nil {
			break
		}
		if asked := a.Through - q.From + 1; asked > 1 && chain.TooLarge(err) && ctx.Err() == nil {
			a.Size = asked / 2
			continue
		}
		return pay.UsedAnswer{}, fmt.Errorf("transfers in blocks %d to %d: %w", q.From, a.Through, err)
	}
	if err = c.group(ctx, logs, &a); err == nil {
		basis := []pay.ChainBlock{q.Safe}
		if q.Known != nil {
			basis = append(basis, *q.Known)
		}
		a.Chain, err = c.Prove(ctx, q.Network, q.Asset, basis...)
	}
	if err != nil {
		return pay.UsedAnswer{}, fmt.Errorf("transfers in blocks %d to %d: %w", q.From, a.Through, err)
	}
	return a, nil
}

// walletLogs reads the wallets' transfers, with and without a memo, in the order of the chain.
func (c *Client) walletLogs(ctx context.Context, q pay.UsedQuery, to uint64) (all []chain.LogEntry, err error) {
	for wallets := range slices.Chunk(q.Wallets, maxTopics) {
		topics := make([]string, len(wallets))
		for i, w := range wallets {
			topics[i] = chain.AddressTopic(w)
		}
		var logs []chain.LogEntry
		err := c.Call(ctx, &logs, "eth_getLogs", map[string]any{
			"address": q.Asset.Address, "topics": []any{[]string{topicMemo, chain.TopicTransfer}, topics},
			"fromBlock": chain.Quantity(q.From), "toBlock": chain.Quantity(to),
		})
		if err != nil {
			return nil, err
		}
		for i, l := range logs {
			named := len(l.Topics) == 4 && strings.EqualFold(l.Topics[0], topicMemo) || len(l.Topics) == 3 && strings.EqualFold(l.Topics[0], chain.TopicTransfer)
			if !named || l.Address != q.Asset.Address || l.Removed || uint64(l.BlockNumber) < q.From || uint64(l.BlockNumber) > to ||
				!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) || !slices.Contains(topics, strings.ToLower(l.Topics[1])) {
				return nil, errOtherLogs
			}
			logs[i].Transaction, logs[i].BlockHash = strings.ToLower(l.Transaction), strings.ToLower(l.BlockHash)
		}
		all = append(all, slices.DeleteFunc(logs, ofNothing)...)
	}
	slices.SortStableFunc(all, func(a, b chain.LogEntry) int {
		return cmp.Or(cmp.Compare(a.BlockNumber, b.BlockNumber), cmp.Compare(a.Index, b.Index))
	})
	return all, nil
}

// group makes one payment of the logs of a wallet in a transaction. Without a memo, they are unexplained.
func (c *Client) group(ctx context.Context, logs []chain.LogEntry, a *pay.UsedAnswer) error {
	type of struct {
		transaction string
		from        string
	}
	var order []of
	found := map[of]*pay.UsedAuthorization{}
	for _, l := range logs {
		k := of{l.Transaction, strings.ToLower(l.Topics[1])}
		u := found[k]
		if u == nil {
			u = &pay.UsedAuthorization{Transaction: l.Transaction, Rail: Number}
			var err error
			if u.From, err = chain.TopicAddress(k.from); err != nil {
				return err
			}
			if u.Block, err = c.blockOf(ctx, l); err != nil {
				return err
			}
			found[k], order = u, append(order, k)
		}
		to, err := chain.TopicAddress(strings.ToLower(l.Topics[2]))
		if err != nil {
			return err
		}
		value, err := x402.ParseNonce(l.Data) // any 32 bytes
		if err != nil {
			return errOtherLogs
		}
		if len(l.Topics) == 3 {
			amount := money.FromBytes32(value)
			if u.Value = u.Value.AddSaturated(amount); to == feeManager {
				u.Fee = u.Fee.AddSaturated(amount)
			}
			if u.To.IsZero() {
				u.To = to
			}
			continue
		}
		memo, err := x402.ParseNonce(l.Topics[3])
		if err != nil {
			return errOtherLogs
		}
		if !u.Matched { // the first call has the memo that counts
			u.Matched, u.To, u.Nonce = true, to, memo
		}
	}
	for _, k := range order {
		switch u := found[k]; {
		case u.Matched:
			a.Used = append(a.Used, *u)
		case !u.Value.IsZero():
			a.Unexplained = append(a.Unexplained, *u)
		}
	}
	return nil
}

// blockOf reads the final block of a log.
func (c *Client) blockOf(ctx context.Context, l chain.LogEntry) (pay.ChainBlock, error) {
	h, err := c.final(ctx, uint64(l.BlockNumber))
	if err == nil && h.hash != l.BlockHash {
		c.seen.Remove(h.number)
		err = fmt.Errorf("block %d is %s, and its log says %s", h.number, h.hash, l.BlockHash)
	}
	return block(h), err
}
