package chain_test

import (
	"bytes"
	"context"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

var multicall = common.HexToAddress("0xcA11bde05977b3631167028862bE2a173976CA11")

// permit2World is a payer on a real chain that has approved some tokens to Permit2.
type permit2World struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test
	chain  *evm.Chain
	client *chain.Client
	realPayer
}

func newPermit2World(t *testing.T) *permit2World {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	network := must(evm.Start(t.Context(), evm.Options{}))
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	client := must(chain.New(chain.Options{URL: network.RPCURL()}))
	t.Cleanup(client.Close)
	key := must(crypto.GenerateKey())
	w := &permit2World{t, ctx, network, client, realPayer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))}}
	if err := network.Fund(ctx, common.Address(w.address.EVM()), big.NewInt(1_000_000)); err != nil {
		t.Fatal(err)
	}
	if err := network.Approve(ctx, key, x402.Permit2, big.NewInt(500_000)); err != nil {
		t.Fatal(err)
	}
	return w
}

// permits makes an authorization of Permit2. facilitator counts for upto only.
func (w *permit2World) permits(rail x402.Rail, nonce byte, facilitator x402.Address) pay.TraceQuery {
	q := w.authorize(nonce, time.Minute)
	q.Authorization.Rail, q.Authorization.Nonce[31] = rail, nonce
	if rail == x402.RailUpto {
		q.Authorization.Facilitator = facilitator
	}
	return q
}

func (w *permit2World) sign(a x402.Authorization) x402.Signature {
	return must(x402test.Sign(a.Digest(usdc, base.ChainID), w.key))
}

func (w *permit2World) settles(a x402.Authorization, amount uint64) string {
	return must(w.chain.SettlePermit2(w.ctx, a, money.New(amount), w.sign(a)))
}

// call is one call of Multicall3, which goes on when it fails.
type call struct {
	Target       common.Address
	AllowFailure bool
	CallData     []byte
}

func (w *permit2World) call(a x402.Authorization, amount uint64, s x402.Signature) call {
	to, data, err := w.chain.Permit2Call(a, money.New(amount), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return call{to, true, data}
}

// together makes several calls in one transaction.
func (w *permit2World) together(calls ...call) string {
	w.t.Helper()
	return must(w.chain.Relay(w.ctx, multicall, multicallData(calls...)))
}

func multicallData(calls ...call) []byte {
	tuple := must(abi.NewType("tuple[]", "", []abi.ArgumentMarshaling{
		{Name: "Target", Type: "address"}, {Name: "AllowFailure", Type: "bool"}, {Name: "CallData", Type: "bytes"},
	}))
	data := must(abi.Arguments{{Type: tuple}}.Pack(calls))
	selector := crypto.Keccak256([]byte("aggregate3((address,bool,bytes)[])"))[:4]
	return slices.Concat(selector, data)
}

// traced waits until a safe block knows of the nonce.
func (w *permit2World) traced(q pay.TraceQuery) pay.Trace {
	w.t.Helper()
	return poll(w.ctx, w.t, w.client, q, func(got pay.Trace) bool { return got.SafeUsed })
}

func (w *permit2World) requireUsed(what string, q pay.TraceQuery, transaction string, moved uint64) {
	w.t.Helper()
	got := w.traced(q)
	if !got.Used || got.Canceled || !got.SafeLogs || got.Transaction != transaction || got.Moved != money.New(moved) {
		w.t.Errorf("%s: trace %+v, want %d moved in %s", what, got, moved, transaction)
	}
}

// TestPermit2OnARealChain checks what became of messages to Permit2 on a chain that moved the money.
func TestPermit2OnARealChain(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	if got := must(w.client.Allowance(w.ctx, base, usdc, w.address, x402.Permit2)); got != money.New(500_000) {
		t.Errorf("allowance %s", got)
	}
	operator := w.chain.Operator()

	exact := w.permits(x402.RailPermit2, 1, operator)
	first := w.settles(exact.Authorization, 0)
	w.requireUsed("exact", exact, first, 10_000)

	upto := w.permits(x402.RailUpto, 2, operator)
	transaction := w.settles(upto.Authorization, 1234)
	w.requireUsed("upto", upto, transaction, 1234)

	// After a restored backup, an idempotency key yields the same nonce for other terms.
	exact.Authorization.ValidBefore -= 40
	w.requireUsed("exact by an earlier authorization", exact, first, 10_000)
	upto.Authorization.ValidBefore, upto.Authorization.Value = upto.Authorization.ValidBefore-40, money.New(9_000)
	w.requireUsed("upto by an earlier authorization", upto, transaction, 1234)

	unused := w.permits(x402.RailPermit2, 3, operator)
	if got := must(w.client.Trace(w.ctx, unused)); got.Used || got.Canceled || got.SafeUsed {
		t.Errorf("unused: trace %+v", got)
	}

	other := exact
	other.Authorization.Value = money.New(10_001)
	if got, err := w.client.Trace(w.ctx, other); err == nil {
		t.Errorf("another amount under the nonce: trace %+v", got)
	}
	if got := must(w.client.Balance(w.ctx, base, usdc, w.address)); got != money.New(1_000_000-10_000-1234) {
		t.Errorf("balance %s", got)
	}
}

// A nonce that its owner gave up moved nothing, unless a transfer had spent it before.
func TestPermit2NoncesGivenUp(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	given := w.permits(x402.RailPermit2, 1, x402.Address{})
	transaction := must(w.chain.InvalidateNonce(w.ctx, w.key, given.Authorization.Nonce))
	if got := w.traced(given); got.Used || !got.Canceled || !got.SafeLogs || got.Transaction != transaction {
		t.Errorf("given up: trace %+v, want %s", got, transaction)
	}
	if _, err := w.chain.SettlePermit2(w.ctx, given.Authorization, money.Amount{}, w.sign(given.Authorization)); err == nil {
		t.Error("it moved money all the same")
	}

	spent := w.permits(x402.RailPermit2, 2, x402.Address{})
	transaction = w.settles(spent.Authorization, 0)
	must(w.chain.InvalidateNonce(w.ctx, w.key, spent.Authorization.Nonce))
	w.requireUsed("given up after it was spent", spent, transaction, 10_000)

	// An RPC whose logs are incomplete does not make a cancellation of it.
	blind := must(chain.New(chain.Options{URL: withoutTransfers(t, w.chain.RPCURL())}))
	t.Cleanup(blind.Close)
	if got, err := blind.Trace(w.ctx, spent); err == nil {
		t.Errorf("without the transfer's log: trace %+v", got)
	}

	// The event names bits of a word. Bits of other nonces say nothing of this one.
	neighbor := w.permits(x402.RailPermit2, 3, x402.Address{})
	if got := must(w.client.Trace(w.ctx, neighbor)); got.SafeUsed || got.Canceled {
		t.Errorf("its neighbor: trace %+v", got)
	}
}

// withoutTransfers is an RPC that has lost the logs of transfers.
func withoutTransfers(t *testing.T, to string) string {
	t.Helper()
	forward := httputil.NewSingleHostReverseProxy(must(url.Parse(to)))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), topicTransfer) {
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"result":[]}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A transaction can have several transfers, and calls that fail. Each authorization is found with
// what it moved.
func TestPermit2TransfersInOneTransaction(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	relayer := x402.EVMAddress(multicall)
	first, second := w.permits(x402.RailPermit2, 1, relayer), w.permits(x402.RailPermit2, 2, relayer)
	third, fourth := w.permits(x402.RailUpto, 3, relayer), w.permits(x402.RailUpto, 4, relayer)
	a, b, c, d := first.Authorization, second.Authorization, third.Authorization, fourth.Authorization

	// The call that moves 7 of the fourth authorization stands beside a call that would move 9 and fails.
	transaction := w.together(
		w.call(a, 0, w.sign(a)), w.call(b, 0, w.sign(b)), w.call(c, 9, w.sign(c)), w.call(d, 9, x402.Signature{}), w.call(d, 7, w.sign(d)),
	)
	w.requireUsed("first", first, transaction, 10_000)
	w.requireUsed("second", second, transaction, 10_000)
	// A contract can make calls that its data does not show, so what upto moved is bounded from below only.
	for q, least := range map[*pay.TraceQuery]uint64{&third: 9, &fourth: 7} {
		if got := w.traced(*q); !got.Used || got.Transaction != transaction || got.Moved.Cmp(money.New(least)) < 0 {
			t.Errorf("upto: trace %+v, want at least %d moved in %s", got, least, transaction)
		}
	}

	// A call that fails says nothing of an authorization, although the transaction moves the same amount.
	fifth, sixth := w.permits(x402.RailUpto, 5, relayer), w.permits(x402.RailUpto, 6, relayer)
	e, f := fifth.Authorization, sixth.Authorization
	w.together(w.call(e, 1, x402.Signature{}), w.call(f, 1, w.sign(f)))
	if got := must(w.client.Trace(w.ctx, fifth)); got.Used || got.SafeUsed {
		t.Errorf("fifth: trace %+v", got)
	}
	transaction = w.together(w.call(e, 5000, w.sign(e)))
	w.requireUsed("fifth, with a decoy before it", fifth, transaction, 5000)
}

// Reconciling finds the uses of Permit2, which no event tells of, beside those of the token.
func TestUsedTellsOfPermit2(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	relayer := x402.EVMAddress(multicall)
	token := w.authorize(1, time.Minute)
	exact, upto := w.permits(x402.RailPermit2, 2, relayer), w.permits(x402.RailUpto, 3, relayer)
	a, b := exact.Authorization, upto.Authorization
	transactions := []string{
		w.settle(w.ctx, t, w.chain, token.Authorization),
		w.together(w.call(b, 1, x402.Signature{}), w.call(a, 0, w.sign(a)), w.call(b, 77, w.sign(b))),
	}
	transactions = append(transactions, transactions[1])
	// A transfer without any authorization is told of.
	plain := slices.Concat(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], common.LeftPadBytes(payee.Bytes(), 32), common.LeftPadBytes([]byte{5}, 32))
	must(w.chain.Send(w.ctx, w.key, w.chain.TokenAddress(), plain))

	w.traced(upto)
	safe := must(w.client.Safe(w.ctx, base))
	for transfers := must(w.chain.Transfers(w.ctx, new(common.Address(w.address.EVM())), nil, 0)); transfers[len(transfers)-1].Block > safe.Number; {
		safe = must(w.client.Safe(w.ctx, base))
	}
	got := must(w.client.Used(w.ctx, pay.UsedQuery{Network: base, Asset: usdc, Wallets: []x402.Address{w.address}, From: 1, To: safe.Number, Safe: safe}))
	want := []pay.UsedAuthorization{
		{Nonce: token.Authorization.Nonce, Value: money.New(10_000)},
		{Nonce: a.Nonce, Rail: x402.RailPermit2, Value: money.New(10_000)},
		{Nonce: b.Nonce, Rail: x402.RailUpto, Value: money.New(77)},
	}
	if len(got.Used) != len(want) {
		t.Fatalf("used: %+v", got.Used)
	}
	if left := got.Unexplained; len(left) != 1 || left[0].Value != money.New(5) || left[0].From != w.address || left[0].To != payee {
		t.Errorf("unexplained: %+v", left)
	}
	for i, u := range got.Used {
		want[i].From, want[i].To, want[i].Matched, want[i].Transaction = w.address, payee, true, transactions[i]
		want[i].Block = u.Block
		if u != want[i] || u.Block.Number == 0 {
			t.Errorf("%d: %+v, want %+v", i, u, want[i])
		}
	}
}
