package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/toolcall"
	"github.com/purserpay/purser/proxy/proxytest"
)

// altered puts a server before tools that alters their answers. paid says that the request has a payment.
func altered(t *testing.T, s *proxytest.Tools, alter func(paid bool, answer string) string) string {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := must(io.ReadAll(r.Body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		rw.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		_, _ = io.WriteString(rw, alter(bytes.Contains(body, []byte("x402/payment")), answer.Body.String()))
	}))
	t.Cleanup(front.Close)
	return front.URL + "/mcp"
}

// asksAgain has tools answer payments with terms.
func asksAgain(s *proxytest.Tools) {
	s.Result = func(int) json.RawMessage {
		return must(json.Marshal(map[string]any{"isError": true, "structuredContent": s.Terms("invalid_payload"), "content": []any{}}))
	}
}

// Answers are read as official clients read them. Terms in them are paid once, and do not reach the client behind a payment.
func TestToolAnswersAsClientsReadThem(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(string) string{
		"carriage returns":           func(a string) string { return strings.ReplaceAll(a, "\n", "\r") },
		"both":                       func(a string) string { return strings.ReplaceAll(a, "\n", "\r\n") },
		"no empty line at the end":   func(a string) string { return strings.TrimRight(a, "\n") },
		"a text in the place of ids": func(a string) string { return strings.ReplaceAll(a, `"id":1`, `"id":"1"`) },
		"a number with a fraction":   func(a string) string { return strings.ReplaceAll(a, `"id":1`, `"id":1.0`) },
	} {
		for _, before := range [][]string{nil, {progress}} {
			for _, asks := range []bool{false, true} {
				t.Run(fmt.Sprint(name, before != nil, asks), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.BeforeTerms, s.BeforeResult = true, before, before })
					if asks {
						asksAgain(s)
					}
					at := altered(t, s, func(_ bool, answer string) string { return alter(answer) })
					a := w.send(w.door, w.Key, proxytest.ToolCall(t, at, "1", "get_weather"))
					s.Expect(1, 1, 1)
					p := w.newest()
					if strings.Contains(a.Text, "accepts") || p.Answered == asks || strings.Contains(a.Text, "sunny 1") == asks {
						t.Errorf("%v, answered %v: %q", p.Labels(), p.Answered, a.Text)
					}
				})
			}
		}
	}
}

// Other answers than the protocol's bring nothing: the payment stays for the agent's next call.
func TestToolIsAnsweredByAnotherKind(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"a redirect": func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/more", http.StatusSeeOther) },
		"nothing":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) },
		"a page":     func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<html>") },
	} {
		w := newWorld(t)
		s := proxytest.NewTools(t)
		front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body := must(io.ReadAll(r.Body))
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("x402/payment")) {
				answer(rw, r)
				return
			}
			s.ServeHTTP(rw, r)
		}))
		t.Cleanup(front.Close)
		for _, id := range []string{"1", "2"} {
			w.send(w.door, w.Key, proxytest.ToolCall(t, front.URL, id, "get_weather"))
		}
		if n := len(w.Payments()); n != 1 || w.newest().Answered {
			t.Errorf("%s: %d payments, answered %v", name, n, w.newest().Answered)
		}
	}
}

// A paid call whose JSON has no answer for it is not answered. A list that has one is read, as some clients do.
func TestToolAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(string) string{
		"another call's": func(a string) string { return strings.NewReplacer(`"id":1`, `"id":2`, `"id":9`, `"id":2`).Replace(a) },
		"a notification": func(string) string { return progress },
	} {
		w := newWorld(t)
		s := proxytest.NewTools(t)
		at := altered(t, s, func(paid bool, a string) string {
			if paid {
				a = alter(a)
			}
			return a
		})
		for _, id := range []string{"1", "9"} {
			w.send(w.door, w.Key, proxytest.ToolCall(t, at, id, "get_weather"))
			if p := w.newest(); p.Answered {
				t.Errorf("%s: answered", name)
			}
		}
		s.Expect(2, 2, 1)
	}
	for _, asks := range []bool{false, true} {
		w := newWorld(t)
		s := proxytest.NewTools(t)
		if asks {
			asksAgain(s)
		}
		at := altered(t, s, func(paid bool, a string) string {
			if paid {
				a = "[" + a + "]"
			}
			return a
		})
		a := w.send(w.door, w.Key, proxytest.ToolCall(t, at, "1", "get_weather"))
		if p := w.newest(); p.Answered == asks || strings.Contains(a.Text, "accepts") {
			t.Errorf("a list: answered %v, %s", p.Answered, a.Text)
		}
	}
}

// Agents of one key share no streams. A GET for another task, or one that names no event of the stream, brings it no answer.
func TestOnlyTheOwnStreamIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut = true, true })
	w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, s.Paid(1))
	other := proxytest.NewPage(t, true, answer)
	resume := func(task, at, last string) {
		r := proxytest.Request(t, "GET", at, nil, "Last-Event-Id", last, "Accept", "text/event-stream")
		call := NewCall(w.Key, task, "")
		call.URL = func() string { return s.URL + "/mcp" }
		call.Ask(r.Header)
		if a, err := w.trip(w.door, call, r); err != nil || !strings.Contains(a.Text, "sunny 1") {
			t.Errorf("%v %s", err, a.Text)
		}
		call.Finish(true)
	}
	resume("", other.URL, "another's")
	resume("another", other.URL, "1")
	if p := w.newest(); p.Answered {
		t.Fatal("answered by another agent's stream")
	}
	resume("", s.URL+"/mcp", "1")
	if p := w.newest(); !p.Answered || p.State != pay.Settled {
		t.Errorf("%v, answered %v", p.Labels(), p.Answered)
	}
}

// A stream that is cut twice is resumed twice: the second time by an event of the first rest.
func TestToolAnswersAreResumedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut = true, true })
	w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
	first := proxytest.NewPage(t, true, progress+"\nid: 77")
	for _, step := range [][2]string{{first.URL, "1"}, {s.URL + "/mcp", "77"}} {
		r := proxytest.Request(t, "GET", step[0], nil, "Last-Event-Id", step[1])
		call := NewCall(w.Key, "", "")
		call.URL = func() string { return s.URL + "/mcp" }
		call.Ask(r.Header)
		_, err := w.trip(w.door, call, r)
		call.Finish(err == nil)
	}
	if p := w.newest(); !p.Answered || p.State != pay.Settled {
		t.Errorf("%v, answered %v", p.Labels(), p.Answered)
	}
}

// A seller that asks again in a resumed stream gets no second payment, and its terms do not reach the client.
func TestToolAsksAgainInAResumedStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut = true, true })
	w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
	asks := proxytest.NewPage(t, true, `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[],"structuredContent":`+string(s.Terms("again"))+`}}`)
	for range 2 {
		r := proxytest.Request(t, "GET", asks.URL, nil, "Last-Event-Id", "1")
		call := NewCall(w.Key, "", "")
		call.URL = func() string { return s.URL + "/mcp" }
		call.Ask(r.Header)
		a, err := w.trip(w.door, call, r)
		call.Finish(err == nil)
		if got, _ := a.Tool(t); err != nil || strings.Contains(a.Text, "accepts") || !got.Result.IsError || string(got.ID) != "1" {
			t.Errorf("%v %s", err, a.Text)
		}
	}
	if p := w.newest(); p.Answered || len(w.Payments()) != 1 {
		t.Errorf("%v, answered %v", p.Labels(), p.Answered)
	}
}

// Many calls of one session lose their streams at once. Each of them is resumed.
func TestManyStreamsOfASessionAreCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := newToolCalls(time.Now)
	r := proxytest.ToolCall(t, "http://shop.test/mcp", "1", "get_weather", "Mcp-Session-Id", "a")
	done := make(chan struct{})
	for n := range maxCut {
		go func() {
			call := NewCall(w.Key, "", "")
			c := &mcpCarrier{call: must(readCall(n)), ids: &eventIDs{}}
			calls.begun(r, call, c, fmt.Sprint(n))
			done <- struct{}{}
		}()
	}
	for range maxCut {
		<-done
	}
	if n := len(calls.cut.Get(w.Key.ID, sessionOf(r, NewCall(w.Key, "", "")))); n != maxCut {
		t.Errorf("%d of %d are remembered", n, maxCut)
	}
}

// A seller cannot keep a client waiting with comments, nor fill the memory with a compressed body that brings nothing.
func TestToolAnswersThatBringNothing(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		giveNothing(t, false, packed)
	}
	giveNothing(t, true, false) // the send of a payment is bounded in time, whatever comes
}

// giveNothing has a server answer with comments, or with compressed bytes that bring nothing, until its client leaves. The
// client must have the header of the answer.
func giveNothing(t *testing.T, paid, packed bool) {
	t.Helper()
	w := newWorld(t)
	var clock atomic.Int64
	door := w.transport(nil, TransportOptions{Clock: func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }})
	s := proxytest.NewTools(t)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := must(io.ReadAll(r.Body))
		if paid && !bytes.Contains(body, []byte("x402/payment")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		piece := []byte(": still there\n\n")
		if packed {
			rw.Header().Set("Content-Encoding", "gzip")
			var nothing bytes.Buffer
			_ = gzip.NewWriter(&nothing).Close()
			piece = bytes.Repeat(nothing.Bytes(), 100)
		}
		for r.Context().Err() == nil {
			clock.Add(int64(time.Second))
			if _, err := rw.Write(piece); err != nil || http.NewResponseController(rw).Flush() != nil {
				return
			}
		}
	}))
	t.Cleanup(front.Close)
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	call := NewCall(w.Key, "", "")
	resp, err := door.RoundTrip(proxytest.ToolCall(t, front.URL, "1", "get_weather").WithContext(WithCall(ctx, call)))
	if err != nil {
		t.Fatalf("paid %v, packed %v: %v", paid, packed, err)
	}
	_ = resp.Body.Close()
	call.Finish(false)
}

// A stream to a client may be long, so a body that is let go is not kept.
func TestTakenIsLetGo(t *testing.T) {
	t.Parallel()
	body := &taken{from: strings.NewReader(strings.Repeat("x", 1<<20)), most: 100}
	if n, err := io.CopyN(io.Discard, body, 100); err != nil || body.raw.Len() != 100 {
		t.Fatal(n, err)
	}
	if _, err := body.Read(make([]byte, 1)); err != errFull { //nolint:errorlint // it is returned bare
		t.Error(err)
	}
	all, err := io.ReadAll(body.back(errFull, io.NopCloser(nil)))
	if err != nil || len(all) != 1<<20 {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	body = &taken{from: strings.NewReader(strings.Repeat("x", 1<<20)), most: 100}
	body.letGo()
	if n, err := io.Copy(io.Discard, body); err != nil || n != 1<<20 || body.raw.Cap() != 0 {
		t.Error(n, err, body.raw.Cap())
	}
}

func readCall(id int) (*toolcall.Call, error) {
	return toolcall.Read(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_weather"}}`, id))
}
