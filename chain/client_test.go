package chain_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/endpoint/endpointtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "mainnet.base.org", "ws://mainnet.base.org", "https://", "https://hush:%zz@x", "https://x/#y"} {
		_, err := chain.New(chain.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), "PURSER_RPC_URL") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: error %v", url, err)
		}
	}
}

func TestTopicsAreThoseOfTheToken(t *testing.T) {
	t.Parallel()
	for signature, want := range map[string]string{
		"Transfer(address,address,uint256)":      topicTransfer,
		"AuthorizationUsed(address,bytes32)":     topicUsed,
		"AuthorizationCanceled(address,bytes32)": topicCanceled,
	} {
		if got := crypto.Keccak256Hash([]byte(signature)).Hex(); got != want {
			t.Errorf("%s is %s", signature, got)
		}
	}
}

// Nothing is cached: the RPC's name may lead to another machine at any moment.
func TestIdentify(t *testing.T) {
	t.Parallel()
	n := onBase()
	c := connect(t, n, chain.Options{})
	want := pay.ChainIdentity{ChainID: 8453, Genesis: hash(0)}
	for times := 1; times < 3; times++ {
		got, err := c.Identify(t.Context(), base, usdc)
		if err != nil || got != want {
			t.Fatalf("identity %+v, %v", got, err)
		}
		for _, method := range []string{"eth_chainId", "eth_getBlockByNumber", "eth_call"} {
			if calls := n.count(method); calls != times {
				t.Errorf("the %d. time %s was called %d times", times, method, calls)
			}
		}
	}
	n.chainID = 1
	if got, err := c.Identify(t.Context(), base, usdc); err == nil || got.ChainID != 1 {
		t.Errorf("identity %+v, %v", got, err)
	}
}

func TestIdentifyNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(n *node)
		words    string
		mismatch bool
		want     pay.ChainIdentity
	}{
		"chain id":         {func(n *node) { n.chainID = 1 }, "its chain id is 1, not 8453 (base)", true, pay.ChainIdentity{ChainID: 1}},
		"domain separator": {func(n *node) { n.separator = "0x" + strings.Repeat("1", 64) }, "DOMAIN_SEPARATOR", true, pay.ChainIdentity{ChainID: 8453, Genesis: hash(0)}},
		"no token":         {func(n *node) { n.separator = "0x" }, "no token at", false, pay.ChainIdentity{ChainID: 8453, Genesis: hash(0)}},
		"no genesis":       {func(n *node) { n.broken = map[string]any{"eth_getBlockByNumber": nil} }, "does not have the block", false, pay.ChainIdentity{ChainID: 8453}},
		"odd chain id":     {func(n *node) { n.broken = map[string]any{"eth_chainId": "8453"} }, "another form", false, pay.ChainIdentity{}},
		"no such method":   {func(n *node) { n.broken = map[string]any{"eth_chainId": refusal{-32601, "nope"}} }, "error -32601: nope", false, pay.ChainIdentity{}},
	} {
		n := onBase()
		c.change(n)
		client := connect(t, n, chain.Options{})
		for range 2 { // an error is not cached
			got, err := client.Identify(t.Context(), base, usdc)
			if err == nil || !strings.Contains(err.Error(), c.words) || got != c.want {
				t.Errorf("%s: identity %+v, error %v", name, got, err)
			}
			if _, ok := errors.AsType[*chain.MismatchError](err); ok != c.mismatch {
				t.Errorf("%s: mismatch %v, want %v", name, ok, c.mismatch)
			}
		}
	}
}

func TestBalance(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"0x" + strings.Repeat("0", 64):        "0",
		"0x" + strings.Repeat("0", 62) + "ff": "255",
		"0x" + strings.Repeat("f", 64):        "115792089237316195423570985008687907853269984665640564039457584007913129639935",
		"0x":                                  "", "0xff": "", "0x" + strings.Repeat("0", 66): "", "0x" + strings.Repeat("g", 64): "",
	} {
		n := onBase()
		n.balance = answer
		got, err := connect(t, n, chain.Options{}).Balance(t.Context(), base, usdc, payer)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%s: balance %s, %v", answer, got, err)
		}
	}
}

func TestHostileRPC(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		words   string
	}{
		"HTML":         {says(502, "<html>"), "502 Bad Gateway without JSON-RPC"},
		"empty":        {says(200, ""), "without JSON-RPC"},
		"no result":    {says(200, `{"jsonrpc":"2.0","id":1}`), "without JSON-RPC"},
		"a list":       {says(200, `[{"jsonrpc":"2.0","id":1,"result":"0x1"}]`), "without JSON-RPC"},
		"null":         {says(200, `{"jsonrpc":"2.0","id":1,"result":null}`), "one word"},
		"other call":   {says(200, `{"jsonrpc":"2.0","id":7,"result":"0x`+strings.Repeat("0", 64)+`"}`), "another call"},
		"rate limited": {says(429, `{"jsonrpc":"2.0","id":1,"result":"0x`+strings.Repeat("0", 64)+`"}`), "429 Too Many Requests"},
		"huge":         {says(200, `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("0", 5<<20)+`"}`), "answer over 4096 KiB"},
		"refused":      {says(403, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"key `+strings.ToUpper(secret)+` \u0007is `+strings.Repeat("x", 999)+`"}}`), "error -32000: key [redacted]"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, "redirects are not followed"},
		"never": {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "timed out"},
		"reset": {func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		}, "connection"},
	} {
		options := chain.Options{URL: "/v2/" + secret, Timeout: 20 * time.Second}
		if c.words == "timed out" {
			options.Timeout = 200 * time.Millisecond
		}
		client := connect(t, c.handler, options)
		_, err := client.Balance(t.Context(), base, usdc, payer)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.words)
			continue
		}
		if text := strings.ToLower(err.Error()); strings.Contains(text, secret) || strings.Contains(text, "127.0.0.1") || len(text) > 400 {
			t.Errorf("%s: error says too much: %v", name, err)
		}
		if trace, err := client.Trace(t.Context(), query()); err == nil {
			t.Errorf("%s: trace %+v", name, trace)
		}
	}
}

// A question is asked again on a new connection when the RPC closes the old one at that moment.
func TestConnectionGivenUp(t *testing.T) {
	t.Parallel()
	url, came := endpointtest.HangsUp(t, onBase())
	c := must(chain.New(chain.Options{URL: url}))
	t.Cleanup(c.Close)
	for range 3 {
		if _, err := c.Balance(t.Context(), base, usdc, payer); err != nil {
			t.Error(err)
		}
	}
	if n := came.Load(); n != 5 {
		t.Errorf("%d requests, not 3 that were answered and 2 that met a closed connection", n)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	c := connect(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}), chain.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := c.Trace(ctx, query()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// On another network the token does not exist, so no verdict can come from there.
func TestTraceOnAnotherNetwork(t *testing.T) {
	t.Parallel()
	sepolia, _ := x402.NetworkByWire("base-sepolia")
	q := query()
	q.Asset = sepolia.Assets[0]
	if got, err := connect(t, onBase(), chain.Options{}).Trace(t.Context(), q); err == nil {
		t.Errorf("trace %+v", got)
	}
}
