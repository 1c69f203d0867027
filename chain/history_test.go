package chain_test

import (
	"crypto/ecdsa"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// TestHistory has money come and go on three days, and reads them one by one.
func TestHistory(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	begin := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	clock.Store(begin.Unix())
	world := must(ledger.Start(t.Context(), ledger.Options{Now: func() time.Time { return time.Unix(clock.Load(), 0) }}))
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	client := must(chain.New(chain.Options{URL: world.RPCURL()}))
	t.Cleanup(client.Close)
	key := must(crypto.GenerateKey())
	owner := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))

	for day := range 3 {
		clock.Store(begin.AddDate(0, 0, day).Add(time.Hour).Unix())
		if err := world.Fund(t.Context(), common.Address(owner.EVM()), big.NewInt(100)); err != nil {
			t.Fatal(err)
		}
		clock.Add(3600)
		moveTo(t, world, key, payee, uint64(10+day), clock.Load())
		moveTo(t, world, key, owner, 5, clock.Load()) // to itself, in the same second
	}
	clock.Store(begin.AddDate(0, 0, 5).Unix())

	edge := func(at time.Time) pay.ChainBlock { return must(client.LastBefore(t.Context(), base, at)) }
	for day, want := range []uint64{0, 90, 179, 267, 267} {
		b := edge(begin.AddDate(0, 0, day))
		if !b.Time.Before(begin.AddDate(0, 0, day)) && b.Number > 0 {
			t.Errorf("day %d: block %d is of %s", day, b.Number, b.Time)
		}
		if got := must(client.BalanceAt(t.Context(), base, usdc, owner, b)); got.String() != money.New(want).String() {
			t.Errorf("day %d: balance %s at block %d, want %d", day, got, b.Number, want)
		}
	}
	second := edge(begin.AddDate(0, 0, 1).Add(2*time.Hour + time.Second))
	if b := edge(begin.AddDate(0, 0, 1).Add(2 * time.Hour)); b.Number != second.Number-2 {
		t.Errorf("before that second there is block %d, and it ends with %d", b.Number, second.Number)
	}

	from, to := edge(begin.AddDate(0, 0, 1)), edge(begin.AddDate(0, 0, 2))
	q := treasury.TransfersQuery{Network: base, Asset: usdc, Wallets: []x402.Address{owner}, From: from.Number + 1, To: to.Number}
	answer := must(client.Transfers(t.Context(), q))
	var got []string
	for _, m := range answer.Transfers {
		got = append(got, m.Value.String())
		if at := must(client.BlockTime(t.Context(), base, m.Block)); at.Before(begin.AddDate(0, 0, 1)) || !x402.ValidTransaction(m.Transaction) {
			t.Errorf("%+v is of %s", m, at)
		}
	}
	if len(got) != 3 || got[0] != "100" || got[1] != "11" || got[2] != "5" || answer.Through != q.To {
		t.Errorf("transfers %v through block %d, want 100, 11 and 5 through %d", got, answer.Through, q.To)
	}
	if last := answer.Transfers[2]; last.From != owner || last.To != owner {
		t.Errorf("the transfer to itself is %+v", last)
	}
	if _, err := client.Transfers(t.Context(), treasury.TransfersQuery{Network: base, Asset: usdc, From: 2, To: 1}); err == nil {
		t.Error("an empty range is answered")
	}
}

// moveTo pays an amount by an authorization that is valid now.
func moveTo(t *testing.T, world *ledger.Ledger, key *ecdsa.PrivateKey, to x402.Address, amount uint64, now int64) {
	t.Helper()
	a := x402.Authorization{
		From: x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey)), To: to, Value: money.New(amount),
		ValidBefore: uint64(now) + 60, Nonce: x402.Nonce(crypto.Keccak256(to.Bytes(), []byte{byte(amount), byte(now >> 16), byte(now >> 8), byte(now)})),
	}
	if _, err := world.TransferWithAuthorization(t.Context(), a, must(x402test.Sign(a.Digest(usdc, base.ChainID), key))); err != nil {
		t.Fatal(err)
	}
}
