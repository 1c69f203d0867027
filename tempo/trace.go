package tempo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	// window is the longest time before ValidBefore at which the chain takes a transaction with an expiring nonce: 30 s
	// at first, and 300 s since. It does not depend on our clock.
	window = 300 * time.Second
	// maxHeaders bounds the headers that are read to show that a transaction was not sent: that time at 0.2 s a block.
	maxHeaders = 1500
	// maxBlocks bounds the blocks that are asked for logs of a transaction past its validity: more than it was valid in. If
	// it is elsewhere all the same, the headers tell.
	maxBlocks = 2 * maxHeaders
	// headersAtOnce bounds the calls that are out at once.
	headersAtOnce = 8

	// topicMemo is the first topic of TransferWithMemo(address,address,uint256,bytes32).
	topicMemo = "0x57bc7354aa85aed339e000bccffabbc529466af35f0772c8f8ee1145927de7f0"
)

// feeManager gets the fees for gas.
var feeManager = x402.EVMAddress([20]byte{0xfe, 0xec})

// errOtherLogs reports logs that do not match the question.
var errOtherLogs = errors.New("the RPC answered other logs than asked for")

// Trace finds out whether the transaction of a payment was sent: then a log has its memo. That it was not sent follows
// only from a final block past its validity, and from the headers of the whole time in which the chain could have taken
// it: each names the one before it, and no block has the log.
//
// In the end Trace identifies the RPC, and checks that the blocks behind the answer are on its chain.
func (c *Client) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, basis, err := c.trace(ctx, q)
	if err == nil {
		err = c.Confirm(ctx, q, &t, basis...)
	}
	if err != nil {
		return pay.Trace{}, fmt.Errorf("trace transaction with memo %s: %w", q.Authorization.Nonce, err)
	}
	return t, nil
}

// trace answers without the final checks, with the blocks behind its answer, the final one first.
func (c *Client) trace(ctx context.Context, q pay.TraceQuery) (t pay.Trace, basis []pay.ChainBlock, err error) {
	safe, err := c.Safe(ctx, q.Network)
	if err != nil {
		return t, nil, err
	}
	head, err := c.Head(ctx, q.Network)
	if err != nil {
		return t, nil, err
	}
	if head.Number < safe.Number {
		return t, nil, fmt.Errorf("the RPC's latest block %d is behind its final block %d", head.Number, safe.Number)
	}
	t = pay.Trace{SafeTime: safe.Time, SafeNumber: safe.Number, SafeHash: safe.Hash, Latest: head.Time}
	basis = []pay.ChainBlock{safe}
	ends := time.Unix(int64(q.Authorization.ValidBefore), 0)
	start, err := c.Before(ctx, q.Network, ends.Add(-window))
	if err != nil {
		return t, nil, err
	}
	top := head.Number
	if !safe.Time.Before(ends) { // however long ago that is
		top = min(top, start.Number+maxBlocks)
	}
	logs, err := c.memoLogs(ctx, q, start.Number, top)
	if err != nil {
		return t, nil, err
	}
	if len(logs) == 0 && !safe.Time.Before(ends) {
		var ring []pay.ChainBlock
		if logs, ring, err = c.absent(ctx, q, ends); err != nil {
			return t, nil, err
		}
		basis = append(basis, ring...)
	}
	if len(logs) == 0 {
		return t, basis, nil
	}
	used, err := only(logs)
	if err != nil {
		return t, nil, err
	}
	if t.Moved, err = c.moved(ctx, q, used); err != nil {
		return t, nil, err
	}
	t.Used, t.Transaction = true, strings.ToLower(used.Transaction)
	t.SafeLogs = uint64(used.BlockNumber) <= safe.Number
	t.SafeUsed = t.SafeLogs
	return t, append(basis, pay.ChainBlock{Number: uint64(used.BlockNumber), Hash: strings.ToLower(used.BlockHash)}), nil
}

// memoFilter selects the logs of the wallet's transfers with the memo.
func memoFilter(q pay.TraceQuery) map[string]any {
	return map[string]any{
		"address": q.Asset.Address, "topics": []any{topicMemo, chain.AddressTopic(q.Authorization.From), nil, q.Authorization.Nonce.String()},
	}
}

// memoLogs reads the logs in a range of blocks, in parts if the RPC wants that.
func (c *Client) memoLogs(ctx context.Context, q pay.TraceQuery, from, to uint64) (all []chain.LogEntry, err error) {
	for size := uint64(chain.MaxRange); from <= to; {
		last := min(from+size-1, to)
		filter := memoFilter(q)
		filter["fromBlock"], filter["toBlock"] = chain.Quantity(from), chain.Quantity(last)
		var logs []chain.LogEntry
		err := c.Call(ctx, &logs, "eth_getLogs", filter)
		if err != nil && last > from && chain.TooLarge(err) && ctx.Err() == nil {
			size = (last - from + 1) / 2
			continue
		}
		if err == nil {
			logs, err = fitting(q, logs, from, last)
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, logs...); len(all) > 0 {
			return all, nil // there is one at most
		}
		from = last + 1
	}
	return all, nil
}

// fitting returns the logs of transfers. It refuses those that the filter does not select.
func fitting(q pay.TraceQuery, logs []chain.LogEntry, from, to uint64) ([]chain.LogEntry, error) {
	for _, l := range logs {
		if l.Address != q.Asset.Address || l.Removed || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to ||
			!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) ||
			!chain.HasTopics(l, topicMemo, chain.AddressTopic(q.Authorization.From), "", q.Authorization.Nonce.String()) {
			return nil, errOtherLogs
		}
	}
	return slices.DeleteFunc(logs, ofNothing), nil
}

// ofNothing reports whether a log is of a transfer of 0. Any account can make one from any wallet, with any memo: it needs
// no allowance.
func ofNothing(l chain.LogEntry) bool {
	value, err := x402.ParseNonce(l.Data) // any 32 bytes
	return err == nil && value == x402.Nonce{}
}

// only returns the one log, since the chain takes a transaction once.
func only(logs []chain.LogEntry) (chain.LogEntry, error) {
	if len(logs) > 1 {
		return chain.LogEntry{}, fmt.Errorf("%d logs have the memo", len(logs))
	}
	return logs[0], nil
}

// absent reads the headers of all blocks that could have the transaction, down from the first one past its validity. They
// must be one chain. It returns the logs that a block has all the same, and the first and the last of the blocks.
func (c *Client) absent(ctx context.Context, q pay.TraceQuery, ends time.Time) (logs []chain.LogEntry, ring []pay.ChainBlock, err error) {
	last, err := c.LastBefore(ctx, q.Network, ends)
	if err != nil {
		return nil, nil, err
	}
	above, err := c.final(ctx, last.Number+1)
	if err != nil {
		return nil, nil, err
	}
	if above.at().Before(ends) {
		return nil, nil, fmt.Errorf("block %d is not past the validity", above.number)
	}
	begins := uint64(max(0, ends.Add(-window).Unix()))
	walk := walk{query: q, above: above}
	for below := above; below.number > 0 && below.time >= begins; below = walk.above {
		if above.number-below.number > maxHeaders {
			return nil, nil, fmt.Errorf("more than %d blocks could have it", maxHeaders)
		}
		if err := c.down(ctx, &walk); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range walk.candidates {
		filter := memoFilter(q)
		filter["blockHash"] = h.hash
		var found []chain.LogEntry
		if err = c.Call(ctx, &found, "eth_getLogs", filter); err == nil {
			found, err = fitting(q, found, h.number, h.number)
		}
		if err != nil {
			return nil, nil, err
		}
		logs = append(logs, found...)
	}
	return logs, []pay.ChainBlock{block(above), block(walk.above)}, nil
}

func block(h header) pay.ChainBlock {
	return pay.ChainBlock{Number: h.number, Hash: h.hash, Time: h.at()}
}

// walk goes down a chain of headers.
type walk struct {
	query      pay.TraceQuery
	above      header   // the lowest that was read
	candidates []header // blocks that may have the log
}

// down reads some headers below the lowest one, and links them.
func (c *Client) down(ctx context.Context, w *walk) error {
	n := min(4*headersAtOnce, w.above.number)
	read := make([]header, n) // downwards
	asking, asked := errgroup.WithContext(ctx)
	asking.SetLimit(headersAtOnce)
	for i := range read {
		asking.Go(func() (err error) {
			read[i], err = c.final(asked, w.above.number-1-uint64(i))
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	a := w.query.Authorization
	from := make([]byte, 12, 32)
	for _, h := range read {
		if h.hash != w.above.parent || h.time > w.above.time {
			c.seen.Purge()
			return fmt.Errorf("block %d is no child of block %d as the RPC tells them: the chain was reorganized, or the RPC leads to another one", w.above.number, h.number)
		}
		if kept := w.query.Kept; kept != nil && kept.Number == h.number && !strings.EqualFold(kept.Hash, h.hash) {
			c.seen.Purge()
			return fmt.Errorf("block %d is %s, and was %s before", h.number, h.hash, kept.Hash)
		}
		if h.bloom.has(w.query.Asset.Address.Bytes(), memoTopic, append(from, a.From.Bytes()...), a.Nonce[:]) {
			w.candidates = append(w.candidates, h)
		}
		w.above = h
	}
	return nil
}

var memoTopic = must(parseHex(topicMemo))

// moved adds up what a transaction has moved out of the wallet: the transfers of the payment, and the fee for gas. It is
// an error if a transfer is missing.
func (c *Client) moved(ctx context.Context, q pay.TraceQuery, used chain.LogEntry) (sum money.Amount, err error) {
	t, err := transactionOf(q.Authorization)
	if err != nil {
		return sum, err
	}
	logs, err := c.ReceiptLogs(ctx, used.Transaction, used.BlockHash)
	if err != nil {
		return sum, err
	}
	left, err := transfersOf(logs, q.Asset.Address, q.Authorization.From)
	if err != nil {
		return sum, err
	}
	for _, call := range t.Calls {
		wanted, ok := transferIn(call)
		if !ok || call.To != q.Asset.Address || !left.take(wanted) {
			return sum, fmt.Errorf("%s has the memo, but not all transfers of the payment", used.Transaction)
		}
		sum = sum.AddSaturated(wanted.Amount)
	}
	for _, fee := range left {
		if fee.To == feeManager {
			sum = sum.AddSaturated(fee.Amount)
		}
	}
	return sum, nil
}

// transfers lists what an account has sent in a transaction.
type transfers []Transfer

// take removes a transfer, and reports whether there was one. Memos do not count.
func (all *transfers) take(t Transfer) bool {
	for i, one := range *all {
		if one.To == t.To && one.Amount == t.Amount {
			*all = append((*all)[:i:i], (*all)[i+1:]...)
			return true
		}
	}
	return false
}

// transfersOf reads the transfers of a token that an account has made.
func transfersOf(logs []chain.LogEntry, token, from x402.Address) (all transfers, err error) {
	for _, l := range logs {
		if l.Address != token || l.Removed || !chain.HasTopics(l, chain.TopicTransfer, chain.AddressTopic(from), "") {
			continue
		}
		var t Transfer
		if t.To, err = chain.TopicAddress(strings.ToLower(l.Topics[2])); err != nil {
			return nil, err
		}
		value, err := x402.ParseNonce(l.Data) // any 32 bytes
		if err != nil {
			return nil, errOtherLogs
		}
		t.Amount, _ = money.FromBig(new(big.Int).SetBytes(value[:])) // 32 bytes always fit
		all = append(all, t)
	}
	return all, nil
}
