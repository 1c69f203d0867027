package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// pastChain is a chain with a block each minute.
type pastChain struct {
	start     time.Time
	safe      uint64
	transfers []Transfer
	archive   bool
	most      uint64 // blocks in one answer
}

func (c *pastChain) at(number uint64) pay.ChainBlock {
	return pay.ChainBlock{Number: number, Hash: fmt.Sprintf("0x%064x", number), Time: c.start.Add(time.Duration(number) * time.Minute)}
}

func (c *pastChain) LastBefore(_ context.Context, _ x402.Network, moment time.Time) (pay.ChainBlock, error) {
	number := c.safe
	for number > 0 && !c.at(number).Time.Before(moment) {
		number--
	}
	return c.at(number), nil
}

func (c *pastChain) BlockTime(_ context.Context, _ x402.Network, number uint64) (time.Time, error) {
	return c.at(number).Time, nil
}

func (c *pastChain) BalanceAt(_ context.Context, _ x402.Network, _ x402.Asset, owner x402.Address, b pay.ChainBlock) (sum money.Amount, err error) {
	if !c.archive && b.Number != c.safe {
		return sum, errors.New("missing trie node")
	}
	sum = money.New(1_000_000)
	for _, t := range c.transfers {
		if t.Block > b.Number {
			break
		}
		if t.From == owner {
			sum, _ = sum.Sub(t.Value)
		}
		if t.To == owner {
			sum, _ = sum.Add(t.Value)
		}
	}
	return sum, nil
}

func (c *pastChain) Transfers(_ context.Context, q TransfersQuery) (a TransfersAnswer, err error) {
	a.Size = c.most
	a.Through = min(q.From+c.most-1, q.To)
	for _, t := range c.transfers {
		if t.Block >= q.From && t.Block <= a.Through && (slices.Contains(q.Wallets, t.From) || slices.Contains(q.Wallets, t.To)) {
			a.Transfers = append(a.Transfers, t)
		}
	}
	return a, nil
}

// TestHistoryWithoutAnArchive compares what an RPC without old state tells with what one with it does.
func TestHistoryWithoutAnArchive(t *testing.T) {
	t.Parallel()
	n, _ := x402.NetworkByWire("base")
	one, two, other := x402.EVMAddress([20]byte{1}), x402.EVMAddress([20]byte{2}), x402.EVMAddress([20]byte{3})
	rapid.Check(t, func(t *rapid.T) {
		c := &pastChain{start: time.Date(2026, 9, 30, 20, 0, 0, 0, time.UTC), safe: rapid.Uint64Range(0, 900).Draw(t, "safe"), most: rapid.Uint64Range(1, 300).Draw(t, "most")}
		who := rapid.SampledFrom([]x402.Address{one, two, other})
		for i := range rapid.IntRange(0, 30).Draw(t, "transfers") {
			c.transfers = append(c.transfers, Transfer{
				From: who.Draw(t, "from"), To: who.Draw(t, "to"), Value: money.New(rapid.Uint64Range(1, 1000).Draw(t, "value")),
				Block: rapid.Uint64Range(0, c.safe).Draw(t, "block"), Transaction: fmt.Sprintf("0x%064x", i),
			})
		}
		slices.SortStableFunc(c.transfers, func(a, b Transfer) int { return int(a.Block) - int(b.Block) })
		q := HistoryQuery{Network: "base", Wallets: []x402.Address{one, two}, From: c.start.Add(4 * time.Hour), To: c.start.Add(8 * time.Hour)}
		var with, without History
		c.archive = true
		if err := readHistory(t.Context(), c, n, q, &with); err != nil {
			t.Fatal(err)
		}
		c.archive = false
		if err := readHistory(t.Context(), c, n, q, &without); err != nil {
			t.Fatal(err)
		}
		if with.Derived || !without.Derived && without.Opening.Number != c.safe || with.Running != (c.safe < 8*60) {
			t.Fatalf("derived %v and %v, running %v", with.Derived, without.Derived, with.Running)
		}
		for _, w := range q.Wallets {
			if with.Balances[w] != without.Balances[w] {
				t.Fatalf("%s had %v, and without an archive %v", w, with.Balances[w], without.Balances[w])
			}
		}
		if !slices.Equal(with.Transfers, without.Transfers) {
			t.Fatalf("transfers %v, and without an archive %v", with.Transfers, without.Transfers)
		}
		for _, m := range with.Transfers {
			at := c.at(m.Block).Time
			if with.Inside(m) != (!at.Before(q.From) && at.Before(q.To)) && with.Opening.Number > 0 {
				t.Fatalf("%+v of %s is inside: %v", m, at, with.Inside(m))
			}
		}
	})
}
