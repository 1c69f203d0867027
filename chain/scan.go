package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// maxTopics bounds the wallets in one filter, because RPCs limit its size.
const maxTopics = 100

var _ pay.ChainScanner = (*Client)(nil)

// errScan reports logs that do not match the filter.
var errScan = errors.New("the RPC answered other logs than asked for")

// Before finds a safe block at or before moment.
func (c *Client) Before(ctx context.Context, n x402.Network, moment time.Time) (pay.ChainBlock, error) {
	b, err := c.before(ctx, n, moment)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("block at %s: %w", moment.UTC().Format(time.RFC3339), err)
	}
	return chainBlock(b), nil
}

func (c *Client) before(ctx context.Context, network x402.Network, moment time.Time) (header, error) {
	safe, err := c.safeBlock(ctx, network)
	if err != nil {
		return header{}, err
	}
	n, err := c.startOf(ctx, moment, safe)
	if err != nil {
		return header{}, err
	}
	return c.blockNumbered(ctx, n)
}

func chainBlock(b header) pay.ChainBlock {
	return pay.ChainBlock{Number: uint64(b.Number), Hash: b.Hash, Time: time.Unix(int64(b.Time), 0).UTC()}
}

// transferLog is a log of a token.
type transferLog struct{ logEntry }

// Used lists the authorizations that were used in a range of blocks. When the RPC refuses the
// range, Used asks for a smaller one. In the end it identifies the RPC and checks the blocks.
func (c *Client) Used(ctx context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	a, err := c.usedBetween(ctx, q)
	if err != nil {
		return pay.UsedAnswer{}, fmt.Errorf("authorizations used in blocks %d to %d: %w", q.From, q.To, err)
	}
	return a, nil
}

func (c *Client) usedBetween(ctx context.Context, q pay.UsedQuery) (a pay.UsedAnswer, err error) {
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
		if !mayBeTooLarge(err) || ctx.Err() != nil {
			return a, err
		}
		if asked == 1 {
			if logs, err = c.transferLogsOf(ctx, q); err != nil {
				return a, err
			}
			a.Size = maxRange // the next blocks have fewer
			break
		}
		a.Size = asked / 2
	}
	if a.Used, a.Unexplained, err = c.withTransfers(ctx, q, logs); err != nil {
		return a, err
	}
	basis := []header{headerOf(q.Safe)}
	if q.Known != nil {
		basis = append(basis, headerOf(*q.Known))
	}
	a.Chain, err = c.identify(ctx, q.Network, q.Asset, atLatest, basis...)
	return a, err
}

func headerOf(b pay.ChainBlock) header {
	return header{Number: quantity(b.Number), Hash: strings.ToLower(b.Hash), Time: quantity(max(0, b.Time.Unix()))}
}

// transferLogs reads the wallets' AuthorizationUsed and Transfer logs, in the order of the chain.
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
	return inOrder(all)
}

// transferLogsOf is transferLogs for a block with more logs than the RPC lists at once: any account can
// fill one with transfers of nothing.
func (c *Client) transferLogsOf(ctx context.Context, q pay.UsedQuery) (all []transferLog, err error) {
	logs, err := c.logsOf(ctx, q.From, q.Asset)
	if err != nil {
		return nil, err
	}
	topics := make([]string, len(q.Wallets))
	for i, w := range q.Wallets {
		topics[i] = addressTopic(w)
	}
	for _, l := range logs {
		if len(l.Topics) == 3 && slices.Contains([]string{topicUsed, topicTransfer}, strings.ToLower(l.Topics[0])) &&
			slices.Contains(topics, strings.ToLower(l.Topics[1])) {
			if err := l.check(q, topics, q.From); err != nil {
				return nil, err
			}
			all = append(all, l)
		}
	}
	return inOrder(all)
}

// inOrder sorts logs as the chain has them.
func inOrder(all []transferLog) ([]transferLog, error) {
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

// check refuses a log that the filter does not select, and lower-cases its hashes.
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

// withTransfers finds the transfer of every authorization. The token makes it right after it marks
// the nonce as used, so it is the wallet's next log in the same transaction. The other transfers may be
// those of Permit2. Other transfers are told of, unless nothing moved: any account can make such ones.
func (c *Client) withTransfers(ctx context.Context, q pay.UsedQuery, logs []transferLog) (list, others []pay.UsedAuthorization, err error) {
	found := make([]*pay.UsedAuthorization, len(logs)) // by the place of the log
	spare := map[int]bool{}                            // transfers without an authorization
	for i, l := range logs {
		if l.Topics[0] == topicTransfer {
			spare[i] = true
		}
	}
	for i, l := range logs {
		if l.Topics[0] != topicUsed {
			continue
		}
		u := pay.UsedAuthorization{Transaction: l.Transaction}
		if u.From, err = topicAddress(l.Topics[1]); err != nil {
			return nil, nil, err
		}
		if u.Nonce, err = x402.ParseNonce(l.Topics[2]); err != nil {
			return nil, nil, errScan
		}
		next := slices.IndexFunc(logs[i+1:], func(o transferLog) bool {
			return o.Transaction == l.Transaction && o.Topics[1] == l.Topics[1]
		})
		if next >= 0 {
			if err := setTransfer(&u, logs[i+1+next]); err != nil {
				return nil, nil, err
			}
			delete(spare, i+1+next)
			if u.ValidAfter, err = c.validAfter(ctx, u, l.BlockHash); err != nil {
				return nil, nil, err
			}
		}
		found[i] = &u
	}
	if err := c.permit2Uses(ctx, q, logs, spare, found); err != nil {
		return nil, nil, err
	}
	blocks := map[quantity]pay.ChainBlock{}
	for i, u := range found {
		if u == nil {
			continue
		}
		if slices.ContainsFunc(list, func(o pay.UsedAuthorization) bool { return o.From == u.From && o.Nonce == u.Nonce }) {
			return nil, nil, fmt.Errorf("%w: authorization %s was used twice", errScan, u.Nonce)
		}
		if u.Block, err = c.blockOf(ctx, blocks, logs[i]); err != nil {
			return nil, nil, err
		}
		list = append(list, *u)
	}
	for _, i := range slices.Sorted(maps.Keys(spare)) {
		u := pay.UsedAuthorization{Transaction: logs[i].Transaction}
		if u.From, err = topicAddress(logs[i].Topics[1]); err == nil {
			err = setTransfer(&u, logs[i])
		}
		if err != nil {
			return nil, nil, err
		}
		if !u.Value.IsZero() {
			others = append(others, u)
		}
	}
	return list, others, nil
}

// usedKey names the use of an authorization in a block.
type usedKey struct {
	transaction, block string
	nonce              x402.Nonce
}

// maxUsed bounds the remembered uses of authorizations: some 4 MB.
const maxUsed = 1 << 14

// validAfter reads from a transaction what an authorization was valid after, and remembers it: an RPC that refuses many
// questions lets reconciling go on. 0: the transaction does not tell.
func (c *Client) validAfter(ctx context.Context, u pay.UsedAuthorization, block string) (uint64, error) {
	key := usedKey{u.Transaction, block, u.Nonce}
	if after, known := c.used.Get(key); known {
		return after, nil
	}
	_, input, err := c.transactionIn(ctx, u.Transaction, block)
	if err != nil {
		return 0, err
	}
	after, _ := x402.ValidAfterIn(input, x402.Authorization{From: u.From, To: u.To, Value: u.Value, Nonce: u.Nonce})
	c.used.Add(key, after)
	return after, nil
}

// blockOf reads the block of a log, once for all logs.
func (c *Client) blockOf(ctx context.Context, blocks map[quantity]pay.ChainBlock, l transferLog) (pay.ChainBlock, error) {
	known, ok := blocks[l.BlockNumber]
	if !ok {
		b, err := c.blockNumbered(ctx, uint64(l.BlockNumber))
		if err != nil {
			return known, err
		}
		known = chainBlock(b)
		blocks[l.BlockNumber] = known
	}
	if known.Hash != l.BlockHash {
		return known, fmt.Errorf("block %d is %s, and its log says %s", l.BlockNumber, known.Hash, l.BlockHash)
	}
	return known, nil
}

// setTransfer copies the transfer into u, unless the log is of the wallet's next authorization.
func setTransfer(u *pay.UsedAuthorization, l transferLog) (err error) {
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
	u.Value, _ = money.FromBig(new(big.Int).SetBytes(value[:])) // 32 bytes always fit
	u.Matched = true
	return nil
}

func topicAddress(topic string) (a x402.Address, err error) {
	w, err := x402.ParseNonce(topic) // any 32 bytes
	if a = x402.EVMAddress([20]byte(w[12:])); err != nil || addressWord(a) != word(w) {
		return a, errScan
	}
	return a, nil
}

// Safe returns the newest safe block: that of the network's tag, or the RPC's `finalized` one when it
// does not know `safe`. No reorganization is expected to remove it.
func (c *Client) Safe(ctx context.Context, n x402.Network) (pay.ChainBlock, error) {
	b, err := c.safeBlock(ctx, n)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("safe block: %w", err)
	}
	return chainBlock(b), nil
}

// Head returns the newest block that the RPC has.
func (c *Client) Head(ctx context.Context, _ x402.Network) (pay.ChainBlock, error) {
	b, err := c.block(ctx, atLatest)
	if err != nil {
		return pay.ChainBlock{}, fmt.Errorf("latest block: %w", err)
	}
	return chainBlock(b), nil
}
