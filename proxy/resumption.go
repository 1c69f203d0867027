package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	// maxCallID bounds the id of such a call, in bytes. The stream of one with a longer id is relayed, and no more.
	maxCallID = 256
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
	now   pay.Clock

	mu  sync.Mutex                             // held while a call is added to cut
	cut *perclient.Memory[pay.Hash, []cutCall] // by task, URL and session
}

// cutCall is a paid call whose answer has not come. Ids of calls are those of one client, and many servers have no
// sessions: only a client that names an event of the call's own stream asks for the rest of that.
type cutCall struct {
	call      *toolcall.Call // without its body
	version   string         // of the protocol
	ids       *eventIDs      // of its stream
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
	return pay.HashOf("session", call.Task, call.askedURL(req), req.Header.Get(headerSession))
}

// begun remembers a paid call whose stream has begun, and whose answer is still to come.
func (t *toolCalls) begun(req *http.Request, call *Call, paid *mcpCarrier, paymentID string) {
	if paid.ids == nil || len(paid.call.ID()) > maxCallID {
		return
	}
	if call.over == nil {
		call.over = make(chan struct{})
	}
	session := sessionOf(req, call)
	next := cutCall{paid.call.Asked(), strings.Clone(paid.version[:min(len(paid.version), len("2025-11-25"))]), paid.ids, paymentID, call.over, t.now().Add(toolCallLife)}
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := append(slices.Clone(t.cut.Get(call.Key.ID, session)), next)
	t.cut.Set(call.Key.ID, session, waiting[max(0, len(waiting)-maxCut):])
}

// resumable lists the calls whose streams a request goes on with.
func (t *toolCalls) resumable(req *http.Request, call *Call) []cutCall {
	last := req.Header.Get(headerResumes)
	if last == "" || methodOf(req) != http.MethodGet {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.cut.Get(call.Key.ID, sessionOf(req, call))), func(c cutCall) bool {
		return !c.ids.has(last) || !t.now().Before(c.until)
	})
}

// resume looks for answers to paid calls in a stream that goes on with an earlier one. Once the client has such an
// answer, the payment of its call is answered.
func (t *Transport) resume(req *http.Request, call *Call, resp *http.Response) {
	cut := t.calls.resumable(req, call)
	if len(cut) == 0 {
		return
	}
	body, is := resp.Body.(*watched)
	if !is || !succeeds(resp) { // official clients look at no more
		return
	}
	source := io.Reader(body.ReadCloser)
	if coding := codingsOf(resp.Header); coding != "" {
		source = &unpacking{from: source, coding: coding}
		uncoded(resp, coding)
	}
	body.ReadCloser = rejoined{&eventFilter{from: newEventReader(source), most: maxToolAnswer, look: func(e event) []byte {
		for _, c := range cut {
			c.ids.add(e.id)
			if c.call.Sort(e.data) == toolcall.Answers {
				if instead := t.resumed(req, call, resp, c, e.data); instead != nil {
					return instead
				}
			}
		}
		return e.raw
	}}, body.ReadCloser}
}

// unpacking undoes content codings from its first read on: their beginning may come late.
type unpacking struct {
	from   io.Reader
	coding string
	plain  io.Reader
}

// Read implements io.Reader.
func (u *unpacking) Read(p []byte) (int, error) {
	if u.plain == nil {
		plain, err := decoder(u.from, u.coding)
		if err == nil && plain == nil {
			err = fmt.Errorf("a resumed stream has a content coding that purser does not know: %q", u.coding)
		}
		if err != nil {
			return 0, err
		}
		u.plain = plain
	}
	return u.plain.Read(p)
}

// resumed gives the call of a stream the payment of the call that an answer in it is for. It returns what the client
// gets in the place of a refusal; nil: the answer itself.
func (t *Transport) resumed(req *http.Request, call *Call, resp *http.Response, c cutCall, answer []byte) []byte {
	carrier := &mcpCarrier{httpCarrier: httpCarrier{t.protocols}, call: c.call, version: c.version, now: t.now, said: c.call.Hear(answer)}
	select {
	case <-c.over:
	case <-time.After(endPatience):
	case <-req.Context().Done():
	}
	m, err := t.reopen(req, call, carrier, c.paymentID)
	if err != nil {
		t.log.InfoContext(req.Context(), "a resumed answer to a payment that is not at hand", "payment", c.paymentID, "error", err)
		if carrier.said.Terms == nil {
			return nil
		}
		return carrier.event(problem{Error: "The seller asks again for what was paid before; repeat the same request", Reason: DeclinedOpen})
	}
	if told := t.hearLate(req, call, m, resp, carrier.heard(m.wire)); told != nil {
		return carrier.event(*told)
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if !m.ended {
		call.carrier = carrier
		m.attempt.Observe("answered in a stream that the client has resumed")
		m.tail = follow(req.Context(), resp, m.attempt, nil)
	}
	return nil
}

// errOtherAnswer reports a further answer in a stream that has brought one.
var errOtherAnswer = errors.New("the stream has brought another answer")

// reopen opens an earlier payment, whose answer has come, for a call that has none.
func (t *Transport) reopen(req *http.Request, call *Call, by *mcpCarrier, paymentID string) (*memo, error) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.finished || call.memo != nil && !call.memo.tail.delivered() {
		return nil, errOtherAnswer
	}
	if call.carrier == nil {
		call.carrier = by
	}
	m := &memo{method: methodOf(req), uri: req.URL.RequestURI(), host: req.URL.Host, answered: true, placed: t.redirects.place(req, call)}
	return m, t.openPayment(req, call, m, paymentID)
}
