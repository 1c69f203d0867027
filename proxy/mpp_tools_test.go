package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// tool answers calls of MCP, unpaid ones by a challenge of MPP. paid returns the rest of an answer to a credential, or
// the messages of a stream.
type tool struct {
	*httptest.Server
	*ledger
	t      *testing.T
	asks   func(n int) string // the error or result of unpaid calls
	stream []string           // messages before the answer to a paid call
	paid   func(transaction string) string
	resume func() string
	keeps  bool // credentials, and moves no money

	challenges, credentials int
	nonce                   x402.Nonce // of the newest credential
}

func newTool(t *testing.T, change ...func(*tool)) *tool {
	t.Helper()
	s := &tool{t: t, ledger: &ledger{moved: map[x402.Nonce]string{}}}
	s.asks = mcpCharge
	s.paid = sunny
	for _, f := range change {
		f(s)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func mcpCharge(n int) string {
	return fmt.Sprintf(`"error":{"code":-32042,"message":"Payment is required.","data":{"httpStatus":402,"challenges":[{"id":"tool-%d","realm":"shop.test","method":"evm","intent":"charge","request":{"amount":"10000","currency":%q,"recipient":%q,"methodDetails":{"chainId":8453}}}]}}`,
		n, proxytest.USDCAddress, proxytest.SellerAddress)
}

func sunny(transaction string) string {
	return fmt.Sprintf(`"result":{"content":[{"type":"text","text":"sunny"}],"_meta":{"org.paymentauth/receipt":{"status":"success","method":"evm","reference":%q}}}`, transaction)
}

func (s *tool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", eventStream)
		_, _ = fmt.Fprintf(w, "id: 3\ndata: %s\n\n", s.resume())
		return
	}
	body := must(io.ReadAll(r.Body))
	var c struct {
		ID     json.RawMessage
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal(body, &c); err != nil {
		s.t.Error(err)
	}
	answer := func(rest string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, c.ID, rest) }
	credential := c.Params.Meta["org.paymentauth/credential"]
	if credential == nil && !bytes.Contains(body, []byte("x402/payment")) {
		s.challenges++
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer(s.asks(s.challenges)))
		return
	}
	s.credentials++
	transaction := ""
	if credential != nil {
		a, err := signedBy(credential)
		if err != nil {
			s.t.Errorf("a bad credential: %v", err)
		}
		if s.nonce = a.Nonce; !s.keeps {
			transaction = s.move(a.Nonce)
		}
	}
	rest := s.paid(transaction)
	if s.stream == nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer(rest))
		return
	}
	w.Header().Set("Content-Type", eventStream)
	for _, message := range s.stream {
		_, _ = fmt.Fprintf(w, "id: 1\ndata: %s\n\n", message)
		_ = http.NewResponseController(w).Flush()
	}
	if rest != "" {
		_, _ = fmt.Fprintf(w, "id: 2\ndata: %s\n\n", answer(rest))
	}
}

func (s *tool) world() *world { return newWorld(s.t, func(o *setup) { o.pay.Chain = s.ledger }) }

func x402Terms(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(`"result":{"isError":true,"content":[],"structuredContent":%s}`, (&proxytest.Tools{}).Terms(""))
}

// Terms of another protocol than the payment's do not reach the client behind it, however they come.
func TestToolAsksInAnotherProtocol(t *testing.T) {
	t.Parallel()
	for _, stream := range [][]string{nil, {progress}} {
		for _, first := range []string{"mpp", "x402"} {
			s := newTool(t, func(s *tool) {
				s.stream = stream
				if first == "mpp" {
					s.paid = func(string) string { return x402Terms(t) }
				} else {
					s.asks = func(int) string { return x402Terms(t) }
					s.paid = func(string) string { return mcpCharge(99) }
				}
			})
			w := s.world()
			a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
			if payable(a) {
				t.Errorf("%s, %v: the client can pay again: %s", first, stream, a.Text)
			}
			if p := w.newest(); !p.Undelivered || len(w.Payments()) != 1 {
				t.Errorf("%s, %v: %v", first, stream, p.Labels())
			}
		}
	}
}

// An application's own errors with challenges pass.
func TestToolsOwnChallengesPass(t *testing.T) {
	t.Parallel()
	for _, own := range []string{
		`"error":{"code":-32001,"message":"Solve this first","data":{"challenges":[{"type":"captcha","url":"https://a.example"}]}}`,
		`"error":{"code":-32001,"message":"Solve this first","data":{"challenges":[]}}`,
		`"error":{"code":-32042,"message":"Open this","data":{"elicitations":[{"mode":"url"}],"challenges":["totp"]}}`,
	} {
		s := newTool(t, func(s *tool) { s.asks = func(int) string { return own } })
		w := s.world()
		a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
		if want := `{"jsonrpc":"2.0","id":1,` + own + `}`; a.Text != want {
			t.Errorf("%s, want %s", a.Text, want)
		}
	}
}

// A stream that is cut off is resumed by a client that has its own Authorization.
func TestResumedChargeOfALoggedInClient(t *testing.T) {
	t.Parallel()
	s := newTool(t, func(s *tool) { s.stream, s.paid = []string{progress}, func(string) string { return "" } })
	s.resume = func() string { return `{"jsonrpc":"2.0","id":1,` + sunny(proxytest.Transaction(1)) + `}` }
	w := s.world()
	own := []string{"Mcp-Session-Id", "a", "Authorization", "Bearer secret"}
	a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather", own...))
	if strings.Contains(a.Text, "sunny") {
		t.Fatal(a.Text)
	}
	a = w.get(s.URL+"/mcp", append(own, "Last-Event-Id", "1", "Accept", eventStream)...)
	if !strings.Contains(a.Text, "sunny") {
		t.Fatal(a.StatusCode, a.Text)
	}
	if p := w.newest(); !w.Closed(p.ID).Answered {
		t.Errorf("%v, not answered", p.Labels())
	}
}

// A seller of MCP that takes two protocols is paid by the one that purser can pay by.
func TestToolTakesTwoProtocols(t *testing.T) {
	t.Parallel()
	terms := string((&proxytest.Tools{}).Terms(""))
	_, data, _ := strings.Cut(mcpCharge(1), `"data":`)
	data = data[:len(data)-1]
	elsewhere := strings.ReplaceAll(data, "8453", "1")
	result := `"result":{"isError":true,"content":[],"structuredContent":%s,"_meta":{"org.paymentauth/payment-required":%s}}`
	for name, asks := range map[string]string{
		"result":            fmt.Sprintf(result, terms, data),
		"charge elsewhere":  fmt.Sprintf(result, terms, elsewhere),
		"x402 elsewhere":    fmt.Sprintf(result, strings.ReplaceAll(terms, "8453", "1"), data),
		"error":             fmt.Sprintf(`"error":{"code":-32042,"message":"x","data":%s,%s}`, terms[:len(terms)-1], data[1:]),
		"error, x402 alone": fmt.Sprintf(`"error":{"code":402,"message":"x","data":%s,%s}`, terms[:len(terms)-1], elsewhere[1:]),
	} {
		s := newTool(t, func(s *tool) { s.asks = func(int) string { return asks } })
		w := s.world()
		if a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather")); !strings.Contains(a.Text, "sunny") || s.credentials != 1 {
			t.Errorf("%s: %d payments: %s", name, s.credentials, a.Text)
		}
	}
}

// A tool's problem stands beside its challenges. Its words are the seller's, and tell of the nonce's form.
func TestToolWantsTheOtherNonce(t *testing.T) {
	t.Parallel()
	s := newTool(t, func(s *tool) {
		s.keeps = true
		s.paid = func(string) string {
			return strings.Replace(mcpCharge(99), `"httpStatus":402`,
				`"httpStatus":402,"problem":{"type":"https://paymentauth.org/problems/verification-failed","detail":"EVM authorization challenge hash mismatch"}`, 1)
		}
	})
	w := s.world()
	a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
	if payable(a) || !strings.Contains(a.Text, "challenge hash mismatch") {
		t.Error(a.Text)
	}
	s.keeps, s.paid = false, sunny
	for _, name := range []string{"get_weather", "get_rain"} {
		call := proxytest.ToolCall(t, s.URL+"/mcp", "2", name)
		call.Body = io.NopCloser(strings.NewReader(strings.Replace(string(must(io.ReadAll(call.Body))), "Berlin", "Bremen", 1)))
		w.send(w.door, w.Key, call)
		if n := s.challenges; s.nonce != listNonce(fmt.Sprintf("tool-%d", n), "shop.test") {
			t.Errorf("%s: the nonce is the first one", name)
		}
	}
}
