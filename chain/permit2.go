package chain

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const topicInvalidated = "0x3704902f963766a4e561bbaab6e6cdc1b1dd12f6e9e99648da8843b3f46b918d" // UnorderedNonceInvalidation(address,uint256,uint256)

// Bounds of a search for the transfer of an authorization. Permit2 itself tells of none.
const (
	// maxCandidates bounds the transactions that one look asks for. The client keeps what it learns of
	// them, so a later look goes on from there.
	maxCandidates = 2000
	// maxEmpty bounds the transactions without money that one look asks for. Any account can make them.
	maxEmpty = 64
	// maxSettled bounds the transactions of one block whose receipts are read.
	maxSettled = 256
	// candidatesAtOnce bounds the questions about them that are out at once.
	candidatesAtOnce = 8
)

func amountOf(w word) money.Amount {
	amount, _ := money.FromBig(new(big.Int).SetBytes(w[:])) // 32 bytes always fit
	return amount
}

// findPermit2 finds out how the bit of a nonce was set: by a transfer, or by its owner, who gave the
// nonce up. Permit2 sets a bit once, so only the transfers of that block can be the one.
func (c *Client) findPermit2(ctx context.Context, q pay.TraceQuery, w window) (event, error) {
	s := &transferSearch{client: c, query: q}
	block, known, err := c.blockOfUse(ctx, q.Authorization, &w)
	if err != nil {
		return event{}, err
	}
	var found event
	if known {
		found, err = s.findIn(ctx, block)
	} else {
		found, err = s.findByLogs(ctx, w)
	}
	if err != nil || found.log.Transaction != "" {
		return found, err
	}
	c.learned.forget(s.used) // the next look asks anew, in case the RPC was wrong
	return event{}, errors.New("its nonce is spent, but neither a transfer of it is found nor that its owner gave it up")
}

// findIn finds out how the nonce was spent in its block. A settlement of nothing comes last: any account
// can make transfers of nothing from any wallet.
func (s *transferSearch) findIn(ctx context.Context, b header) (event, error) {
	s.block = b.Hash
	logs, err := s.transfersIn(ctx, b)
	if err != nil {
		return event{}, err
	}
	at := uint64(b.Number)
	found, err := s.take(ctx, logs, at, at, false)
	if err != nil || len(found) > 0 {
		return largest(found), err
	}
	given, err := s.client.givenUp(ctx, s.query, window{floor: at, start: at, top: at})
	if err != nil || given.canceled || s.query.Authorization.Rail != x402.RailUpto {
		return given, err
	}
	found, err = s.take(ctx, logs, at, at, true)
	return largest(found), err
}

// findByLogs is findIn for an RPC without the state of that time. A transfer is between the payment's
// beginning and its expiry. Blocks before the window's start come last: our clock would have to have
// been far ahead.
func (s *transferSearch) findByLogs(ctx context.Context, w window) (event, error) {
	c, q := s.client, s.query
	expiry := time.Unix(int64(min(q.Authorization.ValidBefore, math.MaxInt64)), 0).Add(startSlack)
	end, err := c.startOf(ctx, expiry, w.last)
	if err != nil {
		return event{}, err
	}
	valid := window{floor: w.start, start: w.start, top: max(w.start, min(end, w.top))}
	later := window{floor: w.start, start: w.start, top: w.top}
	looks := []func() (event, error){
		func() (event, error) { return s.findTransfer(ctx, valid) },
		func() (event, error) { return c.givenUp(ctx, q, later) },
	}
	if w.start > w.floor {
		earlier := window{floor: w.floor, start: w.start, top: w.start - 1}
		looks = append(looks,
			func() (event, error) { return s.findTransfer(ctx, earlier) },
			func() (event, error) { return c.givenUp(ctx, q, earlier) },
		)
	}
	for _, look := range looks {
		if found, err := look(); err != nil || found.log.Transaction != "" {
			return found, err
		}
	}
	return event{}, nil
}

// findTransfer finds the transfer of an authorization in a window; none: an event without a transaction.
func (s *transferSearch) findTransfer(ctx context.Context, w window) (best event, err error) {
	upto := s.query.Authorization.Rail == x402.RailUpto
	_, err = s.client.search(ctx, s.transfers, w, func(ctx context.Context, logs []logEntry, from, to uint64) (bool, error) {
		found, err := s.take(ctx, logs, from, to, false)
		if best.log.Transaction != "" {
			found = append(found, best)
		}
		best = largest(found)
		return len(found) > 0 && !upto, err
	})
	return best, err
}

// largest returns the transfer that moved most, which is never too little: a facilitator can put a call of
// upto that fails beside the transfer of another authorization.
func largest(found []event) (best event) {
	for _, e := range found {
		if best.log.Transaction == "" || e.moved.Cmp(best.moved) > 0 {
			best = e
		}
	}
	best.log.Transaction = strings.ToLower(best.log.Transaction)
	return best
}

// transferSearch looks for the transfer of an authorization.
type transferSearch struct {
	client *Client
	query  pay.TraceQuery
	block  string       // the hash of the block in which the nonce was spent; "": not known
	asked  int          // for so many transactions
	used   []learnedKey // what was known or learned of transactions
}

func (s *transferSearch) filter() map[string]any {
	a := s.query.Authorization
	return map[string]any{
		"address": s.query.Asset.Address, "topics": []any{topicTransfer, addressTopic(a.From), addressTopic(a.To)},
	}
}

// transfers reads the transfers from the wallet to the payee in a range of blocks.
func (s *transferSearch) transfers(ctx context.Context, from, to uint64) ([]logEntry, error) {
	logs, err := s.client.logsBetween(s.filter())(ctx, from, to)
	if err == nil || from != to || !mayBeTooLarge(err) {
		return logs, err
	}
	b, headerErr := s.client.blockNumbered(ctx, from)
	if headerErr != nil {
		return nil, headerErr
	}
	return s.settledIn(ctx, b, err)
}

// transfersIn reads the transfers from the wallet to the payee in one block.
func (s *transferSearch) transfersIn(ctx context.Context, b header) ([]logEntry, error) {
	filter := s.filter()
	filter["blockHash"] = b.Hash
	logs, err := s.client.logs(ctx, filter)
	if err != nil && mayBeTooLarge(err) && ctx.Err() == nil {
		return s.settledIn(ctx, b, err)
	}
	return logs, err
}

// settledIn reads the transfers in transactions that settled something through a proxy in a block, whose
// transfers the RPC does not list: any account can make a block full of transfers of nothing.
func (s *transferSearch) settledIn(ctx context.Context, b header, refused error) ([]logEntry, error) {
	settled, err := s.client.logs(ctx, map[string]any{"address": spender(s.query.Authorization.Rail), "blockHash": b.Hash})
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	var all []string
	for _, l := range settled {
		if !slices.Contains(all, l.Transaction) {
			all = append(all, l.Transaction)
		}
	}
	if len(all) > maxSettled {
		return nil, refused
	}
	transfers, err := s.client.receipts(ctx, all, b.Hash)
	if err != nil {
		return nil, err
	}
	from, to := addressTopic(s.query.Authorization.From), addressTopic(s.query.Authorization.To)
	return slices.DeleteFunc(transfers, func(l logEntry) bool {
		return l.Address != s.query.Asset.Address || !hasTopics(l, topicTransfer, from, to)
	}), nil
}

// take looks into the transactions of some transfers, and returns those that use the authorization.
func (s *transferSearch) take(ctx context.Context, logs []logEntry, from, to uint64, empty bool) (found []event, err error) {
	candidates, calls, err := s.lookInto(ctx, logs, from, to, empty)
	if err != nil {
		return nil, err
	}
	for i, e := range candidates {
		moves := func(u x402.Permit2Use) bool { return s.spends(u) && u.Moved == e.moved }
		uses, to := calls[i].uses, calls[i].to
		switch ours := to == spender(s.query.Authorization.Rail); {
		case !slices.ContainsFunc(uses, moves), calls[i].direct && !ours:
			continue
		case ours && moves(uses[0]):
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

// spends reports whether a use spends the nonce of the authorization. Its validity and its maximum may be others: after
// a restored backup an idempotency key yields the same nonce for new terms.
func (s *transferSearch) spends(u x402.Permit2Use) bool {
	used, a := u.Authorization, s.query.Authorization
	return used.Rail == a.Rail && used.From == a.From && used.To == a.To && used.Nonce == a.Nonce
}

// lookInto reads the transactions of the transfers that may be those of the authorization: the empty
// ones, which move nothing, or the others.
func (s *transferSearch) lookInto(ctx context.Context, logs []logEntry, from, to uint64, empty bool) (candidates []event, calls []proxyCall, err error) {
	in := map[learnedKey]proxyCall{}
	var unknown []learnedKey
	for _, l := range logs {
		moved, err := s.check(l, from, to)
		if err != nil {
			return nil, nil, err
		}
		if moved.IsZero() != empty || s.misses(moved) {
			continue
		}
		candidates = append(candidates, event{log: l, moved: moved})
		key := keyOf(l, s.query.Asset)
		if _, seen := in[key]; seen {
			continue
		}
		s.used = append(s.used, key)
		known, ok := s.client.learned.get(key)
		if in[key] = known; !ok {
			unknown = append(unknown, key)
		}
	}
	most := maxCandidates - s.asked
	if empty {
		most = maxEmpty
	}
	unknown, left := unknown[:min(most, len(unknown))], len(unknown)-most
	s.asked += len(unknown)
	var all errgroup.Group
	all.SetLimit(candidatesAtOnce)
	read := make([]proxyCall, len(unknown))
	for i, key := range unknown {
		all.Go(func() (err error) {
			read[i], err = s.client.usesIn(ctx, key)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, nil, err
	}
	if left > 0 {
		return nil, nil, errors.New("too many transfers to the payee to find the one of this authorization at once")
	}
	for i, key := range unknown {
		in[key] = read[i]
	}
	calls = make([]proxyCall, len(candidates))
	for i, e := range candidates {
		calls[i] = in[keyOf(e.log, s.query.Asset)]
	}
	return candidates, calls, nil
}

// prove checks that the nonce was spent in the block of a transfer; otherwise the event is none. A contract
// may have made other calls than its data tells of. So of upto the largest transfer of the block counts that
// may be the one. Where the RPC has no state as old as that, upto has moved all, and exact its amount.
func (s *transferSearch) prove(ctx context.Context, e event) (event, error) {
	upto := s.query.Authorization.Rail == x402.RailUpto
	spent, err := strings.EqualFold(e.log.BlockHash, s.block), error(nil)
	if s.block == "" {
		spent, err = s.client.spentIn(ctx, s.query.Authorization, e.log.block())
	}
	switch {
	case lacks(err) && upto:
		e.moved = s.query.Authorization.Value
		return e, nil
	case lacks(err):
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

// hiddenIn lists the transfers in the block of a log that may be that of the authorization, although the
// data of their transactions need not tell. That of a call of a proxy or of the token itself tells all.
func (s *transferSearch) hiddenIn(ctx context.Context, l logEntry) (hidden []event, err error) {
	b := l.block()
	logs, err := s.transfersIn(ctx, b)
	if err != nil {
		return nil, err
	}
	candidates, calls, err := s.lookInto(ctx, logs, uint64(b.Number), uint64(b.Number), false)
	for i := range candidates {
		if slices.ContainsFunc(calls[i].uses, s.spends) || !calls[i].direct {
			hidden = append(hidden, candidates[i])
		}
	}
	return hidden, err
}

// misses reports whether a transfer cannot be that of the authorization, by its amount.
func (s *transferSearch) misses(moved money.Amount) bool {
	a := s.query.Authorization
	if a.Rail == x402.RailUpto {
		return moved.Cmp(a.Value) > 0
	}
	return moved != a.Value
}

// check refuses a log that the filter does not select, and returns the amount of the transfer.
func (s *transferSearch) check(l logEntry, from, to uint64) (money.Amount, error) {
	a := s.query.Authorization
	value, err := x402.ParseNonce(l.Data) // any 32 bytes
	if err != nil || l.Address != s.query.Asset.Address || l.Removed || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to ||
		!x402.ValidTransaction(l.Transaction) || !x402.ValidTransaction(l.BlockHash) ||
		!hasTopics(l, topicTransfer, addressTopic(a.From), addressTopic(a.To)) {
		return money.Amount{}, errOtherLog
	}
	return amountOf(word(value)), nil
}

// givenUp finds the transaction by which the owner gave the nonce up. That proves something only if the
// nonce was not spent before: Permit2 takes it also for a nonce that a transfer has spent.
func (c *Client) givenUp(ctx context.Context, q pay.TraceQuery, w window) (event, error) {
	owner := addressTopic(q.Authorization.From)
	place, bit := q.Authorization.NonceSlot()
	filter := map[string]any{"address": x402.Permit2, "topics": []any{topicInvalidated, owner}}
	var first *logEntry
	_, err := c.search(ctx, c.logsBetween(filter), w, func(_ context.Context, logs []logEntry, from, to uint64) (bool, error) {
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
	here, err := c.spentIn(ctx, q.Authorization, first.block())
	if err != nil || !here {
		return event{}, err
	}
	s := transferSearch{client: c, query: q}
	if hidden, err := s.hiddenIn(ctx, *first); err != nil || len(hidden) > 0 {
		return event{}, cmp.Or(err, errors.New("its nonce was given up in the block of a transfer that may be its own"))
	}
	first.Transaction = strings.ToLower(first.Transaction)
	return event{canceled: true, log: *first}, nil
}
