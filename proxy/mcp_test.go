package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`

// callTool calls a tool as a client of the world's key does.
func (w *world) callTool(s *proxytest.Tools, id string, header ...string) (proxytest.ToolAnswer, proxytest.Answer) {
	w.T.Helper()
	a := w.send(w.door, w.Key, proxytest.ToolCall(w.T, s.URL+"/mcp", id, "get_weather", header...))
	got, _ := a.Tool(w.T)
	return got, a
}

// A client that knows nothing of payments gets its result, in each dialect, and is paid for once.
func TestToolsArePaid(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"object", "text", "v1", "cloudflare", "error data", "binding", "status"} {
		for _, stream := range []bool{false, true} {
			t.Run(dialect+map[bool]string{true: ", stream"}[stream], func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := proxytest.NewTools(t, func(s *proxytest.Tools) {
					s.Dialect, s.Stream, s.BeforeTerms, s.BeforeResult = dialect, stream, []string{progress}, []string{progress, progress}
				})
				a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "7", "get_weather"))
				got, before := a.Tool(t)
				if string(got.ID) != "7" || got.Text() != "sunny 1" || got.Result.IsError || a.StatusCode != 200 {
					t.Fatalf("%d %s", a.StatusCode, a.Text)
				}
				if stream && before != 2 {
					t.Errorf("%d messages before the result: %s", before, a.Text)
				}
				s.Expect(1, 1, 1)
				p := w.newest()
				if p.State != pay.Settled || p.Transaction != proxytest.Transaction(1) || !p.Answered || a.Header.Get(HeaderPayment) != p.ID {
					t.Errorf("%v, header %v", p.Labels(), a.Header)
				}
				if want := "mcp://" + strings.TrimPrefix(s.URL, "http://") + "/tool/get_weather"; p.RequestURL != want || !strings.HasPrefix(want, "mcp://"+p.Host) {
					t.Errorf("booked as %s of %s, want %s", p.RequestURL, p.Host, want)
				}
				if again, _ := w.callTool(s, "8"); again.Text() != "sunny 2" {
					t.Errorf("the next call is a purchase: %+v", again)
				}
				s.Expect(2, 2, 2)
			})
		}
	}
}

// Terms are found in compressed answers, and the client can read what it gets.
func TestCompressedToolAnswers(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, before := range [][]string{nil, {progress}} {
			w := newWorld(t)
			s := proxytest.NewTools(t, func(s *proxytest.Tools) {
				s.Stream, s.Gzip, s.BeforeTerms, s.BeforeResult = stream, true, before, before
			})
			a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather", "Accept-Encoding", "gzip"))
			if a.Header.Get("Content-Encoding") == "gzip" {
				plain, err := gzip.NewReader(strings.NewReader(a.Text))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(plain)
				if err != nil {
					t.Fatal(err)
				}
				a.Text = string(text)
			}
			if got, n := a.Tool(t); got.Text() != "sunny 1" || stream && n != len(before) {
				t.Errorf("%s", a.Text)
			}
			s.Expect(1, 1, 1)
			if p := w.newest(); p.State != pay.Settled || !p.Answered {
				t.Errorf("%v", p.Labels())
			}
		}
	}
}

// A session that is gone when the payment comes is relayed. The client's call in a new session has the same payment.
func TestSessionEndsBeforeThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t)
	gone := true
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := must(io.ReadAll(r.Body))
		if gone && strings.Contains(string(body), "x402/payment") {
			gone = false
			http.Error(rw, "no such session", http.StatusNotFound)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	a := w.send(w.door, w.Key, proxytest.ToolCall(t, front.URL, "1", "get_weather", "Mcp-Session-Id", "a"))
	if a.StatusCode != 404 || !strings.Contains(a.Text, "no such session") {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	if got, _ := w.send(w.door, w.Key, proxytest.ToolCall(t, front.URL, "1", "get_weather", "Mcp-Session-Id", "b")).Tool(t); got.Text() != "sunny 1" {
		t.Errorf("%+v", got)
	}
	s.Expect(2, 1, 1)
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
}

// Free tools pass as they come.
func TestFreeToolsPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, stream := range []bool{false, true} {
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream = stream })
		direct, err := proxytest.Do(s.Client(), proxytest.ToolCall(t, s.URL, "1", "free"))
		if err != nil {
			t.Fatal(err)
		}
		if a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL, "1", "free")); a.Text != direct.Text || a.Header.Get(HeaderPayment) != "" {
			t.Errorf("%q, directly %q", a.Text, direct.Text)
		}
		s.Expect(0, 0, 0)
	}
}

// The agent calls again with another id when an answer was lost. It is the same call, and has one payment.
func TestToolAnswersGetLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t)
	s.Result = func(n int) json.RawMessage {
		if n == 1 {
			return nil
		}
		return s.Paid(n)
	}
	got, a := w.callTool(s, "1")
	if !got.Result.IsError || !strings.Contains(got.Text(), "repeat the same request") || string(got.ID) != "1" || strings.Contains(a.Text, "accepts") {
		t.Errorf("lost: %s", a.Text)
	}
	got, a = w.callTool(s, "2")
	if !got.Result.IsError || strings.Contains(a.Text, "accepts") || a.Header.Get(HeaderDeclined) == "" {
		t.Errorf("the seller has had the payment: %s", a.Text)
	}
	s.Expect(2, 2, 1)
	if n := len(w.Payments()); n != 1 {
		t.Errorf("%d payments", n)
	}
}

// The same id in one session is the same call, even if it was answered. Sessions count for themselves.
func TestToolCallsOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t)
	w.callTool(s, "1", "Mcp-Session-Id", "a")
	w.callTool(s, "1", "Mcp-Session-Id", "b")
	s.Expect(2, 2, 2)
	got, a := w.callTool(s, "1", "Mcp-Session-Id", "a")
	if n := len(w.Payments()); n != 2 || !got.Result.IsError {
		t.Errorf("%d payments, %s", n, a.Text)
	}
	s.Expect(3, 3, 2)
}

// The stream of a paid call ends before its answer. The client resumes it by itself, and its next call is a purchase.
func TestToolAnswersAreResumed(t *testing.T) {
	t.Parallel()
	for _, resumes := range []bool{true, false} {
		w := newWorld(t)
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut = true, true })
		session := []string{"Mcp-Session-Id", "a"}
		a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather", session...))
		if strings.Contains(a.Text, "sunny") || !strings.Contains(a.Text, "id: 1") {
			t.Fatalf("cut: %s", a.Text)
		}
		if p := w.newest(); p.Answered || p.State != pay.Open {
			t.Fatalf("%v, answered %v", p.Labels(), p.Answered)
		}
		if !resumes {
			w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "2", "get_weather", session...))
			s.Expect(2, 2, 1)
			continue
		}
		a = w.get(s.URL+"/mcp", append(session, "Last-Event-Id", "1", "Accept", "text/event-stream")...)
		if got, _ := a.Tool(t); got.Text() != "sunny 1" || string(got.ID) != "1" {
			t.Fatalf("resumed: %s", a.Text)
		}
		if p := w.newest(); !p.Answered || p.State != pay.Settled {
			t.Errorf("%v, answered %v, notes %v", p.Labels(), p.Answered, p.Notes)
		}
		w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "2", "get_weather", session...))
		s.Expect(2, 2, 2)
	}
}

// A resumed stream stays open behind the answer. The payment is answered all the same, and the next call is a purchase.
func TestResumedStreamsStayOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut, s.Lasts = true, true, true })
	session := []string{"Mcp-Session-Id", "a"}
	w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather", session...))
	call := NewCall(w.Key, "", "")
	req := proxytest.Request(t, "GET", s.URL+"/mcp", nil, append(session, "Last-Event-Id", "1")...)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp, err := w.door.RoundTrip(req.WithContext(WithCall(ctx, call)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	answered := make(chan string, 4)
	go func() {
		defer close(answered)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "sunny") {
				answered <- lines.Text()
			}
		}
	}()
	if got := <-answered; !strings.Contains(got, "sunny 1") {
		t.Fatalf("%s", got)
	}
	proxytest.Eventually(t, "it is answered", func() bool { return w.newest().Answered })
	w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "2", "get_weather", session...))
	s.Expect(2, 2, 2)
	leave()
	for range answered {
	}
	call.Finish(false)
}

// A seller that asks again gets no second payment, and its terms do not reach the client.
func TestToolAsksAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *proxytest.Tools){
		"at once":          func(*proxytest.Tools) {},
		"in a stream":      func(s *proxytest.Tools) { s.Stream = true },
		"behind progress":  func(s *proxytest.Tools) { s.Stream, s.BeforeResult = true, []string{progress} },
		"as an error":      func(s *proxytest.Tools) { s.Dialect = "error data" },
		"behind, an error": func(s *proxytest.Tools) { s.Dialect, s.Stream, s.BeforeResult = "error data", true, []string{progress} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewTools(t, change)
			s.Result = func(int) json.RawMessage {
				result := map[string]any{"isError": true, "structuredContent": s.Terms("invalid_payload"), "content": []any{}}
				return must(json.Marshal(result))
			}
			got, a := w.callTool(s, "1")
			if !got.Result.IsError || got.Text() == "" || strings.Contains(a.Text, "accepts") || !strings.Contains(got.Text(), "invalid_payload") ||
				!strings.Contains(string(got.Result.Meta["purser/declined"]), `"do":`) {
				t.Errorf("%s", a.Text)
			}
			s.Expect(1, 1, 1)
			if p := w.newest(); p.State != pay.Open || p.Answered {
				t.Errorf("%v, notes %v", p.Labels(), p.Notes)
			}
			if _, a := w.callTool(s, "2"); strings.Contains(a.Text, "accepts") {
				t.Errorf("%s", a.Text)
			}
			s.Expect(2, 2, 1)
		})
	}
}

// A tool that fails after it was paid for is called again with the same payment.
func TestToolFails(t *testing.T) {
	t.Parallel()
	for _, before := range [][]string{nil, {progress}} {
		w := newWorld(t)
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.BeforeResult = true, before })
		s.Result = func(int) json.RawMessage {
			return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"no such city"}]}`)
		}
		if got, a := w.callTool(s, "1"); got.Text() != "no such city" {
			t.Errorf("%s", a.Text)
		}
		if p := w.newest(); p.Answered || p.State != pay.Open {
			t.Errorf("%v", p.Labels())
		}
	}
}

// A call that is declined is answered with a result for the model, in which nothing can be paid.
func TestToolDeclined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := hearing{Unobserved(), make(chan pay.Decline, 3)}
	w.door = w.transport(nil, TransportOptions{PayOptions: PayOptions{Observer: heard}})
	for _, dialect := range []string{"object", "cloudflare", "status"} {
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Dialect, s.Stream = dialect, true })
		got, a := w.callTool(s, "1", HeaderMaxAmount, "0.001")
		if !got.Result.IsError || !strings.Contains(got.Text(), "purser did not pay: 0.01 USDC") || !strings.Contains(got.Text(), "Developer:") ||
			strings.Contains(a.Text, "accepts") || a.StatusCode != 200 || a.Header.Get("Payment-Required") != "" || a.Header.Get(HeaderDeclined) != "max-amount" {
			t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Text)
		}
		var told Explanation
		if err := json.Unmarshal(got.Result.Meta["purser/declined"], &told); err != nil || told.Reason != "max-amount" {
			t.Errorf("%v in %s", err, a.Text)
		}
		host := strings.TrimPrefix(s.URL, "http://")
		if d := <-heard.declined; d.Tool != "mcp://"+host+"/tool/get_weather" || d.Host != host {
			t.Errorf("%+v", d)
		}
		s.Expect(1, 0, 0)
	}
}

// hearing tells of declines.
type hearing struct {
	Observer
	declined chan pay.Decline
}

func (h hearing) Declined(d pay.Decline) { h.declined <- d }

// Results that look like terms, and are none, are not paid.
func TestToolResultsThatAreNoTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	terms := string((&proxytest.Tools{}).Terms(""))
	result := func(text string) string { return `{"jsonrpc":"2.0","id":1,"result":` + text + `}` }
	for name, answer := range map[string]string{
		"a result that tells of terms":    result(`{"content":[],"structuredContent":` + terms + `}`),
		"an error of another kind":        result(`{"isError":true,"content":[{"type":"text","text":"no"}]}`),
		"MCP's own -32042":                `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":{"elicitations":[]}}}`,
		"the answer to another call":      strings.Replace(result(`{"isError":true,"content":[],"structuredContent":`+terms+`}`), `"id":1`, `"id":2`, 1),
		"an id that is none":              strings.Replace(result(`{"isError":true,"content":[],"structuredContent":`+terms+`}`), `"id":1`, `"id":null`, 1),
		"a batch":                         `[` + result(`{"isError":true,"content":[],"structuredContent":`+terms+`}`) + `]`,
		"a message above the bound":       result(`{"isError":true,"structuredContent":` + terms + `,"content":[{"type":"text","text":"` + strings.Repeat("x", 300<<10) + `"}]}`),
		"a request of the server's first": `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`,
	} {
		for _, stream := range []bool{false, true} {
			s := proxytest.NewPage(t, stream, answer)
			a := w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL, "1", "get_weather"))
			if a.Header.Get(HeaderPayment)+a.Header.Get(HeaderDeclined) != "" || !strings.Contains(a.Text, answer) {
				t.Errorf("%s: %v %.200s", name, a.Header, a.Text)
			}
		}
	}
	if n := len(w.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The hash of an answer is that of its messages as they came. A failed call ends its payment before the stream ends.
func TestToolAnswersAreHashed(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			w := newWorld(t)
			s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.BeforeResult = stream, []string{progress} })
			if fails {
				s.Result = func(int) json.RawMessage { return json.RawMessage(`{"isError":true,"content":[]}`) }
			}
			_, a := w.callTool(s, "7")
			p := w.newest()
			b := p.AnswerBody
			whole := b.Size == int64(len(a.Text)) && !b.Cut
			if early := stream && fails; p.AnswerStatus != 200 || !whole && !early || b.Size == 0 || b.Hash != sha256.Sum256([]byte(a.Text[:b.Size])) {
				t.Errorf("stream %v, failed %v: status %d, %+v of %q", stream, fails, p.AnswerStatus, b, a.Text)
			}
		}
	}
}
