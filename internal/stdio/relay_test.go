package stdio

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/agent"
)

const terms = `{"x402Version":2,"error":"Payment Required","accepts":[{"scheme":"exact","network":"eip155:8453","amount":"10000"}]}`

// bank is a stand-in for purser's REST API. Package e2e shows what purser itself does.
type bank struct {
	*httptest.Server
	mu       sync.Mutex
	keys     []string // idempotency keys, in the order of their first use
	asked    []map[string]string
	receipts []string
	answer   func(w http.ResponseWriter, r *http.Request) bool // in the place of a payment; may be nil
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := new(bank)
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked map[string]string
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("X-Api-Key") != "pk_of_the_agent" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path != "/v1/pay" {
		b.mu.Lock()
		b.receipts = append(b.receipts, r.URL.Path+" "+asked["receipt"])
		b.mu.Unlock()
		return
	}
	b.mu.Lock()
	b.asked = append(b.asked, asked)
	answer := b.answer
	b.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := slices.Index(b.keys, asked["idempotencyKey"])
	if n < 0 {
		n = len(b.keys)
		b.keys = append(b.keys, asked["idempotencyKey"])
	}
	payload := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "{\"nonce\":\n%d}", n))
	fmt.Fprintf(w, `{"paymentSignature":%q,"paymentHeader":"PAYMENT-SIGNATURE","payment":{"id":"p%d","state":"open"}}`, payload, n)
}

// parts are the two ends of a relay that a test holds.
type parts struct {
	t         *testing.T
	toRelay   *io.PipeWriter // as the client
	fromRelay *bufio.Reader
	serverIn  *bufio.Reader // as the server
	serverOut *io.PipeWriter
	ended     chan error
	said      func() string
}

func start(t *testing.T, b *bank, dir string, options ...func(*Options)) *parts {
	t.Helper()
	clientIn, toRelay := io.Pipe()
	fromRelay, clientOut := io.Pipe()
	serverIn, toServer := io.Pipe()
	fromServer, serverOut := io.Pipe()
	var mu sync.Mutex
	var said strings.Builder
	o := Options{
		Connect: func(context.Context) (*agent.Client, error) {
			at, err := url.Parse(b.URL)
			return &agent.Client{Proxy: at, Key: "pk_of_the_agent", Task: "tools", Timeout: time.Minute}, err
		},
		Version: "1.2.3", Host: "weather.stdio", Command: []string{"weather"}, Dir: dir, Now: time.Now,
		Tell: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&said, format+"\n", args...)
		},
		FromClient: clientIn, ToClient: clientOut, FromServer: fromServer, ToServer: toServer,
	}
	for _, set := range options {
		set(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &parts{
		t: t, toRelay: toRelay, fromRelay: bufio.NewReader(fromRelay), serverIn: bufio.NewReader(serverIn), serverOut: serverOut,
		ended: make(chan error, 1), said: func() string {
			mu.Lock()
			defer mu.Unlock()
			return said.String()
		},
	}
	go func() {
		err := r.Run(t.Context())
		_ = clientOut.Close()
		p.ended <- err
	}()
	t.Cleanup(func() {
		_ = toRelay.Close()
		_ = serverOut.Close()
		_ = serverIn.Close()
		_ = fromRelay.Close()
	})
	return p
}

func (p *parts) write(w io.Writer, format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(w, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *parts) line(from *bufio.Reader) string {
	p.t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// calls has the client call the paid tool, and the server get it.
func (p *parts) calls(id int, city string) {
	p.t.Helper()
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":%q}}}`, id, city)
	p.write(p.toRelay, "%s", call)
	if got := p.line(p.serverIn); got != call {
		p.t.Fatalf("the server got %s", got)
	}
}

// asks has the server ask for money.
func (p *parts) asks(id int) {
	p.t.Helper()
	p.write(p.serverOut, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}],"structuredContent":%s,"isError":true}}`, id, terms, terms)
}

// paid has the server get the call again, and returns the number of its payment.
func (p *parts) paid(id int) int {
	p.t.Helper()
	var got struct {
		ID     int
		Params struct {
			Arguments struct{ City string }
			Meta      map[string]struct{ Nonce *int } `json:"_meta"`
		}
	}
	line := p.line(p.serverIn)
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.ID != id || got.Params.Meta["x402/payment"].Nonce == nil {
		p.t.Fatalf("%v: %s", err, line)
	}
	return *got.Params.Meta["x402/payment"].Nonce
}

func (p *parts) delivers(id int, text string) string {
	p.t.Helper()
	answer := fmt.Sprintf(`{"result":{"content":[{"type":"text","text":%q}],"_meta":{"x402/payment-response":{"success":true}}},"jsonrpc":"2.0","id":%d}`, text, id)
	p.write(p.serverOut, "%s", answer)
	return answer
}

// refused returns the words of an error result for a call, in which nothing can be paid.
func (p *parts) refused(id int) string {
	p.t.Helper()
	line := p.line(p.fromRelay)
	var got struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
			Meta    map[string]struct{ Purser string } `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.ID != id || !got.Result.IsError || got.Result.Meta["purser/declined"].Purser != "1.2.3" || strings.Contains(line, "accepts") || strings.Contains(line, "pk_of") {
		p.t.Fatalf("%v: %s", err, line)
	}
	return got.Result.Content[0].Text
}

// buys makes one whole purchase.
func (p *parts) buys(id int, city string, payment int) {
	p.t.Helper()
	p.calls(id, city)
	p.asks(id)
	if got := p.paid(id); got != payment {
		p.t.Fatalf("payment %d, not %d", got, payment)
	}
	answer := p.delivers(id, "sunny")
	if got := p.line(p.fromRelay); got != answer {
		p.t.Fatalf("the client got %s", got)
	}
}

func (p *parts) end() {
	p.t.Helper()
	_ = p.serverOut.Close()
	if err := <-p.ended; err != nil {
		p.t.Fatal(err)
	}
}

// Equal calls are purchases of their own once they are answered, in one run and in the next.
func TestPurchases(t *testing.T) {
	t.Parallel()
	b, dir := newBank(t), t.TempDir()
	p := start(t, b, dir)
	p.buys(1, "Kiel", 0)
	p.buys(2, "Kiel", 1)
	p.end()
	again := start(t, b, dir)
	again.buys(1, "Kiel", 2)
	again.end()
	first := b.asked[0]
	header, _ := base64.StdEncoding.DecodeString(first["paymentRequiredHeader"])
	if first["requestUrl"] != "mcp://weather.stdio/tool/get_weather" || first["task"] != "tools" || first["settlement"] != "seller" || string(header) != terms {
		t.Errorf("%v, %s", first, header)
	}
	if slices.Sort(b.receipts); len(b.receipts) != 3 || b.receipts[0] != `/v1/payments/p0/receipt {"success":true}` {
		t.Errorf("%q", b.receipts)
	}
}

// A relay that was killed between payment and answer leaves the purchase to the next one.
func TestKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b, dir := newBank(t), t.TempDir()
	p := start(t, b, dir)
	p.calls(1, "Kiel")
	p.asks(1)
	p.paid(1)
	other := start(t, b, dir) // of another agent at the same time
	other.buys(1, "Kiel", 1)
	_ = p.serverOut.Close() // as after a kill, the file stays
	if words := p.refused(1); !strings.Contains(words, "the server ended before it answered. Payment p0 was sent") {
		t.Errorf("%s", words)
	}
	p.end()
	again := start(t, b, dir)
	again.buys(7, "Hamburg", 2)
	again.buys(8, "Kiel", 0)
	again.buys(9, "Kiel", 3)
}

// After its time, an unanswered purchase is forgotten.
func TestUnansweredForLong(t *testing.T) {
	t.Parallel()
	b, dir := newBank(t), t.TempDir()
	p := start(t, b, dir)
	p.calls(1, "Kiel")
	p.asks(1)
	p.paid(1)
	_ = p.serverOut.Close()
	p.refused(1)
	p.end()
	later := start(t, b, dir, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(unansweredFor + time.Minute) } })
	later.buys(1, "Kiel", 1)
}

// A server that asks again for what is paid brings words to the client, and no second payment. So does a failed tool.
func TestPaidAndNotDelivered(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	p := start(t, b, t.TempDir())
	p.calls(1, "Kiel")
	p.asks(1)
	p.paid(1)
	p.asks(1)
	if words := p.refused(1); !strings.Contains(words, "payment p0 was sent, and the server asks for money again") {
		t.Errorf("%s", words)
	}
	p.calls(2, "Kiel")
	p.asks(2)
	if n := p.paid(2); n != 0 {
		t.Errorf("payment %d", n)
	}
	failed := `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"out of order"}],"isError":true}}`
	p.write(p.serverOut, "%s", failed)
	if got := p.line(p.fromRelay); got != failed {
		t.Errorf("%s", got)
	}
	p.buys(3, "Kiel", 0)
	p.buys(4, "Kiel", 1)
}

// Equal calls at the same time are purchases of their own.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	p := start(t, b, t.TempDir())
	p.calls(1, "Kiel")
	p.calls(2, "Kiel")
	p.asks(1)
	one := p.paid(1)
	p.asks(2)
	if two := p.paid(2); one == two {
		t.Errorf("payment %d twice", one)
	}
}

// The answer to a call that was cancelled after its payment is that of the next equal call.
func TestCancelled(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	p := start(t, b, t.TempDir())
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`

	p.calls(1, "Kiel") // cancelled before anything is paid: the server hears of it
	p.write(p.toRelay, cancel, 1)
	if got := p.line(p.serverIn); got != fmt.Sprintf(cancel, 1) {
		t.Errorf("%s", got)
	}
	p.asks(1)

	p.calls(2, "Kiel")
	p.asks(2)
	p.paid(2)
	p.write(p.toRelay, cancel, 2)
	p.calls(3, "Kiel") // the server goes on with the other one
	p.asks(3)
	p.delivers(2, "rain")
	if got := p.line(p.fromRelay); !strings.Contains(got, `"id":3`) || !strings.Contains(got, "rain") {
		t.Errorf("%s", got)
	}

	p.calls(4, "Kiel") // and the same with an answer that comes first
	p.asks(4)
	p.paid(4)
	p.write(p.toRelay, cancel, 4)
	p.write(p.toRelay, "{}")
	p.line(p.serverIn)
	p.delivers(4, "snow")
	p.calls(5, "Kiel")
	p.asks(5)
	if got := p.line(p.fromRelay); !strings.Contains(got, `"id":5`) || !strings.Contains(got, "snow") {
		t.Errorf("%s", got)
	}
	p.buys(6, "Kiel", 2)
	if len(b.keys) != 3 {
		t.Errorf("%d purchases", len(b.keys))
	}
}

// A lost answer of purser is asked for again under the same key. A decline is an error result, and its key is forgotten.
func TestDeclined(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	tries := 0
	b.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		switch tries++; tries {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2, 4:
			return false
		default:
			w.WriteHeader(http.StatusPaymentRequired)
			fmt.Fprint(w, `{"error":"Payment refused by policy","detail":"0.01 USDC would pass the daily budget","rule":"daily-budget","limit":"0.01 USDC"}`)
		}
		return true
	}
	p := start(t, b, t.TempDir())
	p.buys(1, "Kiel", 0)
	p.calls(2, "Kiel")
	p.asks(2)
	if words := p.refused(2); !strings.HasPrefix(words, "purser did not pay: 0.01 USDC would pass the daily budget. Developer: ") {
		t.Errorf("%s", words)
	}
	p.buys(3, "Kiel", 1)
	if keys := b.asked; keys[0]["idempotencyKey"] != keys[1]["idempotencyKey"] || keys[2]["idempotencyKey"] == keys[3]["idempotencyKey"] {
		t.Errorf("%v", keys)
	}
	if said := p.said(); !strings.Contains(said, "not paid: get_weather: 0.01 USDC") {
		t.Errorf("%s", said)
	}
}

// A payment that waits for a person is asked for under the same key, and made once that person has approved it.
func TestHeldForAPerson(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if len(b.asked) > 1 {
			return false
		}
		w.WriteHeader(http.StatusPaymentRequired)
		fmt.Fprint(w, `{"error":"Payment refused by policy","detail":"a person must approve it","rule":"approval-needed","approval":{"id":"a1"}}`)
		return true
	}
	p := start(t, b, t.TempDir())
	p.calls(1, "Kiel")
	p.asks(1)
	if words := p.refused(1); !strings.Contains(words, "a person must approve it") {
		t.Errorf("%s", words)
	}
	p.buys(2, "Kiel", 0)
	if b.asked[0]["idempotencyKey"] != b.asked[1]["idempotencyKey"] {
		t.Errorf("%v", b.asked)
	}
}

// Without purser, calls that cost something are declined, and free ones pass.
func TestWithoutPurser(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.Close()
	p := start(t, b, t.TempDir())
	p.calls(1, "Kiel")
	p.asks(1)
	if words := p.refused(1); !strings.Contains(words, "purser did not pay: no answer through purser at http://127.0.0.1") {
		t.Errorf("%s", words)
	}
	p.calls(2, "Kiel")
	answer := p.delivers(2, "free today")
	if got := p.line(p.fromRelay); got != answer {
		t.Errorf("%s", got)
	}
}

// Everything else passes as it is: batches, calls that pay by themselves, terms that a tool tells of, messages of any
// length and form.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	p := start(t, newBank(t), t.TempDir())
	long := strings.Repeat("x", 2*maxCall)
	for _, text := range []string{
		`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}]`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","_meta":{"x402/payment":{}}}}`,
		`not JSON`, "", ` { } ` + "\r", long,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a","arguments":{"x":"` + long + `"}}}`,
	} {
		go func() { _, _ = io.WriteString(p.toRelay, text+"\n") }()
		if got := p.line(p.serverIn); got != text {
			t.Errorf("of %d bytes came %d: %.100s", len(text), len(got), got)
		}
	}
	p.calls(4, "Kiel")
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":2,"result":{"isError":true,"structuredContent":` + terms + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`,
		`{"jsonrpc":"2.0","id":4,"method":"sampling/createMessage","params":{}}`,
		strings.Repeat("y", maxAnswer+9999),
		`{"jsonrpc":"2.0","id":4,"result":{"structuredContent":` + terms + `,"content":[]}}`,
		long,
	} {
		go func() { _, _ = io.WriteString(p.serverOut, text+"\n") }()
		if got := p.line(p.fromRelay); got != text {
			t.Errorf("of %d bytes came %d: %.100s", len(text), len(got), got)
		}
	}
}

// A server that ends leaves no call without an answer. The end of the client's messages is the server's.
func TestEnds(t *testing.T) {
	t.Parallel()
	p := start(t, newBank(t), t.TempDir())
	p.calls(1, "Kiel")
	_ = p.serverOut.Close()
	if words := p.refused(1); words != "the server ended before it answered" {
		t.Errorf("%s", words)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	other := start(t, newBank(t), t.TempDir())
	_ = other.toRelay.Close()
	if _, err := other.serverIn.ReadByte(); err != io.EOF { //nolint:errorlint // of a pipe
		t.Error(err)
	}
	other.end()
}
