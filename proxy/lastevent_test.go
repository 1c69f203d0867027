package proxy

import (
	"net/http"
	"strings"
	"testing"
)

func streamed(kind string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Header: http.Header{"Content-Type": {kind}}}
}

// A stream's own end is known however the stream is cut into pieces.
func TestLastEvent(t *testing.T) {
	t.Parallel()
	const sse, lines = "text/event-stream; charset=utf-8", "application/x-ndjson"
	for name, c := range map[string]struct{ kind, before, last string }{
		"OpenAI":          {sse, "data: {\"n\":1}\n\n", "data: [DONE]\n\n"},
		"no space, CRLF":  {sse, "data:{\"n\":1}\r\n\r\n", "data:[DONE]\r\n\r\n"},
		"Anthropic":       {sse, "event: ping\ndata: {\"type\":\"ping\"}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		"without names":   {sse, "data: {\"type\":\"message_delta\"}\n\n", "data: {\"type\":\"message_stop\"}\n\n"},
		"Responses":       {sse, "data: {\"type\":\"response.created\"}\n\n", "data: {\"type\":\"response.incomplete\",\"response\":{\"id\":1}}\n\n"},
		"a long end":      {sse, "data: {}\n\n", "data: {\"type\":\"response.completed\",\"text\":\"" + strings.Repeat("x", maxLine) + "\"}\n\n"},
		"Gemini":          {sse, "data: {\"candidates\":[{\"content\":{}}]}\r\n\r\n", "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\r\n\r\n"},
		"in several rows": {sse, "data: {\ndata: \"candidates\":[{}]}\n\n", "data: {\ndata: \"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"},
		"A2A":             {sse, "data: {\"result\":{\"final\":false}}\n\n", "data: {\"result\":{\"final\":true}}\n\n"},
		"a name alone":    {sse, "event: output\ndata: x\n\n", "event: done\n\n"},
		"llama.cpp":       {sse, "data: {\"content\":\"a\",\"stop\":false}\n\n", "data: {\"content\":\"\",\"stop\":true}\n\n"},
		"TGI":             {sse, "data: {\"token\":{},\"generated_text\":null}\n\n", "data: {\"token\":{},\"generated_text\":\"a\"}\n\n"},
		"a word in text":  {sse, "data: {\"text\":\"data: [DONE] message_stop\"}\n\n", "data: [DONE]\n\n"},
		"Ollama":          {lines, "{\"response\":\"a\",\"done\":false}\n", "{\"response\":\"\",\"done\":true,\"context\":[1,2]}\n"},
		"no last newline": {lines, "{\"done\":false}\n", "{\"done\":true}"},
		"json-seq":        {"application/json-seq", "\x1e{\"done\":false}\n", "\x1e{\"done\":true}\n"},
		"finish_reason":   {sse, "data: {\"choices\":[{\"index\":0,\"finish_reason\":null}]}\n\n", "data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n"},
		"two choices":     {sse, "data: {\"choices\":[{\"index\":1}]}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", "data: {\"choices\":[{\"index\":1,\"finish_reason\":\"length\"}]}\n\n"},
		"CR, byte order":  {sse, "\ufeffdata: x\r\r", "data: [DONE]\r\r"},
		"first of all":    {sse, "\ufeff", "data: [DONE]\r\n\r\n"},
		"in quotes":       {sse, "data: x\n\n", "data: \"[DONE]\"\n\n"},
		"no brackets":     {sse, "data: D\n\n", "data: DONE\n\n"},
		"Gradio":          {sse, "data: {\"msg\":\"process_generating\"}\n\n", "data: {\"msg\":\"process_completed\"}\n\n"},
		"MCP":             {sse, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n", "data: {\"id\":1,\"result\":{\"content\":[]}}\n\n"},
		"multipart":       {"multipart/mixed; boundary=\"-\"", "---\r\n\r\n{\"hasNext\":true}\r\n---\r\n\r\n{}\r\n", "-----"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7, 1 << 20} {
				e := lastEventOf(streamed(c.kind))
				for text := range pieces(c.before, size) {
					if e.sees([]byte(text)) {
						t.Fatalf("pieces of %d: an end in %q", size, text)
					}
				}
				ends := false
				for text := range pieces(c.last, size) {
					ends = e.sees([]byte(text))
				}
				if !ends {
					t.Errorf("pieces of %d: no end", size)
				}
			}
		})
	}
}

func pieces(text string, size int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// An answer of several parts has more than one last event. Behind [DONE] nothing counts.
func TestEventsBehindTheLastOne(t *testing.T) {
	t.Parallel()
	e := lastEventOf(streamed("text/event-stream"))
	for _, step := range []struct {
		text string
		ends bool
	}{
		{"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true},
		{": a comment\n\n", true},
		{"event: ping\ndata: {}\n\n", true},
		{"data: {\"usageMetadata\":{}}\n\n", true},
		{"data: {\"ty", false}, // what it is, is not known yet
		{"pe\":\"ping\"}\n", true},
		{"\r\n", true},
		{"event: pi", false},
		{"ng\n", true},
		{"event: message_st", false},
		{"art\n", false},
		{"\n", true}, // it has no data, so it is none
		{"data: {\"type\":\"message_stop\"}\n\n", true},
		{"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", true},
		{"data: {\"choices\":[],\"usage\":{}}\n\n", true},
		{"data: {\"choices\":[{\"index\":0}]}\n\n", false},
		{"event: message_start\ndata: {\"type\":\"message_start\"}\n\n", false},
		{"data: [DONE]\n\n", true},
		{"data: {\"receipt\":1}\n\n", true},
	} {
		if got := e.sees([]byte(step.text)); got != step.ends {
			t.Errorf("%q: %t", step.text, got)
		}
	}
	for name, change := range map[string]func(*http.Response){
		"a page":            func(r *http.Response) { r.Header.Set("Content-Type", "text/html") },
		"compressed":        func(r *http.Response) { r.Header.Set("Content-Encoding", "gzip") },
		"of a known length": func(r *http.Response) { r.Header.Set("Content-Type", "application/x-ndjson"); r.ContentLength = 9 },
	} {
		r := streamed("text/event-stream")
		if change(r); lastEventOf(r) != nil {
			t.Errorf("%s is followed", name)
		}
	}
}

// AI SDK's data stream is text with a code before each value.
func TestLastEventOfDataStream(t *testing.T) {
	t.Parallel()
	resp := streamed("text/plain; charset=utf-8")
	if lastEventOf(resp) != nil {
		t.Error("plain text is followed")
	}
	resp.Header.Set("X-Vercel-Ai-Data-Stream", "v1")
	e := lastEventOf(resp)
	for text, ends := range map[string]bool{"0:\"d:\"\n": false, "e:{\"finishReason\":\"stop\"}\n": false} {
		if e.sees([]byte(text)) != ends {
			t.Errorf("%q: ends %v", text, !ends)
		}
	}
	if !e.sees([]byte("d:{\"finishReason\":\"stop\"}\n")) {
		t.Error("no end")
	}
}
