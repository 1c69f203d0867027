package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/internal/agent"
)

const testKey = "pk_not_to_be_seen_anywhere"

// world is an agent that uses a server, in front of a stand-in for purser's proxy and REST API.
// Package e2e shows what purser itself does.
type world struct {
	client *sdk.ClientSession
	asked  atomic.Int32 // requests that reached purser
}

func newWorld(t *testing.T, maxBody int, purser http.HandlerFunc) *world {
	t.Helper()
	w := new(world)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		purser(rw, r)
	}))
	t.Cleanup(s.Close)
	w.connect(t, s.URL, maxBody)
	return w
}

func (w *world) connect(t *testing.T, purser string, maxBody int) {
	t.Helper()
	proxy, err := url.Parse(purser)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(t.Context(), Options{MaxBody: maxBody, Connect: func(context.Context) (*agent.Client, error) {
		return &agent.Client{Proxy: proxy, Key: testKey, Task: "mcp"}, nil
	}})
	here, there := sdk.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.client.Close()
		_ = serving.Wait()
	})
}

// call calls a tool. The key must never be in what comes back.
func (w *world) call(t *testing.T, name string, arguments any) (text string, res *sdk.CallToolResult) {
	t.Helper()
	res, err := w.client.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all, err := json.Marshal(res)
	if err != nil || strings.Contains(string(all), testKey) {
		t.Fatalf("%v: %s", err, all)
	}
	return res.Content[0].(*sdk.TextContent).Text, res //nolint:forcetypeassert // all tools begin with text
}

func (w *world) fetch(t *testing.T, arguments map[string]any) (text string, f fetched, res *sdk.CallToolResult) {
	t.Helper()
	if arguments["url"] == nil {
		arguments["url"] = "http://api.example/x"
	}
	text, res = w.call(t, "fetch_paid", arguments)
	if !res.IsError {
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if structured, err := json.Marshal(res.StructuredContent); err != nil || len(structured) < 2 {
			t.Fatalf("%v: %s", err, structured)
		}
	}
	return text, f, res
}

func TestFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(w http.ResponseWriter, r *http.Request) {
		user, task, ok := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		if !ok || user != testKey || task != "mcp" {
			t.Errorf("credentials %q, %q", user, task)
		}
		body, _ := io.ReadAll(r.Body)
		h := w.Header()
		switch r.URL.Path {
		case "/text":
			h.Set("Purser-Payment", "p1")
			h.Set("Purser-Amount", "10000")
			h.Set("Purser-Transaction", "0xabc")
			h.Set("Content-Type", "text/html")
			h.Set("Set-Cookie", "a=b")
			_, _ = io.WriteString(w, "<b>ok</b>")
		case "/long":
			h.Set("Content-Length", "14")
			_, _ = io.WriteString(w, "12345678äöü")
		case "/png":
			h.Set("Content-Type", "image/png")
			_, _ = w.Write([]byte{0x89, 'P', 'N', 'G', 0xff})
		case "/binary":
			_, _ = w.Write([]byte{0, 0xff, 1})
		case "/long-binary":
			h.Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte(strings.Repeat("\xff", 20)))
		case "/declined":
			h.Set("Purser-Declined", "daily-budget")
			h.Set("Purser-Declined-Detail", "0.01 USDC would pass the daily budget")
			h.Set("Retry-After", "60")
			w.WriteHeader(http.StatusPaymentRequired)
		case "/unread":
			w.WriteHeader(http.StatusPaymentRequired)
		case "/lost":
			h.Set("Purser-Error", "payment-open")
			h.Set("Purser-Payment", "p2")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"error":"no answer came back"}`)
		case "/broken":
			h.Set("Purser-Payment", "p3")
			h.Set("Purser-Amount", "20000")
			h.Set("Content-Length", "9")
			_, _ = io.WriteString(w, "half")
		case "/unknown":
			h.Set("Purser-Error", "proxy-credentials")
			w.WriteHeader(http.StatusProxyAuthRequired)
		case "/moved":
			http.Redirect(w, r, "/text", http.StatusFound)
		default:
			fmt.Fprint(w, r.Method, " ", len(body))
		}
	})
	for _, c := range []struct{ path, want string }{
		{"/text", `"paid":{"payment":"p1","amount":"0.01 USDC","transaction":"0xabc"},"body":"<b>ok</b>"`},
		{"/long", `"note":"the body has 14 bytes, and was cut after 10","body":"12345678ä"`},
		{"/binary", `"body_base64":"AP8B"`},
		{"/long-binary", `"note":"the body is not text and too long to be passed on: `},
		{"/declined", "not paid: daily-budget: 0.01 USDC would pass the daily budget (may be repeated after 60 s)"},
		{"/unread", "no x402 challenge that purser can read"},
		{"/lost", "(payment-open): no answer came back, payment p2; repeat it with the same arguments"},
		{"/broken", "0.02 USDC was paid for it (payment p3): repeat it with the same arguments"},
		{"/unknown", "purser does not know the key: it may be revoked, or the key of another purser"},
		{"/moved", `"Location":"/text"`},
	} {
		text, _, res := w.fetch(t, map[string]any{"url": "http://api.example" + c.path})
		if !strings.Contains(strings.ReplaceAll(text, `\u003c`, "<"), c.want) || strings.Contains(text, "Set-Cookie") {
			t.Errorf("%s: %s", c.path, text)
		}
		if res.IsError != (c.want[0] != '"') {
			t.Errorf("%s: error is %v", c.path, res.IsError)
		}
	}
	if _, _, res := w.fetch(t, map[string]any{"url": "http://api.example/png"}); len(res.Content) != 2 || len(res.Content[1].(*sdk.ImageContent).Data) != 5 {
		t.Errorf("%+v", res)
	}
	if _, f, _ := w.fetch(t, map[string]any{"body": "{}", "url": "http://api.example/echo"}); f.Body != "POST 2" {
		t.Errorf("%+v", f)
	}
}

// Before a request leaves, the server refuses arguments that cannot be meant.
func TestFetchArguments(t *testing.T) {
	t.Parallel()
	sent := make(chan http.Header, 1)
	w := newWorld(t, 0, func(_ http.ResponseWriter, r *http.Request) { sent <- r.Header })
	for want, arguments := range map[string]map[string]any{
		"url: it is not":              {"url": "ftp://u:secret@x/"},
		"max_amount":                  {"max_amount": "lots"},
		"idempotency_key":             {"idempotency_key": "a b"},
		"use the argument max_amount": {"headers": map[string]string{"purser-max-amount": "5"}},
		"use the argument idem":       {"headers": map[string]string{"idempotency-key": "5"}},
		"use the tool quote":          {"headers": map[string]string{"Purser-Dry-Run": "1"}},
		"between purser and":          {"headers": map[string]string{"Purser-Again": "new"}},
		"Proxy-Authorization":         {"headers": map[string]string{"proxy-authorization": "x"}},
		"purser makes the payment":    {"headers": map[string]string{"PAYMENT-SIGNATURE": "x"}},
		"CONNECT":                     {"method": "connect"},
	} {
		if text, _, res := w.fetch(t, arguments); !res.IsError || !strings.Contains(text, want) || strings.Contains(text, "secret") {
			t.Errorf("%s: %s", want, text)
		}
	}
	if n := w.asked.Load(); n != 0 {
		t.Errorf("%d requests left", n)
	}
	w.fetch(t, map[string]any{"max_amount": "0.05", "idempotency_key": "order-7", "headers": map[string]string{"accept": "text/csv"}})
	if h := <-sent; h.Get("Purser-Max-Amount") != "0.05" || h.Get("Idempotency-Key") != "order-7" || h.Get("Accept") != "text/csv" {
		t.Errorf("%v", h)
	}
}

// A purser that is not there is an error with words for the agent, and without the key.
func TestNoPurser(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := new(world)
	w.connect(t, "http://"+l.Addr().String(), 0)
	_ = l.Close()
	for _, target := range []string{"http://api.example/", "https://api.example/"} {
		text, _, res := w.fetch(t, map[string]any{"url": target, "idempotency_key": "k"})
		if !res.IsError || !strings.Contains(text, `repeat it with the idempotency_key "k"`) {
			t.Errorf("%s", text)
		}
	}
	for _, tool := range []string{"limits", "spend", "payments"} {
		if text, res := w.call(t, tool, map[string]any{}); !res.IsError || !strings.Contains(text, "no answer through purser at "+"http://127.0.0.1") {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

// A call that the agent cancels ends its request.
func TestCancelled(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	w := newWorld(t, 0, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan error, 1)
	go func() {
		_, err := w.client.CallTool(ctx, &sdk.CallToolParams{Name: "fetch_paid", Arguments: map[string]any{"url": "http://api.example/"}})
		called <- err
	}()
	<-begun
	cancel()
	<-ended
	if err := <-called; err == nil {
		t.Error("the call has an answer")
	}
}

// Amounts are for people: an agent would take 10000 for ten thousand.
func TestBooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != testKey {
			t.Error("no key")
		}
		switch r.URL.String() {
		case "/v1/limits?door=proxy":
			_, _ = io.WriteString(w, `{"door":"proxy","pays":true,"limits":[{"rule":"per-payment","limit":"1.00 USDC"}]}`)
		case "/v1/spend?limit=20&task=t":
			_, _ = io.WriteString(w, `{"events":[{"amount":"-10000","request_url":"http://x/"}],"pending":{"count":1,"amount":"250000"}}`)
		case "/v1/payments?limit=3&state=open":
			_, _ = io.WriteString(w, `{"payments":[{"id":"p","state":"open","flags":[],"amount":"1500000","payTo":"0x1"}]}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"Invalid limit","detail":"a whole number"}`)
		}
	})
	for _, c := range []struct {
		tool, want string
		arguments  map[string]any
	}{
		{"limits", `"limit":"1.00 USDC"`, nil},
		{"spend", `"amount":"-0.01 USDC"`, map[string]any{"task": "t"}},
		{"spend", `"pending":{"count":1,"amount":"0.25 USDC"}`, map[string]any{"task": "t"}},
		{"payments", `"amount":"1.50 USDC"`, map[string]any{"state": "open", "limit": 3}},
		{"payments", "purser answered 400 Bad Request to /v1/payments: Invalid limit: a whole number", map[string]any{"limit": -1}},
	} {
		if text, res := w.call(t, c.tool, c.arguments); !strings.Contains(text, c.want) || res.IsError != (c.want[0] == 'p') {
			t.Errorf("%s: %s", c.tool, text)
		}
	}
}
