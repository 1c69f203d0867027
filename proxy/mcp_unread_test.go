package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// Answers to paid calls with repeated names, deep nesting or great length are booked as what clients take them for, and
// what can be read of them brings the client no terms. The books never tell of a second payment.
func TestPaidToolAnswersThatAreHardToRead(t *testing.T) {
	t.Parallel()
	long, deep := strings.Repeat("x", 2*maxToolAnswer), strings.Repeat("[", 100)+strings.Repeat("]", 100)
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
