package tempo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// local is the chain that all tests share.
var local = struct {
	sync.Once
	chain *process.Tempo
	err   error
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	if local.chain != nil {
		local.chain.Kill()
	}
	os.Exit(code)
}

func start(t *testing.T) *process.Tempo {
	t.Helper()
	local.Do(func() { local.chain, local.err = process.StartTempo(t) })
	if local.err != nil {
		t.Fatal(local.err)
	}
	return local.chain
}

func open(t *testing.T, rpc string) *tempo.Client {
	t.Helper()
	c, err := tempo.New(chain.Options{URL: rpc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// payer is an account with money.
type payer struct {
	t     *testing.T
	chain *process.Tempo
	rpc   *tempo.Client
	rail  *tempo.Rail
	key   *x402.Key
	asked int
	payee x402.Address
}

const funds = 1_000_000

func newPayer(t *testing.T) *payer {
	t.Helper()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := &payer{t: t, chain: start(t), key: key, payee: x402.EVMAddress([20]byte{19: 0xbb})}
	p.rpc = open(t, p.chain.URL)
	p.rail = tempo.NewRail(p.rpc, nil)
	if err := p.chain.Fund(t.Context(), common.Address(key.Address().EVM()), funds); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *payer) balance() uint64 {
	p.t.Helper()
	have, err := p.chain.Balance(p.t.Context(), common.Address(p.key.Address().EVM()))
	if err != nil {
		p.t.Fatal(err)
	}
	return have.Uint64()
}

// sign makes a payment of 10,000 that is valid for a time, and returns what to ask of it, and its signed bytes.
func (p *payer) sign(valid time.Duration, details string) (q pay.TraceQuery, signed string) {
	p.t.Helper()
	p.asked++
	request := fmt.Sprintf(`{"amount":"10000","currency":"%s","recipient":"%s","methodDetails":{"chainId":4217%s}}`, process.TempoToken, p.payee, details)
	list, _, err := mpp.Parse([]string{fmt.Sprintf(`Payment id="%d", realm="r", method="tempo", intent="charge", request="%s"`, p.asked, base64.RawURLEncoding.EncodeToString([]byte(request)))})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := list[0].Charge()
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	q = pay.TraceQuery{Network: tempo.Network(), Created: now}
	q.Asset, _ = q.Network.Asset(r.Asset)
	q.Authorization, err = p.rail.Authorize(p.t.Context(), x402.Authorization{
		From: p.key.Address(), To: r.PayTo, Value: r.Amount, ValidBefore: uint64(now.Add(valid).Unix()), Nonce: x402.Nonce{1}, Rail: tempo.Number,
	}, r)
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := p.key.Sign(p.rail.Sign(q.Authorization).Digest)
	if err != nil {
		p.t.Fatal(err)
	}
	payload, err := p.rail.Payload(x402.Offer{Version: mpp.Version, Accepted: r.Raw}, q.Authorization, s)
	if err != nil {
		p.t.Fatal(err)
	}
	var top struct{ Payload struct{ Signature string } }
	if err := json.Unmarshal(payload.JSON, &top); err != nil {
		p.t.Fatal(err)
	}
	return q, top.Payload.Signature
}

func (p *payer) trace(c *tempo.Client, q pay.TraceQuery) pay.Trace {
	p.t.Helper()
	got, err := c.Trace(p.t.Context(), q)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// lend lets another account move the payer's money.
func (p *payer) lend() {
	p.t.Helper()
	token, bank := tempo.Network().Assets[1].Address, common.HexToAddress(process.TempoBank)
	approve := tempo.Transaction{
		ChainID: process.TempoChainID, MaxFee: money.New(100_000_000_000), Gas: 1_000_000, ValidBefore: uint64(time.Now().Add(20 * time.Second).Unix()), FeeToken: token,
		Calls: []tempo.Call{{To: token, Data: slices.Concat(common.FromHex("095ea7b3"), common.LeftPadBytes(bank[:], 32), common.LeftPadBytes([]byte{0xff, 0xff, 0xff, 0xff}, 32))}},
	}
	s, err := p.key.Sign(approve.Digest())
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := approve.Signed(s)
	if err == nil {
		err = p.rpc.Submit(p.t.Context(), "0x"+common.Bytes2Hex(b))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// leave has that account take all of the payer's money but some.
func (p *payer) leave(rest uint64) {
	p.t.Helper()
	bank, taken := common.HexToAddress(process.TempoBank), new(big.Int).SetUint64(p.balance()-rest)
	if err := p.chain.Call(p.t.Context(), "transferFrom(address,address,uint256)", p.key.Address().Bytes(), bank[:], taken.Bytes()); err != nil {
		p.t.Fatal(err)
	}
	if have := p.balance(); have != rest {
		p.t.Fatalf("%d are left", have)
	}
}

// until traces until a condition holds.
func (p *payer) until(q pay.TraceQuery, within time.Duration, holds func(pay.Trace) bool) (got pay.Trace) {
	p.t.Helper()
	process.Eventually(p.t, within, func() string {
		if got = p.trace(p.rpc, q); holds(got) {
			return ""
		}
		return fmt.Sprintf("%+v", got)
	})
	return got
}

// A transaction moves the price and the fee once, however often it is sent.
func TestTakenOnce(t *testing.T) {
	t.Parallel()
	p := newPayer(t)
	for _, details := range []string{"", `,"splits":[{"amount":"2000","recipient":"0x00000000000000000000000000000000000000aa"}]`} {
		before := p.balance()
		q, signed := p.sign(25*time.Second, details)
		if got := p.trace(p.rpc, q); got.Used {
			t.Fatalf("used before it was sent: %+v", got)
		}
		if err := p.rpc.Submit(t.Context(), signed); err != nil {
			t.Fatal(err)
		}
		got := p.until(q, 10*time.Second, func(got pay.Trace) bool { return got.SafeLogs })
		moved := before - p.balance()
		b, err := hexBytes(signed)
		if err != nil {
			t.Fatal(err)
		}
		if got.Moved != money.New(moved) || moved <= 10_000 || q.Authorization.Value.Cmp(got.Moved) < 0 || got.Transaction != tempo.Hash(b) {
			t.Errorf("%+v, and %d have left", got, moved)
		}
		_ = p.rpc.Submit(t.Context(), signed) // some nodes refuse it, others name the first one
		process.Eventually(t, 10*time.Second, func() string {
			if now := p.trace(p.rpc, q); now.SafeNumber < got.SafeNumber+2 {
				return "no newer block"
			}
			return ""
		})
		if now := p.balance(); now != before-moved {
			t.Errorf("sent again, it moved %d more", before-moved-now)
		}
	}
}

// Any account can log a transfer of nothing from any wallet, with the memo of its payment. It is no payment, and hides none.
func TestTransfersOfNothing(t *testing.T) {
	t.Parallel()
	p := newPayer(t)
	nothing := func(q pay.TraceQuery) {
		t.Helper()
		a := q.Authorization
		if err := p.chain.Call(t.Context(), "transferFromWithMemo(address,address,uint256,bytes32)", a.From.Bytes(), a.To.Bytes(), nil, a.Nonce[:]); err != nil {
			t.Fatal(err)
		}
	}
	q, signed := p.sign(25*time.Second, "")
	nothing(q)
	if got := p.trace(p.rpc, q); got.Used {
		t.Fatalf("used before it was sent: %+v", got)
	}
	if err := p.rpc.Submit(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	got := p.until(q, 10*time.Second, func(got pay.Trace) bool { return got.SafeLogs })
	moved := money.New(funds - p.balance())
	if got.Moved != moved {
		t.Errorf("%+v, and %s have left", got, moved)
	}
	safe, err := p.rpc.Safe(t.Context(), q.Network)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.rpc.Used(t.Context(), pay.UsedQuery{Network: q.Network, Asset: q.Asset, Wallets: []x402.Address{q.Authorization.From}, From: 1, To: safe.Number, Safe: safe})
	if err != nil || len(all.Used) != 1 || all.Used[0].Value != moved || all.Used[0].Value.SubSaturated(all.Used[0].Fee) != money.New(10_000) || len(all.Unexplained) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	q, _ = p.sign(11*time.Second, "")
	nothing(q)
	ends := time.Unix(int64(q.Authorization.ValidBefore), 0)
	if got := p.until(q, 30*time.Second, func(got pay.Trace) bool { return !got.SafeTime.Before(ends) }); got.Used || got.SafeUsed {
		t.Errorf("never sent: %+v", got)
	}
}

// estimating is an RPC that estimates gas, which the local chain's does not.
type estimating struct {
	tempo.Node
	gas uint64
}

func (e estimating) Gas(context.Context, x402.Address, []tempo.Call) (uint64, error) {
	return e.gas, nil
}

// A payee sends on all that it has while a payment is on its way. That takes more gas than was estimated, and the payment
// has it.
func TestPayeeThatSendsOn(t *testing.T) {
	t.Parallel()
	p, payee := newPayer(t), newPayer(t)
	p.payee = payee.key.Address()
	payee.lend()
	q, signed := p.sign(25*time.Second, "")
	if err := p.rpc.Submit(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	got := p.until(q, 10*time.Second, func(got pay.Trace) bool { return got.Used })
	var receipt struct{ GasUsed chain.Quantity }
	if err := p.rpc.Call(t.Context(), &receipt, "eth_getTransactionReceipt", got.Transaction); err != nil {
		t.Fatal(err)
	}
	p.rail = tempo.NewRail(estimating{p.rpc, uint64(receipt.GasUsed) + 5_000}, nil)
	q, signed = p.sign(25*time.Second, "")
	payee.leave(0)
	if err := p.rpc.Submit(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	if got := p.until(q, 10*time.Second, func(got pay.Trace) bool { return got.Used }); payee.balance() != 10_000 {
		t.Errorf("%+v, and the payee has %d", got, payee.balance())
	}
}

// A transaction that fails moves no price, and its gas costs the wallet all the same. The transfers tell of it.
func TestFails(t *testing.T) {
	t.Parallel()
	p := newPayer(t)
	p.lend()
	p.rail = tempo.NewRail(estimating{p.rpc, 50_000}, nil)
	q, signed := p.sign(15*time.Second, "")
	left := q.Authorization.Value.SubSaturated(money.New(9_900)).Big().Uint64() // for gas, and too little for the price
	p.leave(left)
	if err := p.rpc.Submit(t.Context(), signed); err == nil {
		t.Fatal("it did not fail")
	}
	ends := time.Unix(int64(q.Authorization.ValidBefore), 0)
	if got := p.until(q, 30*time.Second, func(got pay.Trace) bool { return !got.SafeTime.Before(ends) }); got.Used || got.SafeUsed {
		t.Errorf("%+v", got)
	}
	safe, err := p.rpc.Safe(t.Context(), q.Network)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.rpc.Transfers(t.Context(), treasury.TransfersQuery{Network: q.Network, Asset: q.Asset, Wallets: []x402.Address{q.Authorization.From}, From: 1, To: safe.Number})
	if err != nil || len(list.Transfers) == 0 {
		t.Fatal(err)
	}
	gas := left - p.balance()
	if last := list.Transfers[len(list.Transfers)-1]; gas == 0 || last.Left() != money.New(gas) || last.From != q.Authorization.From {
		t.Errorf("%d was paid for gas: %+v", gas, list)
	}
}

// A transaction that was not sent dies. Until a final block is past its validity the chain says nothing for good.
func TestDies(t *testing.T) {
	t.Parallel()
	p := newPayer(t)
	q, signed := p.sign(11*time.Second, "")
	ends := time.Unix(int64(q.Authorization.ValidBefore), 0)
	if got := p.trace(p.rpc, q); got.Used || !got.SafeTime.Before(ends) {
		t.Fatalf("%+v", got)
	}
	if got := p.until(q, 30*time.Second, func(got pay.Trace) bool { return !got.SafeTime.Before(ends) }); got.Used || got.SafeUsed {
		t.Errorf("%+v", got)
	}
	if err := p.rpc.Submit(t.Context(), signed); err == nil {
		t.Error("the chain takes it after its validity")
	}
	if have := p.balance(); have != funds {
		t.Errorf("%d are left", have)
	}
}

// The blocks' filters find out an RPC that withholds a payment's logs of a range. Another RPC contradicts a liar that
// forges those too. A liar whose blocks are no chain says nothing.
func TestLiars(t *testing.T) {
	t.Parallel()
	p := newPayer(t)
	q, signed := p.sign(11*time.Second, "")
	if err := p.rpc.Submit(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	ends := time.Unix(int64(q.Authorization.ValidBefore), 0)
	p.until(q, 30*time.Second, func(got pay.Trace) bool { return got.SafeLogs && !got.SafeTime.Before(ends) })
	empty := strings.Repeat("0", 512)
	withholding := func(method string, params, result json.RawMessage) json.RawMessage {
		if method == "eth_getLogs" && !bytes.Contains(params, []byte("blockHash")) {
			return json.RawMessage("[]")
		}
		return result
	}
	forging := func(method string, params, result json.RawMessage) json.RawMessage {
		var block map[string]json.RawMessage
		switch {
		case method == "eth_getLogs":
			return json.RawMessage("[]")
		case method == "eth_getBlockByNumber" && json.Unmarshal(result, &block) == nil && block != nil:
			block["logsBloom"] = json.RawMessage(`"0x` + empty + `"`)
			result, _ = json.Marshal(block)
		}
		return result
	}
	breaking := func(method string, params, result json.RawMessage) json.RawMessage {
		var block map[string]json.RawMessage
		if result = forging(method, params, result); method == "eth_getBlockByNumber" && json.Unmarshal(result, &block) == nil && block != nil {
			block["parentHash"] = json.RawMessage(`"0x` + strings.Repeat("0", 64) + `"`)
			result, _ = json.Marshal(block)
		}
		return result
	}
	if got := p.trace(open(t, p.liar(withholding)), q); !got.Used || !got.SafeLogs {
		t.Errorf("withheld logs: %+v", got)
	}
	if got := p.trace(open(t, p.liar(forging)), q); got.Used {
		t.Errorf("forged blocks: %+v", got)
	}
	if got, err := open(t, p.liar(breaking)).Trace(t.Context(), q); err == nil {
		t.Errorf("blocks that are no chain: %+v", got)
	}
	if got := p.trace(p.rpc, q); !got.Used {
		t.Errorf("an honest one: %+v", got)
	}
}

// liar is an RPC that changes the answers of the chain's.
func (p *payer) liar(change func(method string, params, result json.RawMessage) json.RawMessage) string {
	to, err := url.Parse(p.chain.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	relay := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params json.RawMessage
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &call)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Del("Accept-Encoding")
		answer := httptest.NewRecorder()
		relay.ServeHTTP(answer, r)
		var result map[string]json.RawMessage
		if json.Unmarshal(answer.Body.Bytes(), &result) == nil && result["result"] != nil {
			result["result"] = change(call.Method, call.Params, result["result"])
			_ = json.NewEncoder(w).Encode(result)
			return
		}
		_, _ = w.Write(answer.Body.Bytes())
	}))
	p.t.Cleanup(server.Close)
	return server.URL
}

func hexBytes(s string) ([]byte, error) {
	b := common.FromHex(s)
	if len(b) == 0 {
		return nil, fmt.Errorf("%q is no hex", s)
	}
	return b, nil
}
