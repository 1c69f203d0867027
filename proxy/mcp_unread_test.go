package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// Answers to paid calls with repeated names, deep nesting or great length are booked as what clients take them for, and
// what can be read of them brings the client no terms. The books never tell of a second payment.
func TestPaidToolAnswersThatAreHardToRead(t *testing.T) {
	t.Parallel()
	long, deep := strings.Repeat("x", 2*maxToolAnswer), strings.Repeat("[", 100)+strings.Repeat("]", 100)
	deepest := strings.Repeat(`{"x":[`, 20_000) + strings.Repeat("]}", 20_000)
	before := func(name, put string) func(string) string {
		return func(a string) string { return strings.Replace(a, `"`+name+`":`, put+`,"`+name+`":`, 1) }
	}
	for _, test := range []struct {
		name  string
		alter func(string) string
		long  bool // it passes as it comes
		open  bool // it does not say in its beginning that it is the answer
	}{
		{"two ids", before("id", `"id":7`), false, false},
		{"two results", before("result", `"result":{}`), false, false},
		{"a repeated name inside", before("content", `"content":[]`), false, false},
		{"two words for an error", before("isError", `"isError":false`), false, false},
		{"deep", before("jsonrpc", `"x":`+deep), false, false},
		{"very deep", before("jsonrpc", `"x":`+deepest), false, false},
		{"Python's numbers", before("content", `"x":[NaN,-Infinity,Infinity,"NaN\\\""]`), false, false},
		{"long", before("content", `"x":"`+long+`"`), true, false},
		{"long and unknown", before("result", `"x":"`+long+`"`), true, true},
		{"behind a long one", func(a string) string { return strings.Replace(a, `{"progress"`, `{"x":"`+long+`","progress"`, 1) }, false, false},
	} {
		for _, stream := range [][]string{nil, {}, {progress}} {
			for _, asks := range []bool{false, true} {
				t.Run(fmt.Sprint(test.name, stream != nil, len(stream), asks), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.BeforeResult = stream != nil, stream })
					if asks {
						asksAgain(s)
					}
					at := altered(t, s, func(paid bool, answer string) string {
						if paid {
							return test.alter(answer)
						}
						return answer
					})
					a := w.send(w.door, w.Key, proxytest.ToolCall(t, at, "1", "get_weather"))
					p := w.newest()
					if want := !test.open && (test.long || !asks); p.Answered != want || len(w.Payments()) != 1 {
						t.Errorf("%v, answered %v, %d payments", p.Labels(), p.Answered, len(w.Payments()))
					}
					if terms := strings.Contains(a.Text, "accepts"); terms && !test.long {
						t.Errorf("terms behind a payment: %s", a.Text)
					}
					if got := strings.Contains(a.Text, "sunny 1"); got == asks {
						t.Errorf("the client got the good: %v", got)
					}
				})
			}
		}
	}
}

// An error that is too long to be read is no delivery.
func TestLongToolError(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		w := newWorld(t)
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream = stream })
		at := altered(t, s, func(paid bool, answer string) string {
			if paid {
				return strings.Replace(answer, `"result":`, `"error":{"code":-32000,"message":"`+strings.Repeat("x", maxToolAnswer)+`"},"was":`, 1)
			}
			return answer
		})
		w.send(w.door, w.Key, proxytest.ToolCall(t, at, "1", "get_weather"))
		if p := w.newest(); p.Answered || !p.Undelivered {
			t.Errorf("stream %v: %v, answered %v", stream, p.Labels(), p.Answered)
		}
	}
}

// packed writes a body in the codings of deflate.
func packed(coding, text string) string {
	var b bytes.Buffer
	var to io.WriteCloser
	switch coding {
	case "zlib":
		to = zlib.NewWriter(&b)
	case "bare":
		to = must(flate.NewWriter(&b, flate.BestSpeed))
	default:
		to = gzip.NewWriter(&b)
	}
	_, _ = io.WriteString(to, text)
	_ = to.Close()
	return b.String()
}

// Paid answers whose header says in other ways what they are, and bodies in other forms, are looked at as clients do that.
func TestPaidToolAnswersInOtherForms(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(h http.Header, text string) (status int, body string){
		"a byte order mark": func(_ http.Header, text string) (int, string) { return http.StatusOK, "\ufeff" + text },
		"a parameter twice": func(h http.Header, text string) (int, string) {
			h.Set("Content-Type", h.Get("Content-Type")+"; a=1; a=2")
			return http.StatusOK, text
		},
		"a type twice": func(h http.Header, text string) (int, string) {
			h["Content-Type"] = []string{"text/plain", h.Get("Content-Type")}
			return http.StatusOK, text
		},
		"another status": func(_ http.Header, text string) (int, string) { return http.StatusCreated, text },
		"zlib": func(h http.Header, text string) (int, string) {
			h.Set("Content-Encoding", "deflate")
			return http.StatusOK, packed("zlib", text)
		},
		"deflate": func(h http.Header, text string) (int, string) {
			h.Set("Content-Encoding", "Deflate")
			return http.StatusOK, packed("bare", text)
		},
		"two codings": func(h http.Header, text string) (int, string) {
			h["Content-Encoding"] = []string{"identity, deflate", "gzip"}
			return http.StatusOK, packed("gzip", packed("zlib", text))
		},
	} {
		for _, stream := range []bool{false, true} {
			for _, asks := range []bool{false, true} {
				if name == "a byte order mark" && stream {
					continue // it stands before an event, and no client takes it
				}
				t.Run(fmt.Sprint(name, stream, asks), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream = stream })
					if asks {
						asksAgain(s)
					}
					front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						body := must(io.ReadAll(r.Body))
						r.Body = io.NopCloser(bytes.NewReader(body))
						answer := httptest.NewRecorder()
						s.ServeHTTP(answer, r)
						rw.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
						status, text := http.StatusOK, answer.Body.String()
						if bytes.Contains(body, []byte("x402/payment")) {
							status, text = alter(rw.Header(), text)
						}
						rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
						rw.WriteHeader(status)
						_, _ = io.WriteString(rw, text)
					}))
					t.Cleanup(front.Close)
					a := w.send(w.door, w.Key, proxytest.ToolCall(t, front.URL+"/mcp", "1", "get_weather"))
					p := w.newest()
					if p.Answered == asks || len(w.Payments()) != 1 {
						t.Errorf("%v, answered %v, %d payments", p.Labels(), p.Answered, len(w.Payments()))
					}
					if got, is := p.State == pay.Settled, !asks; got != is {
						t.Errorf("%v", p.Labels())
					}
					if asks && a.Header.Get("Content-Encoding") != "" || strings.Contains(a.Text, "accepts") {
						t.Errorf("terms behind a payment: %v %s", a.Header, a.Text)
					}
				})
			}
		}
	}
}

// Terms in a resumed stream that is compressed, or has no type, do not reach the client behind its payment.
func TestTermsInACompressedResumedStream(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"", "gzip"} {
		w := newWorld(t)
		s := proxytest.NewTools(t, func(s *proxytest.Tools) { s.Stream, s.Cut = true, true })
		w.send(w.door, w.Key, proxytest.ToolCall(t, s.URL+"/mcp", "1", "get_weather"))
		front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			text := `data: {"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[],"structuredContent":` + string(s.Terms("again")) + "}}\n\n"
			rw.Header()["Content-Type"] = nil
			if coding != "" {
				rw.Header().Set("Content-Type", "text/event-stream")
				rw.Header().Set("Content-Encoding", coding)
				text = packed(coding, text)
			}
			_, _ = io.WriteString(rw, text)
		}))
		r := proxytest.Request(t, "GET", front.URL, nil, "Last-Event-Id", "1", "Accept-Encoding", "gzip")
		call := NewCall(w.Key, "", "")
		call.URL = func() string { return s.URL + "/mcp" }
		call.Ask(r.Header)
		a, err := w.trip(w.door, call, r)
		call.Finish(err == nil)
		if err != nil || strings.Contains(a.Text, "accepts") || !strings.Contains(a.Text, "purser/declined") || a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %v %v %q", coding, err, a.Header, a.Text)
		}
		if p := w.newest(); p.Answered || len(w.Payments()) != 1 {
			t.Errorf("%q: %v, answered %v", coding, p.Labels(), p.Answered)
		}
		front.Close()
	}
}

// An event whose last byte makes it too long hides none behind it.
func TestEventThatIsJustTooLong(t *testing.T) {
	t.Parallel()
	for size := maxToolAnswer - 3; size < maxToolAnswer+3; size++ {
		news := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"`
		first := "data: " + news + strings.Repeat("x", size-len("data: "+news)-len(`"}}`)-2) + `"}}` + "\n\n"
		looked := 0
		filter := &eventFilter{from: newEventReader(strings.NewReader(first + "data: terms\n\n")), most: maxToolAnswer, look: func(e event) []byte {
			if looked++; string(e.data) == "terms" {
				return []byte("none\n\n")
			}
			return e.raw
		}}
		got := string(must(io.ReadAll(filter)))
		if !strings.HasPrefix(got, first) || got[len(first):] != "none\n\n" || looked < 2 {
			t.Errorf("%d bytes: %d looks, %q", size, looked, got[len(first):])
		}
	}
}
