package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/contracts"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// usedQuery asks about the test's payer in some blocks of the scripted node.
func usedQuery(from, to uint64) pay.UsedQuery {
	return pay.UsedQuery{
		Network: base, Asset: usdc, Wallets: []x402.Address{payee, payer}, From: from, To: to,
		Safe: pay.ChainBlock{Number: 1_000_100, Hash: hash(1_000_100)},
	}
}

// logged returns a log of the token as an RPC writes it.
func logged(number uint64, index int, topic, first, second, data, tx string) map[string]any {
	return map[string]any{
		"address": strings.ToLower(usdc.Address.String()), "topics": []string{topic, first, second}, "data": data, "removed": false,
		"blockNumber": fmt.Sprintf("0x%x", number), "blockHash": hash(number), "transactionHash": tx, "logIndex": fmt.Sprintf("0x%x", index),
	}
}

func nonceTopic(n byte) string { return fmt.Sprintf("0x%064x", n) }

func units(n uint64) string { return fmt.Sprintf("0x%064x", n) }

// brief returns an answer in short: nonce, transfer and transaction.
func brief(list []pay.UsedAuthorization) (all []string) {
	for _, u := range list {
		moved := "nothing"
		if u.Matched {
			moved = fmt.Sprintf("%s to %x", u.Value, u.To.EVM()[19])
		}
		all = append(all, fmt.Sprintf("%d in block %d: %s in %s", u.Nonce[31], u.Block.Number, moved, u.Transaction[65:]))
	}
	return all
}

func TestUsed(t *testing.T) {
	t.Parallel()
	a, b := hash(0xa), hash(0xb)
	us, them, other := padded(payer), padded(payee), padded(x402.EVMAddress([20]byte{19: 7}))
	for _, c := range []struct {
		name  string
		logs  []any
		want  []string
		fails string
	}{
		{name: "nothing"},
		{
			name: "a payment",
			logs: []any{logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a), logged(10, 4, topicTransfer, us, them, units(5), a)},
			want: []string{"1 in block 10: 5 to 2 in f"},
		},
		{
			name: "several in one transaction, out of order",
			logs: []any{
				logged(10, 8, topicTransfer, us, other, units(7), a), logged(10, 7, topicUsed, us, nonceTopic(2), "0x", a),
				logged(10, 4, topicTransfer, us, them, units(5), a), logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a),
			},
			want: []string{"1 in block 10: 5 to 2 in f", "2 in block 10: 7 to 7 in f"},
		},
		{
			name: "of two wallets, one within the other",
			logs: []any{
				logged(10, 1, topicUsed, us, nonceTopic(1), "0x", a), logged(10, 2, topicUsed, them, nonceTopic(1), "0x", a),
				logged(10, 3, topicTransfer, them, us, units(6), a), logged(10, 4, topicTransfer, us, them, units(5), a),
			},
			want: []string{"1 in block 10: 5 to 2 in f", "1 in block 10: 6 to 1 in f"},
		},
		{name: "ordinary transfers are nobody's", logs: []any{logged(10, 4, topicTransfer, us, them, units(5), a)}},
		{
			name: "without a transfer",
			logs: []any{
				logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a), logged(10, 4, topicUsed, us, nonceTopic(2), "0x", a),
				logged(10, 5, topicTransfer, us, them, units(5), a), logged(11, 1, topicUsed, us, nonceTopic(3), "0x", b),
				logged(11, 2, topicTransfer, us, them, units(5), hash(0xc)),
			},
			want: []string{"1 in block 10: nothing in f", "2 in block 10: 5 to 2 in f", "3 in block 11: nothing in f"},
		},
		{name: "another wallet", logs: []any{logged(10, 3, topicUsed, other, nonceTopic(1), "0x", a)}, fails: "other logs"},
		{name: "another event", logs: []any{logged(10, 3, topicCanceled, us, nonceTopic(1), "0x", a)}, fails: "other logs"},
		{name: "another range", logs: []any{logged(9, 3, topicUsed, us, nonceTopic(1), "0x", a)}, fails: "other logs"},
		{name: "another transaction than any", logs: []any{logged(10, 3, topicUsed, us, nonceTopic(1), "0x", "0x1")}, fails: "other logs"},
		{name: "no topics", logs: []any{map[string]any{"address": usdc.Address.String(), "topics": []string{}, "blockNumber": "0xa", "blockHash": hash(10), "transactionHash": a, "logIndex": "0x1"}}, fails: "other logs"},
		{
			name:  "twice",
			logs:  []any{logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a), logged(11, 3, topicUsed, us, nonceTopic(1), "0x", b)},
			fails: "used twice",
		},
		{
			name:  "two at one place",
			logs:  []any{logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a), logged(10, 3, topicTransfer, us, them, units(5), a)},
			fails: "one place",
		},
		{
			name: "of a block that is not on the chain",
			logs: []any{func() any {
				l := logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a)
				l["blockHash"] = hash(77)
				return l
			}()},
			fails: "its log says",
		},
		{
			name: "an amount that is none",
			logs: []any{logged(10, 3, topicUsed, us, nonceTopic(1), "0x", a), logged(10, 4, topicTransfer, us, them, "0x05", a)}, fails: "other logs",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.logs == nil {
				c.logs = []any{}
			}
			client := connect(t, answers{onBase(), map[bool]any{false: c.logs}}, chain.Options{})
			got, err := client.Used(t.Context(), usedQuery(10, 20))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("%+v, error %v", got, err)
				}
				return
			}
			if err != nil || !slices.Equal(brief(got.Used), c.want) || got.Through != 20 {
				t.Fatalf("%v, %d, %v", brief(got.Used), got.Through, err)
			}
			if got.Chain != (pay.ChainIdentity{ChainID: 8453, Genesis: hash(0)}) {
				t.Errorf("from %+v", got.Chain)
			}
			for _, u := range got.Used {
				if u.Block.Hash != hash(u.Block.Number) || u.Block.Time.Unix() != onBase().time(u.Block.Number) {
					t.Errorf("block %+v", u.Block)
				}
			}
		})
	}
}

// When a provider refuses a large range, later queries stay small.
func TestUsedInSmallRanges(t *testing.T) {
	t.Parallel()
	n := onBase()
	n.event, n.maxRange = 0, 300
	limited := connect(t, narrow{n}, chain.Options{})
	got, err := limited.Used(t.Context(), usedQuery(1, 2000))
	if err != nil || got.Size > 300 || got.Size < 100 || got.Through != got.Size {
		t.Fatalf("%+v, %v", got, err)
	}
	before := n.count("eth_getLogs")
	q := usedQuery(got.Through+1, 2000)
	q.Size = got.Size
	if got, err = limited.Used(t.Context(), q); err != nil || got.Through != q.From+q.Size-1 || n.count("eth_getLogs") != before+1 {
		t.Errorf("%+v, %v, %d calls", got, err, n.count("eth_getLogs")-before)
	}
}

// Both the block of a backup and the safe block must be on the chain.
func TestUsedOnAnotherChain(t *testing.T) {
	t.Parallel()
	client := connect(t, answers{onBase(), map[bool]any{false: []any{}}}, chain.Options{})
	known := pay.ChainBlock{Number: 5, Hash: hash(5)}
	q := usedQuery(10, 20)
	q.Known = &known
	must(client.Used(t.Context(), q))
	known.Hash = hash(6)
	if _, err := client.Used(t.Context(), q); err == nil || !strings.Contains(err.Error(), "block 5 was") {
		t.Errorf("error %v", err)
	}
	q = usedQuery(10, 20)
	q.Safe.Hash = hash(3)
	if _, err := client.Used(t.Context(), q); err == nil {
		t.Error("a safe block that is not on the chain")
	}
	for _, q := range []pay.UsedQuery{usedQuery(20, 10), usedQuery(10, 1_000_101)} {
		if _, err := client.Used(t.Context(), q); err == nil {
			t.Errorf("blocks %d to %d", q.From, q.To)
		}
	}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	n := onBase()
	client := connect(t, n, chain.Options{})
	b, err := client.Before(t.Context(), base, created)
	if early := created.Sub(b.Time); err != nil || early < 0 || early > 3*time.Minute || b.Hash != hash(b.Number) {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := client.Before(t.Context(), base, created.Add(24*time.Hour)); err != nil || b.Number != n.safe {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := client.Safe(t.Context(), base); err != nil || b.Number != n.safe {
		t.Errorf("%+v, %v", b, err)
	}
}

// inOneTransaction makes several calls in one transaction of another account.
func inOneTransaction(ctx context.Context, t *testing.T, network *evm.Chain, calls [][]byte) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := abi.JSON(strings.NewReader(`[{"name":"aggregate","type":"function","inputs":[{"name":"calls","type":"tuple[]",
		"components":[{"name":"target","type":"address"},{"name":"callData","type":"bytes"}]}],"outputs":[]}]`))
	must(err)
	type call struct {
		Target   common.Address
		CallData []byte
	}
	var list []call
	for _, data := range calls {
		list = append(list, call{network.TokenAddress(), data})
	}
	data, err := parsed.Pack("aggregate", list)
	must(err)
	key, err := crypto.GenerateKey()
	must(err)
	must(network.FundETH(ctx, crypto.PubkeyToAddress(key.PublicKey), big.NewInt(1e18)))
	rpc, err := ethclient.DialContext(ctx, network.RPCURL())
	must(err)
	defer rpc.Close()
	to := common.HexToAddress("0xcA11bde05977b3631167028862bE2a173976CA11")
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(8453)), &types.DynamicFeeTx{
		ChainID: big.NewInt(8453), To: &to, Gas: 1_000_000, GasFeeCap: big.NewInt(1e11), GasTipCap: big.NewInt(1e9), Data: data,
	})
	must(err)
	must(rpc.SendTransaction(ctx, tx))
	for {
		receipt, err := rpc.TransactionReceipt(ctx, tx.Hash())
		if err == nil {
			if receipt.Status != 1 {
				t.Fatal("the transaction failed")
			}
			return tx.Hash().Hex()
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// packed returns the call data that uses an authorization.
func (p realPayer) packed(t *testing.T, a x402.Authorization) []byte {
	t.Helper()
	parsed := must(abi.JSON(strings.NewReader(string(contracts.Token().ABI))))
	const signature = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
	method := must(parsed.MethodById(crypto.Keccak256([]byte(signature))[:4]))
	signed := must(x402test.Sign(a.Digest(usdc, base.ChainID), p.key))
	args, err := method.Inputs.Pack(common.Address(a.From.EVM()), common.Address(a.To.EVM()), a.Value.Big(), new(big.Int), new(big.Int).SetUint64(a.ValidBefore),
		[32]byte(a.Nonce), signed[64], [32]byte(signed[:32]), [32]byte(signed[32:64]))
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(method.ID), args...)
}

// Used finds every payment by authorization, and nothing else, on a chain that really moved the
// money.
func TestUsedOnARealChain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	network := must(evm.Start(ctx, evm.Options{}))
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	client := must(chain.New(chain.Options{URL: network.RPCURL()}))
	t.Cleanup(client.Close)
	var rich []realPayer
	for range 2 {
		key := must(crypto.GenerateKey())
		p := realPayer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))}
		if err := network.Fund(ctx, common.Address(p.address.EVM()), big.NewInt(1_000_000)); err != nil {
			t.Fatal(err)
		}
		rich = append(rich, p)
	}
	want := map[x402.Nonce]string{}
	pays := func(p realPayer, nonce byte, amount uint64) x402.Authorization {
		a := p.authorize(nonce, time.Minute).Authorization
		a.Value = money.New(amount)
		return a
	}
	for i, p := range rich {
		a := pays(p, byte(10+i), uint64(100+i))
		want[a.Nonce] = p.settle(ctx, t, network, a)
	}
	rich[0].cancel(ctx, t, network, x402.Nonce{0: 20})
	first, second, third := pays(rich[0], 30, 300), pays(rich[1], 31, 301), pays(rich[0], 32, 302)
	batch := inOneTransaction(ctx, t, network, [][]byte{rich[0].packed(t, first), rich[1].packed(t, second), rich[0].packed(t, third)})
	want[first.Nonce], want[second.Nonce], want[third.Nonce] = batch, batch, batch

	q := pay.UsedQuery{Network: base, Asset: usdc, Wallets: []x402.Address{rich[0].address, rich[1].address}, From: 1}
	for {
		q.Safe = must(client.Safe(ctx, base))
		q.To = q.Safe.Number
		got := must(client.Used(ctx, q))
		if len(got.Used) < len(want) && ctx.Err() == nil { // not safe yet
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if len(got.Used) != len(want) {
			t.Fatalf("%d authorizations, want %d", len(got.Used), len(want))
		}
		for _, u := range got.Used {
			amount := map[byte]uint64{10: 100, 11: 101, 30: 300, 31: 301, 32: 302}[u.Nonce[0]]
			if u.Transaction != want[u.Nonce] || !u.Matched || u.To != payee || u.Value != money.New(amount) {
				t.Errorf("%+v, want transaction %s and amount %d", u, want[u.Nonce], amount)
			}
		}
		break
	}
}

// narrow returns a node without logs that answers for few blocks only.
type narrow struct{ *node }

func (n narrow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var call struct {
		Method string
		Params []struct{ FromBlock, ToBlock string }
	}
	if strings.Contains(string(body), "eth_getLogs") {
		n.mu.Lock()
		n.calls["eth_getLogs"]++
		n.mu.Unlock()
		_ = json.Unmarshal(body, &call)
		from, _ := strconv.ParseUint(call.Params[0].FromBlock[2:], 16, 64)
		to, _ := strconv.ParseUint(call.Params[0].ToBlock[2:], 16, 64)
		if to-from+1 > n.maxRange {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"range too large"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":[]}`)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	n.node.ServeHTTP(w, r)
}
