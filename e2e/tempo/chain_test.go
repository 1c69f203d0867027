package tempo

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
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
}

const funds = 1_000_000

func newPayer(t *testing.T) *payer {
	t.Helper()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := &payer{t: t, chain: start(t), key: key}
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
	request := fmt.Sprintf(`{"amount":"10000","currency":"%s","recipient":"0x00000000000000000000000000000000000000bb","methodDetails":{"chainId":4217%s}}`, process.TempoToken, details)
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
