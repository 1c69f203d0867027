package mpp

import (
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// funds is the amount that a wallet gets on each chain, in the smallest unit: one unit of the currency.
const funds = 1_000_000

// tempoChain is the chain of Tempo, which starts with the first test that needs it.
func (w *world) tempoChain(t testing.TB) *process.Tempo {
	t.Helper()
	w.mu.Lock()
	if w.tempo == nil {
		w.tempo = sync.OnceValues(func() (*process.Tempo, error) { return process.StartTempo(t) })
	}
	start := w.tempo
	w.mu.Unlock()
	chain, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// fund gives a wallet money on the chains of rails.
func (w *world) fund(t testing.TB, wallet x402.Address, onTempo bool) {
	t.Helper()
	if err := w.Money.Fund(t.Context(), wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
	if !onTempo {
		return
	}
	if err := w.tempoChain(t).Fund(t.Context(), common.Address(wallet.EVM()), funds); err != nil {
		t.Fatal(err)
	}
}

// debits counts the payments of a wallet on both chains. Each must be the price, and have a mark of its own.
func (w *world) debits(t testing.TB, wallet x402.Address) int {
	t.Helper()
	n, twice := w.moved(t, wallet)
	for _, memo := range twice {
		t.Errorf("the memo %s moved money more than once", memo)
	}
	return n
}

// moved counts the payments of a wallet on both chains, and lists the memos that are on several of them: official clients
// write the same one for twin challenges.
func (w *world) moved(t testing.TB, wallet x402.Address) (n int, twice []common.Hash) {
	t.Helper()
	from := common.Address(wallet.EVM())
	moved, err := w.Money.Chain.Transfers(t.Context(), &from, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n = len(moved)
	for _, m := range moved {
		requirePrice(t, m.Value)
	}
	w.mu.Lock()
	start := w.tempo
	w.mu.Unlock()
	if start == nil {
		return n, nil
	}
	memos, err := w.tempoChain(t).Transfers(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	sums, by := map[common.Hash]*big.Int{}, map[common.Hash]common.Hash{}
	for _, m := range memos { // a payment to two payees has two transfers, and some clients write the memo to both
		if tx, seen := by[m.Memo]; seen && tx != m.Tx {
			twice = append(twice, m.Memo)
		}
		by[m.Memo] = m.Tx
		if sums[m.Tx] == nil {
			sums[m.Tx] = new(big.Int)
		}
		sums[m.Tx].Add(sums[m.Tx], m.Value)
	}
	for _, sum := range sums {
		requirePrice(t, sum)
	}
	return n + len(sums), twice
}

func requirePrice(t testing.TB, moved *big.Int) {
	t.Helper()
	if moved.Int64() != price && moved.Int64() != price-splitPart {
		t.Errorf("a payment of %s", moved)
	}
}
