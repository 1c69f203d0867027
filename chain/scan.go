package chain

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// maxTopics is how many wallets are asked about at once: RPCs limit the size of a filter.
const maxTopics = 100

var _ pay.Ledger = (*Client)(nil)

// errScan: what the RPC answered cannot be the logs that were asked for.
var errScan = errors.New("the RPC answered other logs than asked for")

// Safe is the newest block that no reorganization is expected to take back: the one that
// the RPC holds to be safe, or else the finalized one.
func (c *Client) Safe(ctx context.Context) (pay.ChainBlock, error) {
	b, err := c.SafeBlock(ctx)
	return pay.ChainBlock(b), err
}

// Before finds a block that is not after a moment, nor after the safe block.
func (c *Client) Before(ctx context.Context, moment time.Time) (pay.ChainBlock, error) {
	b, err := c.before(ctx, moment)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("block at %s: %w", moment.UTC().Format(time.RFC3339), err)
	}
	return named(b), nil
}

func (c *Client) before(ctx context.Context, moment time.Time) (block, error) {
	safe, err := c.safeBlock(ctx)
	if err != nil {
		return block{}, err
	}
	n, err := c.startOf(ctx, moment, safe)
	if err != nil {
		return block{}, err
	}
	return c.blockNumbered(ctx, n)
}

func named(b block) pay.ChainBlock {
	return pay.ChainBlock{Number: uint64(b.Number), Hash: b.Hash, Time: time.Unix(int64(b.Time), 0).UTC()}
}

// transferLog is a log with its place in the block.
type transferLog struct {
	logEntry
	Index quantity `json:"logIndex"`
}

// Used lists authorizations that were used. An RPC that refuses the range is asked for less,
// down to a single block.
//
// Last of all the RPC is asked who it is, and whether the blocks that the answer rests on
// are on its chain.
func (c *Client) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	a, err := c.usedIn(ctx, q)
	if err != nil {
		return pay.UsedAnswer{}, fmt.Errorf("authorizations used in blocks %d to %d: %w", q.From, q.To, err)
	}
	return a, nil
}

func (c *Client) usedIn(ctx context.Context, q pay.UsedQuery) (a pay.UsedAnswer, err error) {
	if q.From > q.To || q.To > q.Safe.Number {
		return a, errors.New("not a range of safe blocks")
	}
	if a.Size = q.Size; a.Size == 0 || a.Size > maxRange {
		a.Size = maxRange
	}
	var logs []transferLog
	for {
		a.Through = min(q.From+a.Size-1, q.To)
		if logs, err = c.transferLogs(ctx, q, a.Through); err == nil {
			break
		}
		asked := a.Through - q.From + 1
		if !tooMuch(err) || asked == 1 || ctx.Err() != nil {
			return a, err
		}
		a.Size = asked / 2
	}
	if a.Used, err = c.paired(ctx, logs); err != nil {
		return a, err
	}
	rests := []block{unnamed(q.Safe)}
	if q.Known != nil {
		rests = append(rests, unnamed(*q.Known))
	}
	a.Chain, err = c.identify(ctx, q.Network, q.Asset, atLatest, rests...)
	return a, err
}

func unnamed(b pay.ChainBlock) block {
	return block{Number: quantity(b.Number), Hash: strings.ToLower(b.Hash), Time: quantity(max(0, b.Time.Unix()))}
}

// transferLogs reads the AuthorizationUsed and Transfer logs of the wallets, in the order of
// the chain.
func (c *Client) transferLogs(ctx context.Context, q pay.UsedQuery, to uint64) (all []transferLog, err error) {
	for wallets := range slices.Chunk(q.Wallets, maxTopics) {
		topics := make([]string, len(wallets))
		for i, w := range wallets {
			topics[i] = addressTopic(w)
		}
		var logs []transferLog
		err := c.call(ctx, &logs, "eth_getLogs", map[string]any{
			"address": q.Asset.Address, "topics": []any{[]string{topicUsed, topicTransfer}, topics},
			"fromBlock": quantity(q.From), "toBlock": quantity(to),
		})
		if err != nil {
			return nil, err
		}
		for i := range logs {
			if err := logs[i].check(q, topics, to); err != nil {
				return nil, err
			}
		}
		all = append(all, logs...)
	}
	slices.SortStableFunc(all, func(a, b transferLog) int {
		return cmp.Or(cmp.Compare(a.BlockNumber, b.BlockNumber), cmp.Compare(a.Index, b.Index))
	})
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.BlockNumber == b.BlockNumber && (a.Index == b.Index || a.BlockHash != b.BlockHash) {
			return nil, fmt.Errorf("%w: two logs at one place of block %d", errScan, a.BlockNumber)
		}
	}
	return all, nil
}

// check refuses a log that was not asked for, and brings it into one form.
func (l *transferLog) check(q pay.UsedQuery, topics []string, to uint64) error {
	if l.Address != q.Asset.Address || l.Removed || uint64(l.BlockNumber) < q.From || uint64(l.BlockNumber) > to ||
		!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) || len(l.Topics) != 3 {
		return errScan
	}
	for i := range l.Topics {
		l.Topics[i] = strings.ToLower(l.Topics[i])
		if !x402.ValidTransaction(l.Topics[i]) { // any 32 bytes
			return errScan
		}
	}
	if l.Topics[0] != topicUsed && l.Topics[0] != topicTransfer || !slices.Contains(topics, l.Topics[1]) {
		return errScan
	}
	l.Transaction, l.BlockHash = strings.ToLower(l.Transaction), strings.ToLower(l.BlockHash)
	return nil
}

// paired finds the transfer of every authorization: the token moves the money right after it
// has noted the nonce, so it is the wallet's next log in the transaction. Several of a
// wallet's authorizations may be in one.
func (c *Client) paired(ctx context.Context, logs []transferLog) (list []pay.UsedAuthorization, err error) {
	blocks := map[quantity]pay.ChainBlock{}
	for i, l := range logs {
		if l.Topics[0] != topicUsed {
			continue
		}
		u := pay.UsedAuthorization{Transaction: l.Transaction}
		if u.From, err = topicAddress(l.Topics[1]); err != nil {
			return nil, err
		}
		if u.Nonce, err = x402.ParseNonce(l.Topics[2]); err != nil {
			return nil, errScan
		}
		if slices.ContainsFunc(list, func(o pay.UsedAuthorization) bool { return o.From == u.From && o.Nonce == u.Nonce }) {
			return nil, fmt.Errorf("%w: authorization %s was used twice", errScan, u.Nonce)
		}
		next := slices.IndexFunc(logs[i+1:], func(o transferLog) bool {
			return o.Transaction == l.Transaction && o.Topics[1] == l.Topics[1]
		})
		if next >= 0 {
			if err := move(&u, logs[i+1+next]); err != nil {
				return nil, err
			}
		}
		known, ok := blocks[l.BlockNumber]
		if !ok {
			b, err := c.blockNumbered(ctx, uint64(l.BlockNumber))
			if err != nil {
				return nil, err
			}
			known = named(b)
			blocks[l.BlockNumber] = known
		}
		if known.Hash != l.BlockHash {
			return nil, fmt.Errorf("block %d is %s, and its log says %s", l.BlockNumber, known.Hash, l.BlockHash)
		}
		u.Block = known
		list = append(list, u)
	}
	return list, nil
}

// move notes the transfer of an authorization, unless the log is that of the next one.
func move(u *pay.UsedAuthorization, l transferLog) (err error) {
	if l.Topics[0] != topicTransfer {
		return nil
	}
	if u.To, err = topicAddress(l.Topics[2]); err != nil {
		return err
	}
	value, err := x402.ParseNonce(l.Data) // any 32 bytes
	if err != nil {
		return errScan
	}
	u.Value, _ = x402.AmountFromBig(new(big.Int).SetBytes(value[:])) // 32 bytes always fit
	u.Matched = true
	return nil
}

func topicAddress(topic string) (a x402.Address, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(topic, "0x"))
	if err != nil || len(b) != 32 || slices.ContainsFunc(b[:12], func(c byte) bool { return c != 0 }) {
		return a, errScan
	}
	copy(a[:], b[12:])
	return a, nil
}
