package chain_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/params"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// stranger sends transactions of its own, several of which it can put into one block.
type stranger struct {
	w   *permit2World
	key *ecdsa.PrivateKey
	rpc *ethclient.Client
}

func (w *permit2World) stranger(key *ecdsa.PrivateKey) stranger {
	w.t.Helper()
	if err := w.chain.FundETH(w.ctx, crypto.PubkeyToAddress(key.PublicKey), big.NewInt(params.Ether)); err != nil {
		w.t.Fatal(err)
	}
	rpc := must(ethclient.DialContext(w.ctx, w.chain.RPCURL()))
	w.t.Cleanup(rpc.Close)
	return stranger{w, key, rpc}
}

// inOneBlock sends transactions in their order. The last one comes first, so none is ready before all are.
func (s stranger) inOneBlock(calls ...call) (blocks []uint64) {
	s.w.t.Helper()
	next := must(s.rpc.PendingNonceAt(s.w.ctx, crypto.PubkeyToAddress(s.key.PublicKey)))
	sent := make([]*types.Transaction, len(calls))
	for i, c := range slices.Backward(calls) {
		var to *common.Address
		if c.Target != (common.Address{}) {
			to = &c.Target
		}
		sent[i] = must(types.SignNewTx(s.key, types.LatestSignerForChainID(new(big.Int).SetUint64(base.ChainID)), &types.DynamicFeeTx{
			ChainID: new(big.Int).SetUint64(base.ChainID), Nonce: next + uint64(i), GasTipCap: big.NewInt(params.GWei),
			GasFeeCap: big.NewInt(100 * params.GWei), Gas: 1_000_000, To: to, Data: c.CallData,
		}))
		if err := s.rpc.SendTransaction(s.w.ctx, sent[i]); err != nil {
			s.w.t.Fatal(err)
		}
	}
	for _, tx := range sent {
		receipt := s.receipt(tx.Hash())
		if receipt.Status != types.ReceiptStatusSuccessful {
			s.w.t.Fatalf("transaction %s has failed", tx.Hash())
		}
		blocks = append(blocks, receipt.BlockNumber.Uint64())
	}
	return blocks
}

func (s stranger) receipt(of common.Hash) *types.Receipt {
	s.w.t.Helper()
	ctx, cancel := context.WithTimeout(s.w.ctx, patience)
	defer cancel()
	for {
		if receipt, err := s.rpc.TransactionReceipt(ctx, of); err == nil {
			return receipt
		}
		select {
		case <-ctx.Done():
			s.w.t.Fatalf("no receipt of %s", of)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// address returns that of the first contract that the account makes.
func (s stranger) address() common.Address {
	return crypto.CreateAddress(crypto.PubkeyToAddress(s.key.PublicKey), 0)
}

// hides makes a contract that has a call in its code: the transaction that starts it shows nothing of
// the call.
func (s stranger) hides(c call) {
	s.w.t.Helper()
	length := binary.BigEndian.AppendUint16(nil, uint16(len(c.CallData)))
	const codeLength = 52
	code := slices.Concat(
		[]byte{0x61}, length, []byte{0x60, codeLength, 0x60, 0, 0x39}, // CODECOPY
		[]byte{0x60, 0, 0x60, 0, 0x61}, length, []byte{0x60, 0, 0x60, 0, 0x73}, c.Target[:], []byte{0x5a, 0xf1}, // CALL
		[]byte{0x60, codeLength - 2, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b, 0x00}, // REVERT if it fails
	)
	if len(code) != codeLength {
		s.w.t.Fatalf("code of %d bytes", len(code))
	}
	code = append(code, c.CallData...)
	made := slices.Concat([]byte{0x61}, binary.BigEndian.AppendUint16(nil, uint16(len(code))), []byte{0x80, 0x60, 12, 0x60, 0, 0x39, 0x60, 0, 0xf3}, code)
	s.inOneBlock(call{CallData: made})
}

// A transfer whose data is hidden can come right before its nonce is given up, in one block. The money
// has moved, so this is no cancellation.
func TestPermit2GivenUpBehindAHiddenTransfer(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	maker, owner := w.stranger(must(crypto.GenerateKey())), w.stranger(w.key)
	for nonce := byte(1); nonce < 10; nonce++ {
		q := w.permits(x402.RailPermit2, nonce, x402.Address{})
		maker.key = must(crypto.GenerateKey())
		maker = w.stranger(maker.key)
		maker.hides(w.call(q.Authorization, 0, w.sign(q.Authorization)))
		blocks := owner.inOneBlock(
			call{Target: maker.address()},
			call{Target: common.Address(x402.Permit2.EVM()), CallData: q.Authorization.GiveUpCall()},
		)
		if blocks[0] != blocks[1] {
			continue
		}
		if got := must(w.client.Balance(w.ctx, base, usdc, w.address)); got.Cmp(money.New(1_000_000)) >= 0 {
			t.Fatalf("no money has moved: %s", got)
		}
		for { // until a safe block has it
			got, err := w.client.Trace(w.ctx, q)
			if err == nil && got.Canceled {
				t.Fatalf("the money has moved, and the trace says that it cannot: %+v", got)
			}
			if safe := must(w.client.Safe(w.ctx, base)); safe.Number > blocks[0] {
				return
			}
		}
	}
	t.Fatal("never in one block")
}

// tokenCall returns the data of a transfer of the token by a signed message.
func (w *permit2World) tokenCall(a x402.Authorization) []byte {
	s, number := w.sign(a), func(n uint64) []byte { return common.LeftPadBytes(new(big.Int).SetUint64(n).Bytes(), 32) }
	value := a.Value.Bytes32()
	return slices.Concat(
		crypto.Keccak256([]byte("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"))[:4],
		common.LeftPadBytes(a.From.Bytes(), 32), common.LeftPadBytes(a.To.Bytes(), 32), value[:], number(a.ValidAfter), number(a.ValidBefore),
		a.Nonce[:], number(uint64(s[64])), s[:64],
	)
}

// A facilitator can hide how much it took, and show a smaller amount beside another transfer.
func TestUptoBesideADecoy(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	maker := w.stranger(must(crypto.GenerateKey()))
	q := w.permits(x402.RailUpto, 1, x402.EVMAddress(maker.address()))
	a := q.Authorization
	maker.hides(w.call(a, 9_000, w.sign(a)))
	maker.inOneBlock(call{Target: maker.address()})

	cheap := w.permits(x402.RailPermit2, 2, x402.Address{})
	cheap.Authorization.Value = money.New(1)
	decoy := w.call(a, 1, w.sign(a)).CallData
	paid := w.call(cheap.Authorization, 0, w.sign(cheap.Authorization))
	must(w.chain.Relay(w.ctx, paid.Target, slices.Concat(paid.CallData, decoy)))
	token := w.authorize(3, time.Minute)
	token.Authorization.Value = money.New(2)
	must(w.chain.Relay(w.ctx, w.chain.TokenAddress(), slices.Concat(w.tokenCall(token.Authorization), w.call(a, 2, w.sign(a)).CallData)))
	// Multicall3 shows the data of a call that fails beside one that succeeds.
	plain := w.permits(x402.RailPermit2, 4, x402.Address{})
	plain.Authorization.Value = money.New(3)
	w.together(w.call(plain.Authorization, 0, w.sign(plain.Authorization)), w.call(a, 3, x402.Signature{}))

	q.Created = time.Now()
	for {
		got, err := w.client.Trace(w.ctx, q)
		if err == nil && got.Used && got.Moved.Cmp(money.New(9_000)) < 0 {
			t.Fatalf("9000 have moved, and the trace says %s: %+v", got.Moved, got)
		}
		if last := must(w.client.Trace(w.ctx, plain)); last.SafeUsed {
			return
		}
	}
}

// A transaction can show the data of an authorization that another one has spent. Reconciling books both
// payments: neither takes the other's place.
func TestUsedBesideADecoy(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	first, second := w.permits(x402.RailPermit2, 1, x402.Address{}), w.permits(x402.RailPermit2, 2, x402.Address{})
	a, b := first.Authorization, second.Authorization
	transactions := []string{w.settles(a, 0), w.together(w.call(a, 0, w.sign(a)), w.call(b, 0, w.sign(b)))}
	w.requireUsed("second", second, transactions[1], 10_000)
	safe := must(w.client.Safe(w.ctx, base))
	got := must(w.client.Used(w.ctx, pay.UsedQuery{Network: base, Asset: usdc, Wallets: []x402.Address{w.address}, From: 1, To: safe.Number, Safe: safe}))
	if len(got.Used) != 2 {
		t.Fatalf("used: %+v", got.Used)
	}
	for i, nonce := range []x402.Nonce{a.Nonce, b.Nonce} {
		if u := got.Used[i]; u.Nonce != nonce || u.Transaction != transactions[i] {
			t.Errorf("%d: %+v, want %s in %s", i, u, nonce, transactions[i])
		}
	}
}
