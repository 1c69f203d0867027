package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Bounds of a search for logs.
const (
	// clockMargin bounds how far our clock may be ahead of the chain's.
	clockMargin = 10 * time.Minute
	// startSlack bounds the time by which a search may start too early.
	startSlack = 2 * time.Minute
	// maxRange is the number of blocks in the first query for logs. Many RPCs refuse more.
	maxRange = 2000
	// maxGrown is the largest number of blocks in one query, for an RPC that never refuses.
	maxGrown = 64 * maxRange
	// answersToGrow is the number of answers after which an RPC that has refused a range gets a larger one.
	// It doubles with each refusal of that.
	answersToGrow = 8
	// maxLogCalls bounds a search: over a week in both directions at 2,000 blocks a call.
	maxLogCalls = 400
	// maxSearched bounds the searches without an end that are remembered, and maxResumed how often one goes on before
	// it begins anew: an RPC may have had no log yet of a block that was read.
	maxSearched = 1024
	maxResumed  = 16
	// maxBlockCalls bounds the search for the first block. Bisection needs at most 2 x 40 calls.
	maxBlockCalls = 80
)

// event is the log of a use, or of a cancellation.
type event struct {
	canceled bool
	log      logEntry
	moved    money.Amount // by a use
}

// errOtherLog reports a log that does not match the filter.
var errOtherLog = errors.New("the RPC answered another log than asked for")

// Trace finds out what became of an authorization. It reads the state at the safe block by that
// block's hash, so that no other block can answer. A used authorization without a matching transfer
// is an error.
//
// Blocks after the safe one matter only while that shows the authorization neither used nor
// expired.
//
// In the end Trace identifies the RPC, and checks that the blocks behind the answer are on its
// chain: the RPC's name may have moved to another machine since an earlier check.
func (c *Client) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, basis, err := c.trace(ctx, q)
	if err == nil {
		err = c.confirm(ctx, q, &t, basis)
	}
	if err != nil {
		return pay.Trace{}, fmt.Errorf("trace authorization %s: %w", q.Authorization.Nonce, err)
	}
	return t, nil
}

// confirm completes t with questions that go out at once: the RPC's identity, the blocks behind the
// answer, the kept block, and the latest one when t lacks it.
func (c *Client) confirm(ctx context.Context, q pay.TraceQuery, t *pay.Trace, basis []header) error {
	var (
		all                 sync.WaitGroup
		keptErr, idErr, err error
	)
	if q.Kept != nil {
		all.Go(func() { t.KeptHash, keptErr = c.keptHash(ctx, *q.Kept, basis[0]) })
	}
	if t.Latest.IsZero() {
		all.Go(func() {
			var head pay.ChainBlock
			head, err = c.Head(ctx, q.Network)
			t.Latest = head.Time
		})
	}
	id, idErr := c.identify(ctx, q.Network, q.Asset, atBlock(basis[0]), basis...)
	all.Wait()
	t.Chain = id
	return errors.Join(idErr, keptErr, err)
}

// keptHash returns the RPC's hash for the number of a kept block, or "" when it has no such block.
func (c *Client) keptHash(ctx context.Context, kept pay.ChainBlock, safe header) (string, error) {
	if kept.Number == uint64(safe.Number) {
		return safe.Hash, nil
	}
	b, err := c.blockNumbered(ctx, kept.Number)
	if lacks(err) || errors.Is(err, errNoBlock) {
		return "", nil
	}
	return b.Hash, err
}

// trace answers without the final checks, with the blocks behind its answer, the safe one first.
func (c *Client) trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, []header, error) {
	safe, err := c.safeBlock(ctx, q.Network)
	if err != nil {
		return pay.Trace{}, nil, err
	}
	basis := []header{safe}
	used, err := c.spent(ctx, q, safe)
	if err != nil {
		return pay.Trace{}, nil, err
	}
	t := pay.Trace{SafeUsed: used, SafeTime: time.Unix(int64(safe.Time), 0).UTC(), SafeNumber: uint64(safe.Number), SafeHash: safe.Hash}
	var w window
	switch {
	case used:
		w.top, w.last, w.safe = uint64(safe.Number), safe, true
		if w.start, err = c.startOf(ctx, q.Created.Add(-clockMargin), safe); err != nil {
			return pay.Trace{}, nil, err
		}
	case uint64(safe.Time) >= q.Authorization.ValidBefore:
		return t, basis, nil
	default:
		head, err := c.block(ctx, atLatest)
		if err != nil {
			return pay.Trace{}, nil, err
		}
		if head.Number < safe.Number {
			return pay.Trace{}, nil, fmt.Errorf("the RPC's latest block %d is behind its safe block %d", head.Number, safe.Number)
		}
		t.Latest = chainBlock(head).Time
		if used, err = c.spent(ctx, q, head); err != nil || !used {
			return t, basis, err
		}
		w.floor, w.top, w.last = uint64(safe.Number)+1, uint64(head.Number), head
		w.start = w.floor
	}
	found, err := c.find(ctx, q, w)
	if err != nil {
		return pay.Trace{}, nil, err
	}
	basis = append(basis, found.log.block())
	t.Canceled = found.canceled
	t.Transaction = found.log.Transaction
	t.SafeLogs = found.log.BlockNumber <= safe.Number
	if !found.canceled {
		t.Used, t.Moved = true, found.moved
	}
	return t, basis, nil
}

// spent reads at one block whether the authorization is used or canceled.
func (c *Client) spent(ctx context.Context, q pay.TraceQuery, b header) (bool, error) {
	if q.Authorization.Rail.Permit2() {
		return c.nonceSpent(ctx, q.Authorization, atBlock(b))
	}
	return c.authorizationState(ctx, q, b)
}

// find finds the use of an authorization with its transfer, or its cancellation.
func (c *Client) find(ctx context.Context, q pay.TraceQuery, w window) (event, error) {
	if q.Authorization.Rail.Permit2() {
		return c.findPermit2(ctx, q, w)
	}
	found, err := c.findLog(ctx, q, w)
	if err == nil && !found.canceled {
		found.moved = q.Authorization.Value
		err = c.checkTransfer(ctx, q, found.log)
	}
	return found, err
}

// safeBlock returns the block of the network's tag. An RPC that does not know `safe` is asked for its
// `finalized` block, which is older.
func (c *Client) safeBlock(ctx context.Context, n x402.Network) (header, error) {
	b, err := c.block(ctx, n.SafeTag)
	if n.SafeTag != x402.TagSafe {
		return b, err
	}
	if _, refused := errors.AsType[*rpcError](err); !refused && !errors.Is(err, errNoBlock) {
		return b, err
	}
	c.noSafeTag.Do(func() { c.log.Info("the RPC knows no safe header, its finalized one is used", "error", err) })
	return c.block(ctx, x402.TagFinalized)
}

// authorizationState reads at one block whether the authorization is used or canceled.
func (c *Client) authorizationState(ctx context.Context, q pay.TraceQuery, b header) (bool, error) {
	got, err := c.tokenCall(ctx, q.Asset.Address, atBlock(b), selectorAuthorizationState,
		addressWord(q.Authorization.From), word(q.Authorization.Nonce))
	if err != nil {
		return false, err
	}
	switch got {
	case word{}:
		return false, nil
	case word{31: 1}:
		return true, nil
	}
	return false, errors.New("authorizationState is neither true nor false")
}

// startOf finds a block at or before moment, at most startSlack earlier where block times allow. It
// interpolates and bisects in turn, for chains with even and uneven blocks.
func (c *Client) startOf(ctx context.Context, moment time.Time, top header) (uint64, error) {
	return c.lastOf(ctx, uint64(max(0, moment.Unix())), top, startSlack)
}

// lastOf finds a block at or before a second, and no earlier than the slack if block times allow.
// Without slack it is the last one: some chains have several blocks in a second.
func (c *Client) lastOf(ctx context.Context, goal uint64, top header, least time.Duration) (uint64, error) {
	if uint64(top.Time) <= goal {
		return uint64(top.Number), nil
	}
	low, err := c.blockNumbered(ctx, 0)
	if err != nil {
		return 0, err
	}
	slack := uint64(least / time.Second)
	for calls := 0; low.Number+1 < top.Number && (least == 0 || uint64(low.Time)+slack < goal); calls++ {
		if calls == maxBlockCalls {
			return 0, fmt.Errorf("no block of %s found", time.Unix(int64(goal), 0).UTC().Format(time.RFC3339))
		}
		n := low.Number + (top.Number-low.Number)/2
		if calls%2 == 0 && low.Time < top.Time {
			share := float64(goal-slack/2-uint64(low.Time)) / float64(top.Time-low.Time)
			n = low.Number + quantity(share*float64(top.Number-low.Number))
		}
		n = min(max(n, low.Number+1), top.Number-1)
		b, err := c.blockNumbered(ctx, uint64(n))
		if err != nil {
			return 0, err
		}
		if uint64(b.Time) <= goal {
			low = b
		} else {
			top = b
		}
	}
	return uint64(low.Number), nil
}

// window bounds a search for a log, which is nearly always soon after start. Block last is the top. safe: no block
// of it can go.
type window struct {
	floor, start, top uint64
	last              header
	safe              bool
	from              searched // where an earlier search has stopped; zero: there was none
}

// searchKey names the search for the log of an authorization.
type searchKey struct {
	token, from x402.Address
	nonce       x402.Nonce
}

// searched holds how far a search has come that found nothing between two blocks.
type searched struct {
	below, above uint64
	size         uint64 // in blocks, that the RPC has answered last
	resumed      int    // how often the search has gone on
}

// findLog searches for the log that used or canceled the authorization.
func (c *Client) findLog(ctx context.Context, q pay.TraceQuery, w window) (found event, err error) {
	filter := map[string]any{
		"address": q.Asset.Address,
		"topics":  []any{[]string{topicUsed, topicCanceled}, addressTopic(q.Authorization.From), q.Authorization.Nonce.String()},
	}
	key := searchKey{q.Asset.Address, q.Authorization.From, q.Authorization.Nonce}
	if w.safe {
		if was, _ := c.searched.Get(key); was.resumed < maxResumed {
			w.from = was
		}
	}
	done := false
	at, err := c.search(ctx, c.logsBetween(filter), w, func(_ context.Context, logs []logEntry, first, last uint64) (bool, error) {
		if len(logs) == 0 {
			return false, nil
		}
		found, err = onlyEvent(q, logs, first, last)
		done = err == nil
		return done, err
	})
	switch {
	case err == nil: // all of it was read: the next search begins anew
		c.searched.Remove(key)
	case w.safe:
		c.searched.Add(key, at)
	}
	if err == nil && !done {
		err = fmt.Errorf("it is used, but blocks %d to %d have no log of it", w.floor, w.top)
	}
	return found, err
}

// search reads the logs of a window, and hands them to take until that has what it looks for: nearly
// always in one call. After that it goes both ways in growing steps: a cancellation may come at any
// time, and our clock may have been far ahead when the payment was made. An RPC that has refused a range
// gets smaller ones, and larger ones again after some answers: one block may have had too many logs. It returns how
// far it has come, from where the next search may go on.
func (c *Client) search(
	ctx context.Context, read func(ctx context.Context, from, to uint64) ([]logEntry, error), w window,
	take func(context.Context, []logEntry, uint64, uint64) (bool, error),
) (at searched, err error) {
	below, above := w.start, w.start // what take wants is not between them
	size, most := uint64(maxRange), uint64(maxGrown)
	answers, patience, grown := 0, 1, false
	if was := w.from; was.size > 0 && was.below >= w.floor && was.above <= w.top+1 {
		below, above, size, patience = was.below, was.above, was.size, answersToGrow
	}
	defer func() { at = searched{below, above, size, w.from.resumed + 1} }()
	for calls := 0; below > w.floor || above <= w.top; calls++ {
		if calls == maxLogCalls {
			return at, fmt.Errorf("it is used, but blocks %d to %d have no log of it; the next search goes on from there", below, above-1)
		}
		forward := above <= w.top && (above < w.start+maxRange || calls%2 == 0 || below == w.floor)
		first, last := below-min(size, below-w.floor), below-1
		if forward {
			first, last = above, min(above+size-1, w.top)
		}
		logs, err := read(ctx, first, last)
		asked := last - first + 1
		if err != nil && asked > 1 && ctx.Err() == nil && (mayBeTooLarge(err) || asked > maxRange) {
			if grown { // this is as much as it ever answers
				patience *= 2
			}
			size, most, answers, grown = asked/2, maxRange, 0, false
			patience = max(patience, answersToGrow)
			continue
		}
		if err != nil {
			return at, err
		}
		if done, err := take(ctx, logs, first, last); done || err != nil {
			return at, err
		}
		if forward {
			above = last + 1
		} else {
			below = first
		}
		if answers++; answers%patience == 0 && size < most {
			size, grown = min(2*size, most), true
		}
	}
	return at, nil
}

// onlyEvent returns the only log that was found, after checking it against the question.
func onlyEvent(q pay.TraceQuery, logs []logEntry, from, to uint64) (event, error) {
	l := logs[0]
	if len(logs) > 1 {
		return event{}, fmt.Errorf("%d logs say that it was used", len(logs))
	}
	if l.Address != q.Asset.Address || l.Removed || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to ||
		!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) ||
		!hasTopics(l, "", addressTopic(q.Authorization.From), q.Authorization.Nonce.String()) {
		return event{}, errOtherLog
	}
	l.Transaction = strings.ToLower(l.Transaction)
	switch strings.ToLower(l.Topics[0]) {
	case topicUsed:
		return event{log: l}, nil
	case topicCanceled:
		return event{canceled: true, log: l}, nil
	}
	return event{}, errOtherLog
}

// checkTransfer finds the authorization's transfer in the transaction that used it. The error says
// when there is none.
func (c *Client) checkTransfer(ctx context.Context, q pay.TraceQuery, used logEntry) error {
	from, to := addressTopic(q.Authorization.From), addressTopic(q.Authorization.To)
	logs, err := c.logs(ctx, map[string]any{
		"address": q.Asset.Address, "topics": []any{topicTransfer, from, to}, "blockHash": used.BlockHash,
	})
	if err != nil && mayBeTooLarge(err) && ctx.Err() == nil { // any account can fill a block with transfers of nothing
		logs, err = c.receiptLogs(ctx, used.Transaction, used.BlockHash)
	}
	if err != nil {
		return err
	}
	value := q.Authorization.Value.Bytes32()
	for _, l := range logs {
		if l.Address == q.Asset.Address && !l.Removed && strings.EqualFold(l.Transaction, used.Transaction) &&
			hasTopics(l, topicTransfer, from, to) && strings.EqualFold(l.Data, hexOf(value[:])) {
			return nil
		}
	}
	return fmt.Errorf("it was used in %s, but that transaction has no matching transfer", used.Transaction)
}

// hasTopics compares a log's topics. An empty string matches any topic.
func hasTopics(l logEntry, want ...string) bool {
	if len(l.Topics) != len(want) {
		return false
	}
	for i := range want {
		if want[i] != "" && !strings.EqualFold(l.Topics[i], want[i]) {
			return false
		}
	}
	return true
}

func addressTopic(a x402.Address) string {
	w := addressWord(a)
	return hexOf(w[:])
}
