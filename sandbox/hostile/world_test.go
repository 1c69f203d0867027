package hostile

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/goleak"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The first chain starts one set for the whole process.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		// The node's peer database is closed, but its pool drains for another half minute.
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
	)
}

// patient bounds calls that must be answered, and impatient those that must not.
const (
	patient   = time.Minute
	impatient = 3 * time.Second
)

func start(t *testing.T) *World {
	t.Helper()
	chain, err := evm.Start(context.Background(), evm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := Start(context.Background(), Options{Chain: chain})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// buyer pays without purser.
type buyer struct {
	key     *ecdsa.PrivateKey
	address x402.Address
	client  *http.Client
}

func newBuyer(t *testing.T, w *World) buyer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := buyer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey)), client(nil)}
	if err := w.Fund(t.Context(), b.address, money.New(1_000_000)); err != nil {
		t.Fatal(err)
	}
	return b
}

// ask makes a request and gives up in time.
func (b buyer) ask(t *testing.T, wait time.Duration, method, url string, body io.Reader, p *x402.Payload) (Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if p != nil {
		r.Header.Set(p.HeaderName(), p.Header())
	}
	return do(b.client, r)
}

// sign returns a payload for a challenge.
func (b buyer) sign(t *testing.T, a Answer) (x402.Payload, x402.Requirement) {
	t.Helper()
	c, found, err := x402.FromResponse(a.Header, a.Body)
	if a.Status != http.StatusPaymentRequired || !found || err != nil {
		t.Fatalf("no challenge: %d %v %s", a.Status, err, a.Body)
	}
	n, asset, err := c.Accepts[0].Supports()
	if err != nil {
		t.Fatal(err)
	}
	authorization := x402.Authorization{
		From: b.address, To: c.Accepts[0].PayTo, Value: c.Accepts[0].Amount,
		ValidBefore: uint64(time.Now().Add(time.Minute).Unix()),
	}
	_, _ = rand.Read(authorization.Nonce[:])
	s, err := x402test.Sign(authorization.Digest(asset, n.ChainID), b.key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Offer(0).Payload(authorization, s)
	if err != nil {
		t.Fatal(err)
	}
	return p, c.Accepts[0]
}

// moved counts the buyer's transfers for an order.
func (b buyer) moved(t *testing.T, w *World, order uint64) int {
	t.Helper()
	l, err := ReadLedger(t.Context(), w.Chain, b.address)
	if err != nil {
		t.Fatal(err)
	}
	return l.PerOrder()[order]
}

// Every fault of the facilitator moves money exactly when its name says so, and never looks like an
// honest answer.
func TestFacilitatorFaults(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := newBuyer(t, w)
	order := uint64(100)
	for _, s := range append(verifyScenarios(), settleScenarios()...) {
		if s.Pair {
			continue
		}
		order++
		fault := s.Facilitator[0]
		before := fault.On == Verify && !strings.Contains(fault.Name, "makes the transfer")
		for _, word := range []string{"before", "invent", "somebody else", "never", "nobody knows", "two verdicts", "names a reason"} {
			before = before || strings.Contains(fault.Name, word)
		}
		t.Run(fault.Name, func(t *testing.T) {
			asked, err := b.ask(t, patient, http.MethodGet, w.SellerURL+"/buy?id="+jsonOf(t, order), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, q := b.sign(t, asked)
			call := jsonOf(t, map[string]any{"x402Version": 2, "paymentPayload": p.JSON, "paymentRequirements": q.Raw})
			w.Facilitator.Meet(fault)
			got, err := b.ask(t, impatient, http.MethodPost, w.FacilitatorURL+fault.On, strings.NewReader(call), nil)
			moved := func() bool { return b.moved(t, w, order) == 1 }
			for deadline := time.Now().Add(patient); !before && !moved() && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			if moved() == before {
				t.Errorf("moved: %v, answered %d %s, %v", !before, got.Status, got.Body, err)
			}
			if again, err := b.ask(t, patient, http.MethodPost, w.FacilitatorURL+Settle, strings.NewReader(call), nil); err != nil ||
				bytes.Contains(again.Body, []byte(`"success":true`)) != before {
				t.Errorf("the next call got %d %s, %v", again.Status, again.Body, err)
			}
		})
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The RPC shows what its view permits.
func TestViews(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := newBuyer(t, w)
	ask := func(method, params string) message {
		t.Helper()
		got, err := b.ask(t, patient, http.MethodPost, w.RPCURL,
			strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`), nil)
		var m message
		if err == nil {
			err = json.Unmarshal(got.Body, &m)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", method, err, got.Body)
		}
		return m
	}
	given := `[{"address":"` + w.Chain.TokenAddress().Hex() + `","fromBlock":"0x0","toBlock":"latest"}]`
	balance := `[{"to":"` + w.Chain.TokenAddress().Hex() + `","data":"0x70a08231` + strings.Repeat("0", 24) +
		strings.ToLower(common.Address(b.address.EVM()).Hex()[2:]) + `"},"latest"]`
	block := func(tag string) string { return string(ask("eth_getBlockByNumber", `["`+tag+`",false]`).Result) }
	whole := ask("eth_getLogs", given)
	if !bytes.Contains(whole.Result, []byte("transactionHash")) || string(whole.ID) != "7" {
		t.Fatalf("honestly it has %s", whole.Result)
	}
	if got := ask("eth_call", balance); strings.TrimLeft(string(got.Result), `"0x`) == `"` {
		t.Fatalf("the balance is %s", got.Result)
	}
	for name, c := range map[string]struct {
		view View
		good func() bool
	}{
		"behind, no logs": {View{Behind: farBehind}, func() bool { return string(ask("eth_getLogs", given).Result) == "[]" }},
		"behind, no balance": {View{Behind: farBehind}, func() bool {
			m := ask("eth_call", balance)
			return m.Error != nil || strings.Trim(string(m.Result), `"0x`) == ""
		}},
		"forgotten head": {View{NotAfter: 1}, func() bool { return string(ask("eth_blockNumber", "[]").Result) == `"0x1"` }},
		"forgotten block": {View{NotAfter: 1}, func() bool {
			return ask("eth_getBlockByNumber", `["0x2",false]`).Error != nil
		}},
		"safe is old": {View{SafeNotAfter: 1}, func() bool {
			return strings.Contains(block("safe"), `"number":"0x1"`) && !strings.Contains(block("latest"), `"number":"0x1"`)
		}},
		"no safe tag": {View{NoSafe: true}, func() bool {
			return ask("eth_getBlockByNumber", `["safe",false]`).Error != nil && strings.Contains(block("latest"), "hash")
		}},
		"no logs": {View{NoLogs: true}, func() bool { return string(ask("eth_getLogs", given).Result) == "[]" }},
	} {
		w.RPC.Show(c.view)
		if !c.good() {
			t.Errorf("%s: it shows something else", name)
		}
	}
	genesis := func() string { return block("0x0") }
	w.RPC.Show(View{})
	honest := genesis()
	for _, f := range []RPCFault{OtherChain, OtherToken, OtherGenesis} {
		w.RPC.Show(f.Views[0])
		differs := string(ask("eth_chainId", "[]").Result) != `"0x2105"` || genesis() != honest ||
			string(ask("eth_call", `[{"to":"`+w.Chain.TokenAddress().Hex()+`","data":"0x3644e515"},"latest"]`).Result) !=
				`"0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"`
		if !differs {
			t.Errorf("%s: nothing is different", f.Name)
		}
	}
	w.RPC.Show(View{})
	if genesis() != honest {
		t.Error("the view stayed")
	}
}

// Every scenario has its own name, says what must hold, and applies to a kind of customer.
func TestScenarios(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Scenarios() {
		if s.Name == "" || s.Holds == "" || seen[s.Name] {
			t.Errorf("scenario %q, twice: %v", s.Name, seen[s.Name])
		}
		seen[s.Name] = true
		met := 0
		for _, door := range Doors() {
			for _, c := range Customs() {
				if s.Fits(door, c) {
					met++
				}
			}
		}
		if met == 0 {
			t.Errorf("nobody meets %q", s.Name)
		}
	}
}
