package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// toll is a protocol of play over the rails of x402. It has header fields and words of its own:
//
//	Toll: NETWORK AMOUNT ASSET PAYEE SECONDS NAME VERSION [REASON]     with _ for spaces in NAME
//	Toll-Pass: FROM TO VALUE AFTER BEFORE NONCE SIGNATURE
//	Toll-Receipt: TRANSACTION NETWORK PAYER
//
// A request with Toll-Lane has no room for a pass.
type toll struct{}

const tollVersion = x402.OtherProtocols + 50

var _ protocol.Protocol = toll{}

func (toll) Decode(field string) (c x402.Challenge, err error) {
	w := strings.Fields(field)
	if len(w) < 7 {
		return c, errors.New("a toll has seven words")
	}
	accepts := fmt.Sprintf(`{"scheme":"exact","network":%q,"amount":%q,"asset":%q,"payTo":%q,"maxTimeoutSeconds":%s,"extra":{"name":%q,"version":%q}}`,
		w[0], w[1], w[2], w[3], w[4], strings.ReplaceAll(w[5], "_", " "), w[6])
	if c, err = x402.DecodeHeader(`{"x402Version":2,"accepts":[` + accepts + `]}`); err != nil {
		return c, err
	}
	c.Version, c.Accepts[0].Version, c.Error = tollVersion, tollVersion, strings.Join(w[7:], " ")
	return c, nil
}

func (p toll) Offers(asked, h http.Header, _ []byte) (x402.Challenge, bool, error) {
	if h.Get("Toll") == "" {
		return x402.Challenge{}, false, nil
	}
	c, err := p.Decode(h.Get("Toll"))
	if err == nil {
		err = p.Room(asked, x402.Payload{})
	}
	return c, true, err
}

func (toll) Carries(h http.Header) bool { return h.Get("Toll-Pass") != "" }

func (toll) Room(h http.Header, _ x402.Payload) error {
	if h.Get("Toll-Lane") != "" {
		return &x402.UnsupportedError{Kind: "request", Value: "Toll-Lane", Detail: "it leaves no room for a pass"}
	}
	return nil
}

func (toll) Insists() bool { return false }

func (toll) Writes(version int) bool { return version == tollVersion }

func (toll) Credential(p x402.Payload) (name, value string) {
	a, s, err := p.Authorization()
	if err != nil {
		panic(err)
	}
	return "Toll-Pass", fmt.Sprint(a.From, " ", a.To, " ", a.Value, " ", a.ValidAfter, " ", a.ValidBefore, " ", a.Nonce, " ", s)
}

func (p toll) Answer(status int, h http.Header, _ []byte) (a protocol.Answer) {
	if field := h.Get("Toll-Receipt"); field != "" {
		r, err := p.DecodeReceipt(field)
		a.Speaks, a.Problem = true, err
		if err == nil {
			a.Receipt = &r
		}
	}
	if status == http.StatusPaymentRequired {
		a.Challenge, a.Found, _ = p.Offers(nil, h, nil)
	}
	return a
}

func (toll) DecodeReceipt(field string) (x402.Receipt, error) {
	w := strings.Fields(field)
	if len(w) != 3 {
		return x402.Receipt{}, errors.New("a receipt has three words")
	}
	return x402.Receipt{Success: true, Transaction: w[0], Network: w[1], Payer: w[2]}, nil
}

func (toll) Withhold(h http.Header) { h.Del("Toll") }

func (toll) Secrets() []string { return []string{"toll-pass", "toll-receipt"} }

// booth sells the goods of the sandbox's seller for tolls. It tells its customers nothing of x402.
type booth struct {
	*httptest.Server
	seller string
	passes atomic.Int32
	lose   atomic.Bool // the next answer to a pass
	refuse atomic.Bool // the next pass
	sold   sync.Map    // answers by nonce: a booth gives its goods again for the same pass
}

type goods struct{ receipt, text string }

func newBooth(t *testing.T, seller string) *booth {
	b := &booth{seller: seller}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *booth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask := func(payload string) (*http.Response, error) {
		out, err := http.NewRequestWithContext(r.Context(), r.Method, b.seller+r.URL.Path, nil)
		if err != nil {
			return nil, err
		}
		if payload != "" {
			out.Header.Set(x402.HeaderSignature, payload)
		}
		return http.DefaultClient.Do(out)
	}
	if (protocol.X402{}).Carries(r.Header) {
		http.Error(w, "that is no toll", http.StatusTeapot)
		return
	}
	asked, err := ask("")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = asked.Body.Close()
	c, err := x402.DecodeHeader(asked.Header.Get(x402.HeaderRequired))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	required := c.Accepts[0]
	toll := fmt.Sprint(required.Network, " ", required.Amount, " ", required.Asset, " ", required.PayTo, " 60 ", strings.ReplaceAll(required.DomainName, " ", "_"), " ", required.DomainVersion)
	pass := strings.Fields(r.Header.Get("Toll-Pass"))
	if len(pass) != 7 {
		w.Header().Set("Toll", toll)
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	b.passes.Add(1)
	if b.refuse.Swap(false) {
		w.Header().Set("Toll", toll+" insufficient_funds")
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	if again, is := b.sold.Load(pass[5]); is {
		w.Header().Set("Toll-Receipt", again.(goods).receipt)
		_, _ = io.WriteString(w, again.(goods).text)
		return
	}
	signed := fmt.Sprintf(`{"x402Version":2,"accepted":%s,"payload":{"signature":%q,"authorization":{"from":%q,"to":%q,"value":%q,"validAfter":%q,"validBefore":%q,"nonce":%q}}}`,
		required.Raw, pass[6], pass[0], pass[1], pass[2], pass[3], pass[4], pass[5])
	bought, err := ask(x402.Payload{Version: 2, JSON: json.RawMessage(signed)}.Header())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	text, err := io.ReadAll(bought.Body)
	_ = bought.Body.Close()
	receipt, has, unread := x402.ReceiptFromHeader(bought.Header)
	if err != nil || unread != nil || !has || !receipt.Success || bought.StatusCode != http.StatusOK {
		http.Error(w, "not sold", http.StatusBadGateway)
		return
	}
	sold := goods{receipt.Transaction + " " + receipt.Network + " " + receipt.Payer, string(text)}
	b.sold.Store(pass[5], sold)
	if b.lose.Swap(false) {
		proxytest.HangUp(w)
		return
	}
	w.Header().Set("Toll-Receipt", sold.receipt)
	_, _ = io.WriteString(w, sold.text)
}

// gate is a purser that speaks x402 and tolls, in a world where tokens move.
type gate struct {
	*proxytest.World
	t     *testing.T
	world *sandbox.World
	booth *booth
	door  *proxy.Transport
}

func newGate(t *testing.T) *gate {
	t.Helper()
	world, err := sandbox.Start(t.Context(), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Close() })
	rpc, err := chain.New(chain.Options{URL: world.RPCURL()})
	if err != nil {
		t.Fatal(err)
	}
	o := proxytest.PayOptions()
	o.Chain = chain.Networks{"base": rpc}
	t.Cleanup(o.Chain.(chain.Networks).Close)
	g := &gate{World: proxytest.NewWorld(t, o, func(s pay.Store) pay.Store { return s }), t: t, world: world, booth: newBooth(t, world.SellerDirectURL())}
	next := &http.Transport{}
	t.Cleanup(next.CloseIdleConnections)
	g.door, err = proxy.NewTransport(proxy.TransportOptions{
		PayOptions: proxy.PayOptions{Protocols: tolls}, Payer: g.Payer, Next: next, Door: policy.DoorTransport, Logger: g.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	wallets, err := g.Books.ListWallets(t.Context(), g.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Fund(t.Context(), *wallets[0].Address, money.New(1_000_000)); err != nil {
		t.Fatal(err)
	}
	return g
}

var tolls = append(protocol.Spoken(), toll{})

// get sends one request of a client of its own.
func (g *gate) get(url string, header ...string) (proxytest.Answer, error) {
	g.t.Helper()
	call := proxy.NewCall(g.Key, "", "")
	r := proxytest.Request(g.t, http.MethodGet, url, nil, header...)
	resp, err := g.door.RoundTrip(r.WithContext(proxy.WithCall(g.t.Context(), call)))
	answer, err := proxytest.Read(resp, err)
	call.Finish(err == nil && answer.StatusCode == http.StatusOK)
	return answer, err
}

// earned checks what the seller has on the chain, in cents.
func (g *gate) earned(cents uint64) {
	g.t.Helper()
	if have, err := g.world.Balance(g.t.Context(), g.world.PayTo); err != nil || have != money.New(cents*10_000) {
		g.t.Errorf("the seller has %s, want %d cents (%v)", have, cents, err)
	}
}

// A protocol of play pays through the proxy, once, with a token that moves. That is the proof of the seam: no
// package but this test knows of it.
func TestProtocolOfPlayPaysThroughTheProxy(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	weather := g.booth.URL + "/weather"

	g.booth.lose.Store(true)
	if a, err := g.get(weather); err == nil {
		t.Fatalf("an answer that was lost: %v", a)
	}
	a, err := g.get(weather) // repeats it
	if err != nil {
		t.Fatal(err)
	}
	if paid := g.Closed(a.Paid(t)); paid.State != pay.Settled || len(g.Payments()) != 1 || g.booth.passes.Load() != 2 {
		t.Errorf("%+v, %d payments, %d passes", paid, len(g.Payments()), g.booth.passes.Load())
	}
	g.earned(1)

	a, err = g.get(weather)
	if err != nil || a.Header.Get("Toll-Receipt") == "" {
		t.Fatalf("%v %v", a, err)
	}
	a.Paid(t)
	g.earned(2)
}

// A refused pass leaves no toll in the answer, and what its client pays by itself, or leaves no room for, is not paid.
func TestProtocolOfPlayIsWithheld(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	weather := g.booth.URL + "/weather"

	g.booth.refuse.Store(true)
	a, err := g.get(weather)
	if err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != http.StatusPaymentRequired || a.Header.Get("Toll") != "" || a.Problem(t).Payment == nil {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Text)
	}
	if a, err = g.get(g.booth.URL+"/stream", "Toll-Lane", "3"); err != nil || a.Header.Get("Purser-Declined") != proxy.DeclinedUnsupported || a.Header.Get("Toll") == "" {
		t.Errorf("no room: %v %v", a.Header, err)
	}
	if a, err = g.get(g.booth.URL+"/stream", "Toll-Pass", "mine"); err != nil || a.Header.Get("Purser-Declined") != "" || a.Header.Get("Toll") == "" {
		t.Errorf("a client that pays by itself: %v %v", a.Header, err)
	}
	if got := tolls.Secrets(); got[len(got)-2] != "Toll-Pass" {
		t.Errorf("%q", got)
	}
	g.earned(0)
}

// A client pays a toll with POST /v1/pay, and hands the receipt in.
func TestProtocolOfPlayPaysThroughREST(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	api, err := payapi.New(payapi.Options{Payer: g.Payer, Books: g.Books, Protocols: tolls, Logger: g.Logger})
	if err != nil {
		t.Fatal(err)
	}
	rest := httptest.NewServer(api)
	t.Cleanup(rest.Close)
	call := func(path string, body map[string]string) map[string]json.RawMessage {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		a, err := proxytest.Do(http.DefaultClient, proxytest.Request(t, http.MethodPost, rest.URL+path, bytes.NewReader(text), "X-Api-Key", g.Secret, "Content-Type", "application/json"))
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %s", path, err, a.Text)
		}
		members, err := strictjson.Object([]byte(a.Text))
		if err != nil {
			t.Fatal(err)
		}
		return members
	}
	word := func(value json.RawMessage) (text string) {
		_ = json.Unmarshal(value, &text)
		return text
	}
	weather := g.booth.URL + "/weather"
	asked, err := proxytest.Do(http.DefaultClient, proxytest.Request(t, http.MethodGet, weather, nil))
	if err != nil {
		t.Fatal(err)
	}
	paid := call("/v1/pay", map[string]string{"paymentRequiredHeader": asked.Header.Get("Toll"), "requestUrl": weather, "settlement": "seller"})
	if word(paid["paymentHeader"]) != "Toll-Pass" {
		t.Fatalf("%s", paid)
	}
	bought, err := proxytest.Do(http.DefaultClient, proxytest.Request(t, http.MethodGet, weather, nil, "Toll-Pass", word(paid["paymentSignature"])))
	if err != nil || bought.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", bought, err)
	}
	id := g.Payments()[0].ID
	call("/v1/payments/"+id+"/receipt", map[string]string{"receipt": bought.Header.Get("Toll-Receipt")})
	if p := g.Payments()[0]; p.State != pay.Settled || p.Transaction == "" {
		t.Errorf("%+v", p)
	}
	g.earned(1)
}
