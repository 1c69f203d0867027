package treasury

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// ChainHistory is a [pay.Chain] that also tells what wallets held and moved in the past.
type ChainHistory interface {
	// LastBefore finds the last safe block before a moment.
	LastBefore(ctx context.Context, n x402.Network, moment time.Time) (pay.ChainBlock, error)
	// BlockTime returns the time of a block.
	BlockTime(ctx context.Context, n x402.Network, number uint64) (time.Time, error)
	// BalanceAt is the owner's token balance at a block. RPCs without an archive refuse old blocks.
	BalanceAt(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address, b pay.ChainBlock) (money.Amount, error)
	// Transfers lists transfers from and to some wallets in a range of blocks, in the order of the chain.
	Transfers(ctx context.Context, q TransfersQuery) (TransfersAnswer, error)
}

// TransfersQuery names wallets and blocks.
type TransfersQuery struct {
	Network x402.Network
	Asset   x402.Asset
	Wallets []x402.Address
	// From and To are the first and the last block.
	From, To uint64
	// Size is the number of blocks to ask for at once, as in the last answer. 0: the usual bound.
	Size uint64
}

// TransfersAnswer holds the chain's answer about a range of blocks.
type TransfersAnswer struct {
	// Through is the last block that the answer covers; there may be more to ask for.
	Through   uint64
	Size      uint64 // see TransfersQuery
	Transfers []Transfer
}

// Transfer is a transfer of a token.
type Transfer struct {
	From, To    x402.Address
	Value       money.Amount
	Transaction string // 0x + 64 hex, lower case
	Block       uint64
	Index       uint64 // its place among the logs of the block
	// Beside holds what From has moved to others in the same transaction, where that is one payment: gas, and the parts of
	// further payees.
	Beside money.Amount
	// Part: another transfer of the transaction has this one in its Beside. It is listed because its payee is a wallet, too.
	Part bool
}

// Left returns what has left From.
func (t Transfer) Left() money.Amount {
	if t.Part {
		return money.Amount{}
	}
	return t.Value.AddSaturated(t.Beside)
}

const (
	// historyMargin is the time before and after a history in which its transfers are read as well. The
	// books note a settlement some time after its block.
	historyMargin = time.Hour
	// maxHistory bounds the transfers of a history, in memory.
	maxHistory = 500_000
)

// HistoryQuery selects wallets of one network, and a time from From to before To.
type HistoryQuery struct {
	Network  string
	Wallets  []x402.Address
	From, To time.Time
}

// History holds what the chain tells of some wallets over a time.
type History struct {
	Asset x402.Asset
	// Opening is the last block before From. Closing is the last safe block before To.
	Opening, Closing pay.ChainBlock
	// Running: the chain has no safe block past To yet.
	Running bool
	// Derived: the RPC has no old balances. They are those of its safe block less what moved since.
	Derived bool
	// Balances holds each wallet's balance at Opening and at Closing.
	Balances map[x402.Address][2]money.Amount
	// Transfers of the time are those behind Opening, up to Closing. There are also some of before and after.
	Transfers []Transfer
}

// Inside reports whether a transfer is one of the time.
func (h History) Inside(t Transfer) bool {
	return t.Block > h.Opening.Number && t.Block <= h.Closing.Number
}

// History asks the RPC what wallets held and moved. ErrNoChain, which may say more: the RPC that is
// configured for the network, if any, tells nothing of the past.
func (t Treasury) History(ctx context.Context, q HistoryQuery) (h History, err error) {
	n, ok := x402.NetworkByWire(q.Network)
	past, tells := t.Chain.(ChainHistory)
	if !ok || !tells {
		return h, pay.ErrNoChain
	}
	h.Asset = whole(n)
	if err = t.payer.CheckChain(ctx, n, n.Assets[0]); err == nil {
		if err = readHistory(ctx, past, n, q, &h); err == nil {
			// The RPC's name may have moved to another machine meanwhile.
			err = t.payer.Identify(ctx, n, n.Assets[0])
		}
	}
	if errors.Is(err, pay.ErrUnwatched) {
		err = fmt.Errorf("%w: %w", pay.ErrNoChain, err)
	}
	return h, err
}

// BlockTime returns the time of a block of a network: see [Treasury.History].
func (t Treasury) BlockTime(ctx context.Context, network string, number uint64) (time.Time, error) {
	n, ok := x402.NetworkByWire(network)
	past, tells := t.Chain.(ChainHistory)
	if !ok || !tells {
		return time.Time{}, pay.ErrNoChain
	}
	return past.BlockTime(ctx, n, number)
}

func readHistory(ctx context.Context, past ChainHistory, n x402.Network, q HistoryQuery, h *History) error {
	var err error
	edge := func(at time.Time) pay.ChainBlock {
		var b pay.ChainBlock
		if err == nil {
			b, err = past.LastBefore(ctx, n, at)
		}
		return b
	}
	first, last := edge(q.From.Add(-historyMargin)), edge(q.To.Add(historyMargin))
	h.Opening, h.Closing = edge(q.From), edge(q.To)
	safe := edge(q.To.AddDate(1000, 0, 0)) // the newest one
	if err != nil {
		return err
	}
	// Without a safe block past To, Closing is the newest safe one.
	h.Running = safe.Time.Before(q.To)
	if h.Closing.Number > last.Number {
		last = h.Closing
	}
	if err := h.askBalances(ctx, past, n, q); err == nil {
		return h.readTransfers(ctx, past, n, q, first.Number+1, last.Number)
	} else if ctx.Err() != nil {
		return err
	}
	h.Derived = true
	if err == nil {
		err = h.readTransfers(ctx, past, n, q, first.Number+1, max(last.Number, safe.Number))
	}
	for _, w := range q.Wallets {
		var now, opening, closing money.Amount
		if err == nil {
			now, err = balanceAt(ctx, past, n, w, safe)
		}
		if err == nil {
			closing, err = h.wind(w, now, h.Closing.Number)
		}
		if err == nil {
			opening, err = h.wind(w, now, h.Opening.Number)
		}
		h.Balances[w] = [2]money.Amount{opening, closing}
	}
	h.Transfers = upTo(h.Transfers, last.Number)
	return err
}

// askBalances asks for the balances at both ends.
func (h *History) askBalances(ctx context.Context, past ChainHistory, n x402.Network, q HistoryQuery) error {
	h.Balances = map[x402.Address][2]money.Amount{}
	for _, w := range q.Wallets {
		opening, err := balanceAt(ctx, past, n, w, h.Opening)
		if err != nil {
			return err
		}
		closing, err := balanceAt(ctx, past, n, w, h.Closing)
		if err != nil {
			return err
		}
		h.Balances[w] = [2]money.Amount{opening, closing}
	}
	return nil
}

// whole returns the asset as which all tokens of a network are counted: they are of one currency.
func whole(n x402.Network) x402.Asset {
	a := n.Assets[0]
	a.Symbol = a.Currency()
	return a
}

// balanceAt sums up what a wallet has of all tokens of a network.
func balanceAt(ctx context.Context, past ChainHistory, n x402.Network, w x402.Address, b pay.ChainBlock) (sum money.Amount, err error) {
	for _, a := range n.Assets {
		have, err := past.BalanceAt(ctx, n, a, w, b)
		if err != nil {
			return sum, err
		}
		sum = sum.AddSaturated(have)
	}
	return sum, nil
}

func (h *History) readTransfers(ctx context.Context, past ChainHistory, n x402.Network, q HistoryQuery, from, to uint64) error {
	h.Transfers = nil
	for _, a := range n.Assets {
		if err := h.readToken(ctx, past, n, a, q, from, to); err != nil {
			return err
		}
	}
	if len(n.Assets) > 1 {
		slices.SortStableFunc(h.Transfers, func(a, b Transfer) int { return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Index, b.Index)) })
	}
	return nil
}

// readToken reads the transfers of one token.
func (h *History) readToken(ctx context.Context, past ChainHistory, n x402.Network, token x402.Asset, q HistoryQuery, from, to uint64) error {
	for size := uint64(0); from <= to; {
		a, err := past.Transfers(ctx, TransfersQuery{Network: n, Asset: token, Wallets: q.Wallets, From: from, To: to, Size: size})
		if err != nil {
			return err
		}
		if h.Transfers = append(h.Transfers, a.Transfers...); len(h.Transfers) > maxHistory {
			return fmt.Errorf("more than %d transfers on %s: too many for one statement", maxHistory, n.Name)
		}
		if a.Through < from {
			return errors.New("the RPC does not go on")
		}
		from, size = a.Through+1, 2*a.Size // an RPC that took so many blocks may take more
	}
	return nil
}

// wind undoes the transfers behind a block.
func (h *History) wind(w x402.Address, now money.Amount, block uint64) (money.Amount, error) {
	for _, t := range slices.Backward(h.Transfers) {
		if t.Block <= block {
			break
		}
		var over, under bool
		if t.From == w {
			now, over = now.Add(t.Left())
		}
		if t.To == w {
			now, under = now.Sub(t.Value)
		}
		if over || under {
			return now, fmt.Errorf("the transfers of %s do not lead back to block %d", w, block)
		}
	}
	return now, nil
}

// upTo returns the transfers up to a block.
func upTo(list []Transfer, block uint64) []Transfer {
	for i, t := range list {
		if t.Block > block {
			return list[:i]
		}
	}
	return list
}
