package proxytest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/x402"
)

// Tools is a server of MCP that wants money for its tool get_weather, checks what it is paid with, and counts. Its
// tool free costs nothing.
type Tools struct {
	*httptest.Server
	t *testing.T

	// Dialect is one of "object", "text", "v1", "cloudflare", "error data", "binding" and "status".
	Dialect string
	Stream  bool // answers are streams of events
	// Messages stand before answers in streams: to unpaid calls, and to paid ones.
	BeforeTerms, BeforeResult []string
	// Result overrides the result of a paid call; n counts them from 1. Without a result the connection is cut.
	Result func(n int) json.RawMessage
	// Gzip compresses answers.
	Gzip bool
	// Cut ends the streams of paid calls before their answers, which a GET with Last-Event-ID brings.
	Cut bool
	// Lasts keeps the streams of such a GET open.
	Lasts bool

	Mu     sync.Mutex
	Unpaid int
	Bought []json.RawMessage // the ids of paid calls
	nonces map[string]int
	kept   []string // answers whose streams were cut
}

// NewTools starts a Tools, which ends with the test.
func NewTools(t *testing.T, change ...func(*Tools)) *Tools {
	t.Helper()
	s := &Tools{t: t, Dialect: "object", nonces: make(map[string]int)}
	for _, f := range change {
		f(s)
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

type toolCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string                     `json:"name"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func (s *Tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		packed := zipped{w, gzip.NewWriter(w)}
		defer func() { _ = packed.to.Close() }()
		w.Header().Set("Content-Encoding", "gzip")
		w = packed
	}
	if r.Method == http.MethodGet {
		s.resume(w, r)
		return
	}
	var c toolCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if c.Method != "tools/call" || c.Params.Name == "free" {
		s.write(w, nil, c.ID, "result", json.RawMessage(`{"content":[{"type":"text","text":"free"}]}`))
		return
	}
	value := s.credential(r, c)
	if value == "" {
		s.Mu.Lock()
		s.Unpaid++
		s.Mu.Unlock()
		s.ask(w, c, "")
		return
	}
	paid, err := Check(value)
	if err != nil {
		s.t.Errorf("the tool got a bad payload: %v", err)
		s.ask(w, c, err.Error())
		return
	}
	s.Mu.Lock()
	s.Bought = append(s.Bought, c.ID)
	n := len(s.Bought)
	s.nonces[paid.Nonce.String()]++
	again := s.nonces[paid.Nonce.String()] > 1
	s.Mu.Unlock()
	if again {
		s.ask(w, c, "nonce_already_used")
		return
	}
	result := s.Paid(n)
	if s.Result != nil {
		if result = s.Result(n); result == nil {
			HangUp(w)
			return
		}
	}
	s.write(w, s.BeforeResult, c.ID, "result", result)
}

// Paid returns the result of the n-th paid call, with its receipt.
func (s *Tools) Paid(n int) json.RawMessage {
	receipt := map[string]any{"success": true, "network": "eip155:8453", "transaction": Transaction(n)}
	name := "x402/payment-response"
	if s.Dialect == "v1" {
		name, receipt["network"] = "x402.payment-response", "base"
	}
	return marshal(map[string]any{
		"content": []any{map[string]any{"type": "text", "text": fmt.Sprintf("sunny %d", n)}}, "isError": false, "_meta": map[string]any{name: receipt},
	})
}

func (s *Tools) credential(r *http.Request, c toolCall) string {
	text := func(name string) (value string) {
		_ = json.Unmarshal(c.Params.Meta[name], &value) // an object is none
		return value
	}
	switch s.Dialect {
	case "status":
		return r.Header.Get(x402.HeaderSignature)
	case "v1":
		return text("x402.payment")
	case "cloudflare":
		return text("x402/payment")
	}
	if value := c.Params.Meta["x402/payment"]; len(value) > 0 && value[0] == '{' {
		return base64.StdEncoding.EncodeToString(value)
	}
	return ""
}

// Terms returns what the tool asks for.
func (s *Tools) Terms(reason string) json.RawMessage {
	if s.Dialect == "v1" {
		return V1Challenge("10000", "mcp://tool/get_weather", reason)
	}
	terms, _ := base64.StdEncoding.DecodeString(V2Challenge("10000", "mcp://tool/get_weather", reason))
	return terms
}

func (s *Tools) ask(w http.ResponseWriter, c toolCall, reason string) {
	terms := s.Terms(reason)
	result := map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": string(terms)}}}
	switch s.Dialect {
	case "object":
		result["structuredContent"] = terms
	case "cloudflare":
		result["content"] = []any{map[string]any{"type": "text", "text": "PAYMENT_REQUIRED"}}
		result["_meta"] = map[string]any{"x402/error": terms}
	case "binding":
		result = map[string]any{"resultType": "payment_required", "paymentRequired": terms}
	case "error data":
		s.write(w, s.BeforeTerms, c.ID, "error", marshal(map[string]any{"code": 402, "message": "Payment required", "data": terms}))
		return
	case "status":
		w.Header().Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString(terms))
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	s.write(w, s.BeforeTerms, c.ID, "result", marshal(result))
}

func (s *Tools) write(w http.ResponseWriter, before []string, id json.RawMessage, member string, value json.RawMessage) {
	answer := string(marshal(map[string]any{"jsonrpc": "2.0", "id": id, member: value}))
	if !s.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "id: 1\ndata: \n\n")
	if s.Cut && bytes.Contains(value, []byte("payment-response")) {
		_ = http.NewResponseController(w).Flush()
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.kept = append(s.kept, answer)
		return
	}
	for _, message := range append(before[:len(before):len(before)], answer) {
		_ = http.NewResponseController(w).Flush()
		_, _ = fmt.Fprintf(w, "event: message\nid: 2\ndata: %s\n\n", message)
	}
}

// zipped writes a compressed answer.
type zipped struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (z zipped) Write(p []byte) (int, error) { return z.to.Write(p) }

// FlushError is for http.ResponseController.
func (z zipped) FlushError() error {
	if err := z.to.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}

// resume writes the answers that were cut off.
func (s *Tools) resume(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s.Mu.Lock()
	for _, answer := range s.kept {
		_, _ = fmt.Fprintf(w, "id: 3\ndata: %s\n\n", answer)
	}
	s.kept = nil
	s.Mu.Unlock()
	if _ = http.NewResponseController(w).Flush(); s.Lasts {
		<-r.Context().Done()
	}
}

func marshal(v any) json.RawMessage {
	b, _ := json.Marshal(v) // of maps and texts it does not fail
	return b
}

// Expect fails the test unless the tool saw so many unpaid and paid calls, and payments among these.
func (s *Tools) Expect(unpaid, paid, distinct int) {
	s.t.Helper()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Unpaid != unpaid || len(s.Bought) != paid || len(s.nonces) != distinct {
		s.t.Fatalf("the tool saw %d unpaid, %d paid calls, %d payments; want %d, %d, %d", s.Unpaid, len(s.Bought), len(s.nonces), unpaid, paid, distinct)
	}
}

// ToolCall makes a client's request to call a tool. more stands behind the arguments.
func ToolCall(t *testing.T, url, id, name string, header ...string) *http.Request {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"city":"Berlin","days":3},"_meta":{"progressToken":%s}}}`, id, name, id)
	return Request(t, http.MethodPost, url, strings.NewReader(body), append([]string{
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18",
	}, header...)...)
}

// ToolAnswer holds an answer to a call of a tool.
type ToolAnswer struct {
	ID     json.RawMessage `json:"id"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// Tool reads the answer to a call of a tool, which may be a stream, and the number of messages before it.
func (a Answer) Tool(t *testing.T) (got ToolAnswer, before int) {
	t.Helper()
	text := a.Text
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		var messages []string
		for line := range strings.Lines(text) {
			if data, is := strings.CutPrefix(line, "data: "); is && strings.TrimSpace(data) != "" {
				messages = append(messages, data)
			}
		}
		if len(messages) == 0 {
			t.Fatalf("a stream without a message: %q", text)
		}
		text, before = messages[len(messages)-1], len(messages)-1
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %d %q", err, a.StatusCode, a.Text)
	}
	return got, before
}

// Text returns the words of a result.
func (a ToolAnswer) Text() string {
	if len(a.Result.Content) == 0 {
		return ""
	}
	return a.Result.Content[0].Text
}

// NewPage starts a server that gives one message as its answer to everything. It ends with the test.
func NewPage(t *testing.T, stream bool, message string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !stream {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, message)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "id: 1\ndata: \n\ndata: %s\n\n", message)
	}))
	t.Cleanup(s.Close)
	return s
}
