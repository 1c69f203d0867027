package proxy

import (
	"bufio"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol/toolcall"
)

const (
	// maxToolCalls bounds the calls of MCP that are remembered for a key, and maxCut those whose answers a session
	// waits for.
	maxToolCalls = 256
	maxCut       = 16
	// toolCallLife is the time for which they are.
	toolCallLife = 10 * time.Minute
)

// endPatience bounds how long a resumed answer waits for the end of its call, whose connection may have just ended.
const endPatience = 5 * time.Second

// toolCalls remembers calls of MCP for a while, for each key. The ids of calls are unique in a session: the same one
// again is a repeat, even of a call that was answered. Where the stream of a paid call ends without the answer, the
// client asks for the rest of it by a GET of its own.
type toolCalls struct {
	until *perclient.Memory[pay.Hash, time.Time]
	cut   *perclient.Memory[pay.Hash, []cutCall] // by URL and session
	now   pay.Clock
}

// cutCall is a paid call whose answer has not come.
type cutCall struct {
	call      *toolcall.Call
	paymentID string
	over      <-chan struct{} // closed once the door has ended the call
	until     time.Time
}

func newToolCalls(now pay.Clock) *toolCalls {
	return &toolCalls{
		until: perclient.NewMemory[pay.Hash, time.Time](maxToolCalls), cut: perclient.NewMemory[pay.Hash, []cutCall](maxToolCalls), now: now,
	}
}

const (
	headerSession = "Mcp-Session-Id"
	headerResumes = "Last-Event-Id"
)

// again remembers a call of a session, and reports whether it is remembered already.
func (t *toolCalls) again(req *http.Request, call *Call, read *toolcall.Call) bool {
	session := req.Header.Get(headerSession)
	if session == "" {
		return false
	}
	name := pay.HashOf("call", call.Task, call.askedURL(req), session, read.ID(), read.Content())
	now := t.now()
	was := t.until.Get(call.Key.ID, name)
	t.until.Set(call.Key.ID, name, now.Add(toolCallLife))
	return now.Before(was)
}

func sessionOf(req *http.Request, call *Call) pay.Hash {
	return pay.HashOf("session", call.askedURL(req), req.Header.Get(headerSession))
}

// begun remembers a paid call whose stream has begun, and whose answer is still to come.
func (t *toolCalls) begun(req *http.Request, call *Call, paid *toolcall.Call, paymentID string) {
	if call.over == nil {
		call.over = make(chan struct{})
	}
	session := sessionOf(req, call)
	waiting := append(slices.Clone(t.cut.Get(call.Key.ID, session)), cutCall{paid, paymentID, call.over, t.now().Add(toolCallLife)})
	t.cut.Set(call.Key.ID, session, waiting[max(0, len(waiting)-maxCut):])
}

// resume looks for answers to paid calls in a stream that goes on with an earlier one. It is the call's:
// once the client has it, the payment is answered.
func (t *Transport) resume(req *http.Request, call *Call, resp *http.Response) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	body, is := resp.Body.(*watched)
	if req.Header.Get(headerResumes) == "" || methodOf(req) != http.MethodGet || !is || resp.StatusCode != http.StatusOK ||
		kind != eventStream || resp.Header.Get("Content-Encoding") != "" || len(t.calls.cut.Get(call.Key.ID, sessionOf(req, call))) == 0 {
		return
	}
	body.ReadCloser = rejoined{&eventFilter{from: bufio.NewReader(body.ReadCloser), most: maxToolAnswer, look: func(e event) []byte {
		for _, c := range t.calls.cut.Get(call.Key.ID, sessionOf(req, call)) {
			if t.calls.now().Before(c.until) && c.call.Sort(e.data) == toolcall.Answers {
				return t.resumed(req, call, resp, c, e)
			}
		}
		return e.raw
	}}, body.ReadCloser}
}

// resumed gives the call of a stream the payment of the call that an answer in it is for. It returns what the client
// gets: terms of a paid call are taken out.
func (t *Transport) resumed(req *http.Request, call *Call, resp *http.Response, c cutCall, answer event) []byte {
	carrier := &mcpCarrier{httpCarrier: httpCarrier{t.protocols}, call: c.call, now: t.now, said: c.call.Hear(answer.data)}
	instead := answer.raw
	if carrier.said.Terms != nil {
		text := "This was paid for, and the seller asks for money again; repeat the same request"
		instead = carrier.framed(problem{Error: text, Reason: DeclinedOpen, Detail: text})
	}
	select {
	case <-c.over:
	case <-time.After(endPatience):
	case <-req.Context().Done():
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.finished || call.memo != nil && !call.memo.tail.delivered() {
		return instead
	}
	m := &memo{method: methodOf(req), uri: req.URL.RequestURI(), host: req.URL.Host, answered: true, placed: t.redirects.place(req, call)}
	if err := t.openPayment(req, call, m, c.paymentID); err != nil {
		t.log.InfoContext(req.Context(), "a resumed answer to a payment that is not at hand", "payment", c.paymentID, "error", err)
		return instead
	}
	switch said := carrier.heard(m.wire); {
	case said.Receipt != nil:
		m.attempt.Receipt(*said.Receipt)
	case said.Found, said.Failed:
		m.unanswered()
		return instead
	}
	call.carrier = carrier
	m.attempt.Observe("answered in a stream that the client has resumed")
	session := sessionOf(req, call)
	left := slices.DeleteFunc(slices.Clone(t.calls.cut.Get(call.Key.ID, session)), func(one cutCall) bool { return one.paymentID == c.paymentID })
	t.calls.cut.Set(call.Key.ID, session, left)
	m.tail = follow(req.Context(), resp, m.attempt, nil)
	return instead
}
