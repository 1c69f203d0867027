package chain

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Function selectors and event topics of Permit2.
const (
	selectorNonceBitmap = "4fe02b44" // nonceBitmap(address,uint256)

	topicInvalidated = "0x3704902f963766a4e561bbaab6e6cdc1b1dd12f6e9e99648da8843b3f46b918d" // UnorderedNonceInvalidation(address,uint256,uint256)
)

// Bounds of a search for the transfer of an authorization. Permit2 itself tells of none.
const (
	// maxCandidates bounds the transactions that are looked into.
	maxCandidates = 2000
	// candidatesAtOnce bounds the questions about them that are out at once.
	candidatesAtOnce = 8
)

func amountOf(w word) x402.Amount {
	amount, _ := x402.AmountFromBig(new(big.Int).SetBytes(w[:])) // 32 bytes always fit
	return amount
}

// nonceSpent reads at one block whether Permit2 has the bit of an authorization's nonce set: by a
// transfer, or by its owner, who gave the nonce up.
func (c *Client) nonceSpent(ctx context.Context, a x402.Authorization, b header) (bool, error) {
	place, bit := a.NonceSlot()
	bits, err := c.tokenCall(ctx, x402.Permit2, atBlock(b), selectorNonceBitmap, addressWord(a.From), place)
	if err != nil {
		return false, err
	}
	return bitOf(bits, bit), nil
}

func bitOf(w word, bit uint) bool { return w[31-bit/8]>>(bit%8)&1 == 1 }

// findPermit2 finds out how the bit of a nonce was set. A transfer is between the payment's beginning and
// its expiry, and has the authorization in the data of its transaction. If there is none, the owner may
// have given the nonce up. What is before the window's start comes last: our clock would have to have
// been far ahead.
func (c *Client) findPermit2(ctx context.Context, q pay.TraceQuery, w window) (event, error) {
	expiry := time.Unix(int64(min(q.Authorization.ValidBefore, math.MaxInt64)), 0).Add(startSlack)
	end, err := c.startOf(ctx, expiry, w.last)
	if err != nil {
		return event{}, err
	}
	valid := window{floor: w.start, start: w.start, top: max(w.start, end)}
	later := window{floor: w.start, start: w.start, top: w.top}
	looks := []func() (event, error){
		func() (event, error) { return c.findTransfer(ctx, q, valid) },
		func() (event, error) { return c.givenUp(ctx, q, later) },
	}
	if w.start > w.floor {
		earlier := window{floor: w.floor, start: w.start, top: w.start - 1}
		looks = append(looks,
			func() (event, error) { return c.findTransfer(ctx, q, earlier) },
			func() (event, error) { return c.givenUp(ctx, q, earlier) },
		)
	}
	for _, look := range looks {
		if found, err := look(); err != nil || found.log.Transaction != "" {
			return found, err
		}
	}
	return event{}, errors.New("its nonce is spent, but neither a transfer of it is found nor that its owner gave it up")
}

// findTransfer finds the transfer of an authorization in a window; none: an event without a transaction.
// Of several the largest counts, which is never too little: a facilitator can put a call of upto that fails
// beside the transfer of another authorization.
func (c *Client) findTransfer(ctx context.Context, q pay.TraceQuery, w window) (best event, err error) {
	s := transferSearch{client: c, query: q}
	upto := q.Authorization.Rail == x402.RailUpto
	err = c.search(ctx, s.filter(), w, func(ctx context.Context, logs []logEntry, from, to uint64) (bool, error) {
		found, err := s.take(ctx, logs, from, to)
		for _, e := range found {
			if best.log.Transaction == "" || e.moved.Cmp(best.moved) > 0 {
				best = e
			}
		}
		return len(found) > 0 && !upto, err
	})
	best.log.Transaction = strings.ToLower(best.log.Transaction)
	return best, err
}

// transferSearch looks for the transfer of an authorization.
type transferSearch struct {
	client *Client
	query  pay.TraceQuery
	looked int // into so many transactions
}

func (s *transferSearch) filter() map[string]any {
	a := s.query.Authorization
	return map[string]any{
		"address": s.query.Asset.Address, "topics": []any{topicTransfer, addressTopic(a.From), addressTopic(a.To)},
	}
}

// take looks into the transactions of some transfers, and returns those that use the authorization.
func (s *transferSearch) take(ctx context.Context, logs []logEntry, from, to uint64) (found []event, err error) {
	candidates, calls, err := s.lookInto(ctx, logs, from, to)
	if err != nil {
		return nil, err
	}
	for i, e := range candidates {
		want := x402.Permit2Use{Authorization: s.query.Authorization, Moved: e.moved}
		uses, to := calls[i].uses, calls[i].to
		switch ours := to == spender(want.Authorization.Rail); {
		case !slices.Contains(uses, want), calls[i].direct && !ours:
			continue
		case ours && uses[0] == want:
		default: // the data of another contract may hold what it does not do
			if e, err = s.prove(ctx, e); err != nil {
				return nil, err
			}
		}
		if e.log.Transaction != "" {
			found = append(found, e)
		}
	}
	return found, nil
}

// lookInto reads the transactions of the transfers that may be those of the authorization.
func (s *transferSearch) lookInto(ctx context.Context, logs []logEntry, from, to uint64) (candidates []event, calls []proxyCall, err error) {
	for _, l := range logs {
		moved, err := s.check(l, from, to)
		if err != nil {
			return nil, nil, err
		}
		if !s.misses(moved) {
			candidates = append(candidates, event{log: l, moved: moved})
		}
	}
	if s.looked += len(candidates); s.looked > maxCandidates {
		return nil, nil, errors.New("too many transfers to the payee to find the one of this authorization")
	}
	calls = make([]proxyCall, len(candidates))
	var all errgroup.Group
	all.SetLimit(candidatesAtOnce)
	for i, e := range candidates {
		all.Go(func() (err error) {
			calls[i], err = s.client.usesIn(ctx, e.log, s.query.Asset)
			return err
		})
	}
	return candidates, calls, all.Wait()
}

// prove checks that the nonce was spent in the block of a transfer; otherwise the event is none. A contract
// may have made other calls than its data tells of. So of upto the largest transfer of the block counts that
// may be the one. Where the RPC has no state as old as that, upto has moved all, and exact its amount.
func (s *transferSearch) prove(ctx context.Context, e event) (event, error) {
	upto := s.query.Authorization.Rail == x402.RailUpto
	spent, err := s.client.spentIn(ctx, s.query.Authorization, e.log)
	_, refused := errors.AsType[*rpcError](err)
	switch {
	case refused && upto:
		e.moved = s.query.Authorization.Value
		return e, nil
	case refused:
		return e, nil
	case err != nil || !spent:
		return event{}, err
	case !upto:
		return e, nil
	}
	hidden, err := s.hiddenIn(ctx, e.log)
	for _, other := range hidden {
		if other.moved.Cmp(e.moved) > 0 {
			e.moved = other.moved
		}
	}
	return e, err
}

// spentIn reports whether the nonce was spent in the block of a log.
func (c *Client) spentIn(ctx context.Context, a x402.Authorization, l logEntry) (bool, error) {
	at := header{Number: l.BlockNumber, Hash: strings.ToLower(l.BlockHash)}
	spent, err := c.nonceSpent(ctx, a, at)
	if err != nil || !spent || l.BlockNumber == 0 {
		return spent, err
	}
	before, err := c.blockNumbered(ctx, uint64(l.BlockNumber)-1)
	if err != nil {
		return false, err
	}
	spent, err = c.nonceSpent(ctx, a, before)
	return !spent, err
}

// hiddenIn lists the transfers in the block of a log that may be that of the authorization, although the
// data of their transactions need not tell. That of a call of a proxy or of the token itself tells all.
func (s *transferSearch) hiddenIn(ctx context.Context, l logEntry) (hidden []event, err error) {
	filter := s.filter()
	filter["blockHash"] = l.BlockHash
	logs, err := s.client.logs(ctx, filter)
	if err != nil {
		return nil, err
	}
	candidates, calls, err := s.lookInto(ctx, logs, uint64(l.BlockNumber), uint64(l.BlockNumber))
	for i := range candidates {
		own := slices.ContainsFunc(calls[i].uses, func(u x402.Permit2Use) bool { return u.Authorization == s.query.Authorization })
		if (own || !calls[i].direct) && !candidates[i].moved.IsZero() {
			hidden = append(hidden, candidates[i])
		}
	}
	return hidden, err
}

// misses reports whether a transfer cannot be that of the authorization, by its amount.
func (s *transferSearch) misses(moved x402.Amount) bool {
	a := s.query.Authorization
	if a.Rail == x402.RailUpto {
		return moved.Cmp(a.Value) > 0
	}
	return moved != a.Value
}

// check refuses a log that the filter does not select, and returns the amount of the transfer.
func (s *transferSearch) check(l logEntry, from, to uint64) (x402.Amount, error) {
	a := s.query.Authorization
	value, err := x402.ParseNonce(l.Data) // any 32 bytes
	if err != nil || l.Address != s.query.Asset.Address || l.Removed || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to ||
		!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) ||
		!hasTopics(l, topicTransfer, addressTopic(a.From), addressTopic(a.To)) {
		return x402.Amount{}, errOtherLog
	}
	return amountOf(word(value)), nil
}

// proxyCall holds the authorizations that a transaction tells of.
type proxyCall struct {
	to   x402.Address // zero: it makes a contract
	uses []x402.Permit2Use
	// direct: to is a proxy or the token itself, so nothing moves by Permit2 but what the first use tells.
	direct bool
}

// spender returns the proxy of a rail.
func spender(r x402.Rail) x402.Address {
	if r == x402.RailUpto {
		return x402.UptoProxy
	}
	return x402.ExactProxy
}

// usesIn lists what could be uses of authorizations in the transaction of a log.
func (c *Client) usesIn(ctx context.Context, l logEntry, a x402.Asset) (proxyCall, error) {
	var found *struct {
		Hash, BlockHash, Input string
		To                     *x402.Address
	}
	if err := c.call(ctx, &found, "eth_getTransactionByHash", l.Transaction); err != nil {
		return proxyCall{}, err
	}
	if found == nil || !strings.EqualFold(found.Hash, l.Transaction) || !strings.EqualFold(found.BlockHash, l.BlockHash) {
		return proxyCall{}, fmt.Errorf("the RPC does not have the transaction %s in the block of its log", l.Transaction)
	}
	input, err := hex.DecodeString(strings.TrimPrefix(found.Input, "0x"))
	if err != nil {
		return proxyCall{}, fmt.Errorf("the RPC's transaction %s has no readable data", l.Transaction)
	}
	call := proxyCall{uses: x402.Permit2Uses(a.Address, input)}
	if found.To != nil {
		call.to = *found.To
		call.direct = slices.Contains([]x402.Address{x402.ExactProxy, x402.UptoProxy, a.Address}, call.to)
	}
	return call, nil
}

// givenUp finds the transaction by which the owner gave the nonce up. That proves something only if the
// nonce was not spent before: Permit2 takes it also for a nonce that a transfer has spent.
func (c *Client) givenUp(ctx context.Context, q pay.TraceQuery, w window) (event, error) {
	owner := addressTopic(q.Authorization.From)
	place, bit := q.Authorization.NonceSlot()
	filter := map[string]any{"address": x402.Permit2, "topics": []any{topicInvalidated, owner}}
	var first *logEntry
	err := c.search(ctx, filter, w, func(_ context.Context, logs []logEntry, from, to uint64) (bool, error) {
		for _, l := range logs {
			data, err := hex.DecodeString(strings.TrimPrefix(l.Data, "0x"))
			if err != nil || len(data) != 64 || l.Address != x402.Permit2 || l.Removed || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to ||
				!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) || !hasTopics(l, topicInvalidated, owner) {
				return false, errOtherLog
			}
			if word(data[:32]) == place && bitOf(word(data[32:]), bit) && (first == nil || l.BlockNumber < first.BlockNumber) {
				first = &l
			}
		}
		return first != nil, nil
	})
	if err != nil || first == nil || first.BlockNumber == 0 {
		return event{}, err
	}
	before, err := c.blockNumbered(ctx, uint64(first.BlockNumber)-1)
	if err != nil {
		return event{}, err
	}
	spent, err := c.nonceSpent(ctx, q.Authorization, before)
	if err != nil || spent {
		return event{}, err
	}
	s := transferSearch{client: c, query: q}
	if hidden, err := s.hiddenIn(ctx, *first); err != nil || len(hidden) > 0 {
		return event{}, cmp.Or(err, errors.New("its nonce was given up in the block of a transfer that may be its own"))
	}
	first.Transaction = strings.ToLower(first.Transaction)
	return event{canceled: true, log: *first}, nil
}
