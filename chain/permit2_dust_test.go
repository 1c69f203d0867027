package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// weakRPC passes questions on to another RPC. It counts them, and refuses what weaker RPCs refuse.
type weakRPC struct {
	to        string
	stateless bool // it has the state of the blocks only that it names by a tag
	mostLogs  int  // in one answer; 0: any number

	mu    sync.Mutex
	tags  map[string]bool // hashes of blocks that were named by a tag
	asked map[string]int  // by method
}

// weak starts a weak RPC, and returns it with a client of its own.
func (w *permit2World) weak(r *weakRPC) (*weakRPC, *chain.Client) {
	w.t.Helper()
	r.to, r.tags, r.asked = w.chain.RPCURL(), map[string]bool{}, map[string]int{}
	server := httptest.NewServer(r)
	w.t.Cleanup(server.Close)
	client := must(chain.New(chain.Options{URL: server.URL}))
	w.t.Cleanup(client.Close)
	return r, client
}

func (r *weakRPC) count(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[method]
}

func (r *weakRPC) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	question, _ := io.ReadAll(req.Body)
	var call struct {
		Method string
		Params []json.RawMessage
	}
	_ = json.Unmarshal(question, &call)
	r.mu.Lock()
	r.asked[call.Method]++
	refused := r.stateless && call.Method == "eth_call" && !r.hasState(call.Params)
	r.mu.Unlock()
	if refused {
		_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"missing trie node"}}`)
		return
	}
	answer, err := http.Post(r.to, "application/json", bytes.NewReader(question)) //nolint:noctx // of a test
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	switch {
	case call.Method == "eth_getLogs" && r.mostLogs > 0 && bytes.Count(body, []byte(`"transactionHash"`)) > r.mostLogs:
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"query returned more than %d results"}}`, r.mostLogs)
	case call.Method == "eth_getBlockByNumber" && !bytes.HasPrefix(call.Params[0], []byte(`"0x`)):
		var named struct{ Result struct{ Hash string } }
		_ = json.Unmarshal(body, &named)
		r.mu.Lock()
		r.tags[named.Result.Hash] = true
		r.mu.Unlock()
	}
	_, _ = rw.Write(body)
}

func (r *weakRPC) hasState(params []json.RawMessage) bool {
	var at struct{ BlockHash string }
	_ = json.Unmarshal(params[1], &at)
	return string(params[1]) == `"latest"` || r.tags[at.BlockHash]
}

// dust is a transfer of nothing, which any account can make from any wallet to any payee.
func dust(a x402.Authorization) call {
	return call{common.Address(usdc.Address.EVM()), false, slices.Concat(
		crypto.Keccak256([]byte("transferFrom(address,address,uint256)"))[:4],
		common.LeftPadBytes(a.From.Bytes(), 32), common.LeftPadBytes(a.To.Bytes(), 32), make([]byte, 32),
	)}
}

// dusty is one transaction with so many transfers of nothing.
func dusty(a x402.Authorization, n int) call {
	return call{Target: multicall, CallData: multicallData(slices.Repeat([]call{dust(a)}, n)...)}
}

// requireMoved waits until a safe block knows of the nonce, and compares what moved. least bounds it from
// below, for an RPC that cannot tell exactly.
func (w *permit2World) requireMoved(what string, client *chain.Client, q pay.TraceQuery, least, most uint64) {
	w.t.Helper()
	w.traced(q)
	got, err := client.Trace(w.ctx, q)
	if err != nil || !got.Used || got.Canceled || got.Moved.Cmp(money.New(least)) < 0 || got.Moved.Cmp(money.New(most)) > 0 {
		w.t.Errorf("%s: trace %+v, %v; want %d to %d moved", what, got, err, least, most)
	}
}

// Transfers of nothing hide no settlement, wherever they are and however little the RPC answers.
func TestPermit2BehindTransfersOfNothing(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	seller := w.stranger(must(crypto.GenerateKey()))
	facilitator := x402.EVMAddress(crypto.PubkeyToAddress(seller.key.PublicKey))
	upto, exact := w.permits(x402.RailUpto, 1, facilitator), w.permits(x402.RailPermit2, 2, facilitator)
	token := w.authorize(3, time.Minute)
	a, b := upto.Authorization, exact.Authorization
	const many = 60
	for range 3 {
		seller.inOneBlock(dusty(a, many), dusty(a, many))
	}
	seller.inOneBlock(dusty(a, many), w.call(a, 1234, w.sign(a)), dusty(a, many), w.call(b, 0, w.sign(b)),
		call{Target: w.chain.TokenAddress(), CallData: w.tokenCall(token.Authorization)}, dusty(a, many))
	for range 3 {
		seller.inOneBlock(dusty(a, many))
	}
	for name, r := range map[string]*weakRPC{
		"any RPC":                                 {},
		"one that answers few logs":               {mostLogs: 20},
		"one without old states":                  {stateless: true},
		"one without old states, with few logs":   {stateless: true, mostLogs: 20},
		"one that answers as many as a block has": {mostLogs: many},
	} {
		r, client := w.weak(r)
		w.requireMoved("upto, "+name, client, upto, 1234, 1234)
		w.requireMoved("exact, "+name, client, exact, 10_000, 10_000)
		w.requireMoved("EIP-3009, "+name, client, token, 10_000, 10_000)
		if n := r.count("eth_getTransactionByHash"); n > 4 {
			t.Errorf("%s: asked for %d transactions", name, n)
		}
	}
}

// A settlement of nothing is told apart from transfers of nothing beside it.
func TestUptoOfNothingBehindTransfersOfNothing(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	seller := w.stranger(must(crypto.GenerateKey()))
	q := w.permits(x402.RailUpto, 1, x402.EVMAddress(crypto.PubkeyToAddress(seller.key.PublicKey)))
	seller.inOneBlock(dusty(q.Authorization, 60), w.call(q.Authorization, 0, w.sign(q.Authorization)), dusty(q.Authorization, 60))
	w.requireMoved("nothing", w.client, q, 0, 0)

	// A nonce that its owner gave up among them moved nothing either, and is no settlement.
	given := w.permits(x402.RailUpto, 2, x402.Address{})
	owner := w.stranger(w.key)
	owner.inOneBlock(dusty(given.Authorization, 60), call{Target: common.Address(x402.Permit2.EVM()), CallData: given.Authorization.GiveUpCall()})
	if got := w.traced(given); got.Used || !got.Canceled {
		t.Errorf("given up: trace %+v", got)
	}
}

// A wallet that buys often at one seller costs each look at a payment as much as one that bought once.
// An RPC without old states is asked once for each transaction, by all looks together.
func TestPermit2AmongManyPayments(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	const payments = 6
	var all []pay.TraceQuery
	for n := range payments {
		q := w.permits(x402.RailUpto, byte(n+2), w.chain.Operator())
		w.settles(q.Authorization, uint64(10+n))
		all = append(all, q)
	}
	w.traced(all[payments-1])
	r, client := w.weak(&weakRPC{})
	for n, q := range all {
		w.requireMoved(fmt.Sprint("payment ", n), client, q, uint64(10+n), uint64(10+n))
		if asked := r.count("eth_getTransactionByHash"); asked > n+1 {
			t.Errorf("%d looks asked for %d transactions", n+1, asked)
		}
	}
	r, client = w.weak(&weakRPC{stateless: true})
	for n, q := range all {
		w.requireMoved(fmt.Sprint("payment ", n, " without old states"), client, q, uint64(10+n), uint64(10+n))
	}
	if asked := r.count("eth_getTransactionByHash"); asked > payments {
		t.Errorf("without old states: %d looks asked for %d transactions", payments, asked)
	}
}

// A block full of transfers of nothing keeps neither reconciling nor statements from reading on, where the RPC
// lists few logs at once.
func TestScanThroughTransfersOfNothing(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	seller := w.stranger(must(crypto.GenerateKey()))
	upto := w.permits(x402.RailUpto, 1, x402.EVMAddress(crypto.PubkeyToAddress(seller.key.PublicKey)))
	a, token := upto.Authorization, w.authorize(2, time.Minute)
	seller.inOneBlock(dusty(a, 60), w.call(a, 1234, w.sign(a)), call{Target: w.chain.TokenAddress(), CallData: w.tokenCall(token.Authorization)}, dusty(a, 60))
	last := w.permits(x402.RailPermit2, 3, x402.Address{})
	w.settles(last.Authorization, 0)
	w.traced(last)
	safe := must(w.client.Safe(w.ctx, base))
	r, client := w.weak(&weakRPC{mostLogs: 20})

	var used []string
	var unexplained []pay.UsedAuthorization
	for q := (pay.UsedQuery{Network: base, Asset: usdc, Wallets: []x402.Address{w.address}, From: 1, To: safe.Number, Safe: safe}); q.From <= q.To; {
		got, err := client.Used(w.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range got.Used {
			used = append(used, fmt.Sprint(u.Nonce == a.Nonce, u.Value, u.Matched))
		}
		unexplained = append(unexplained, got.Unexplained...)
		q.From, q.Size = got.Through+1, got.Size
	}
	slices.Sort(used[:min(2, len(used))]) // they are in one block
	if want := []string{"false 10000 true", "true 1234 true", "false 10000 true"}; !slices.Equal(used, want) || len(unexplained) > 0 {
		t.Errorf("used %q, want %q; unexplained %+v", used, want, unexplained)
	}
	if n := r.count("eth_getTransactionByHash"); n > 3 { // the block's, for each rail once, and the last one
		t.Errorf("asked for %d transactions", n)
	}

	var moved []string
	for q := (treasury.TransfersQuery{Network: base, Asset: usdc, Wallets: []x402.Address{w.address}, From: 1, To: safe.Number}); q.From <= q.To; {
		got, err := client.Transfers(w.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, transfer := range got.Transfers {
			if transfer.From == w.address {
				moved = append(moved, transfer.Value.String())
			}
		}
		q.From, q.Size = got.Through+1, got.Size
	}
	slices.Sort(moved)
	if want := []string{"10000", "10000", "1234"}; !slices.Equal(moved, want) {
		t.Errorf("transfers %q, want %q", moved, want)
	}
}

// An RPC that has had too many questions does not lack a state: nothing is concluded from its refusal.
func TestPermit2OverQuota(t *testing.T) {
	t.Parallel()
	w := newPermit2World(t)
	q := w.permits(x402.RailUpto, 1, x402.EVMAddress(multicall))
	w.together(w.call(q.Authorization, 7, w.sign(q.Authorization)))
	w.requireMoved("with its state", w.client, q, 7, 7)
	forward, _ := w.weak(&weakRPC{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if text := string(body); strings.Contains(text, "4fe02b44") && !strings.Contains(text, "blockHash") { // nonceBitmap
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"error":{"code":-32016,"message":"over rate limit"}}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	client := must(chain.New(chain.Options{URL: server.URL}))
	t.Cleanup(client.Close)
	if got, err := client.Trace(w.ctx, q); err == nil {
		t.Errorf("7 have moved, and the trace of an RPC that refuses says %+v", got)
	}
}
