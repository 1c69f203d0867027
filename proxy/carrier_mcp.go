package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/protocol/toolcall"
	"github.com/purserpay/purser/x402"
)

const (
	// maxToolAnswer bounds an answer to a paid call in which a receipt is looked for, in bytes.
	maxToolAnswer = 1 << 20
	// maxToolCall bounds a call that is paid for, in bytes.
	maxToolCall = 1 << 20
	// progressHold bounds how long the first news of an unpaid call is held back. Sellers ask for money before they
	// begin to work.
	progressHold = 2 * time.Second
	// commentHold bounds how long comments are held back, by which servers keep a connection while they work.
	commentHold = 10 * time.Second
)

// mcpCarrier carries challenge, credential and receipt of one call inside JSON-RPC messages of MCP. Its answers have
// status 200, and are JSON or a stream of events. A seller that asks by status 402 is served as by httpCarrier.
type mcpCarrier struct {
	httpCarrier
	call    *toolcall.Call
	version string // of the protocol, as the client has named it; ""
	now     pay.Clock

	said    toolcall.Answer  // of the newest answer, as far as it was read
	dialect toolcall.Dialect // in which the newest challenge came
	status  bool             // that challenge came with status 402
	waits   bool             // the call's own answer has not come in the newest one, which may be a stream
	ids     *eventIDs        // of that stream; nil: it is none
}

var _ carrier = (*mcpCarrier)(nil)

// carrierOf returns the carrier of a call whose request has been answered.
func (t *Transport) carrierOf(req *http.Request, call *Call, resp *http.Response) carrier {
	if call.carrier == nil {
		if !mayAsk(req, resp) { // a further attempt may be answered in another way
			return t.carrier
		}
		call.carrier = t.carrier
		if read := call.readToolCall(req); read != nil {
			call.Retried = call.Retried || !call.Anew && t.calls.again(req, call, read)
			call.carrier = &mcpCarrier{httpCarrier: httpCarrier{t.protocols}, call: read, version: req.Header.Get("Mcp-Protocol-Version"), now: t.now}
		}
	}
	return call.carrier
}

// mayAsk reports whether an answer may be one to a call of MCP that asks for money.
func mayAsk(req *http.Request, resp *http.Response) bool {
	if methodOf(req) != http.MethodPost {
		return false
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && (kind == "application/json" || kind == eventStream) || resp.StatusCode == http.StatusPaymentRequired
}

// readToolCall reads the body of a request that may be a call of MCP; nil: it is none, or not all of it is kept.
func (c *Call) readToolCall(req *http.Request) *toolcall.Call {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	accepted := strings.ToLower(strings.Join(req.Header.Values("Accept"), ","))
	if kind != "application/json" || req.Header.Get("Content-Encoding") != "" ||
		!strings.Contains(accepted, "application/json") || !strings.Contains(accepted, eventStream) {
		return nil
	}
	read, err := toolcall.Read(c.body.text(req.ContentLength, maxToolCall))
	if err != nil || read.Pays() {
		return nil
	}
	return read
}

const eventStream = "text/event-stream"

// arrived reads on in an answer as far as it tells what it asks for. For an unpaid call it keeps all that for the client. late
// hears the answer to a paid call that comes behind other messages, and returns what the
// client gets in its place, nil for the answer itself; a nil late means that the call is unpaid.
func (c *mcpCarrier) arrived(resp *http.Response, p protocol.Protocol, late func(protocol.Answer) *problem) {
	c.said, c.waits, c.ids = toolcall.Answer{}, late != nil, nil // a redirect, a page and an empty body are no answers
	body, is := resp.Body.(*watched)
	if !is || resp.StatusCode != http.StatusOK && (late == nil || !succeeds(resp)) {
		return
	}
	source, most := body.ReadCloser, toolcall.MaxAnswer
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if late != nil {
		most, kind = maxToolAnswer, kindForClients(resp.Header)
		c.call.Loosen()
	}
	came := &taken{from: source, most: most + readAhead}
	plain := io.Reader(came)
	coding := codingsOf(resp.Header)
	if coding != "" {
		decoded, err := decoder(came, coding)
		if plain = decoded; err != nil || decoded == nil {
			c.waits = false
			body.ReadCloser = came.back(nil, source)
			return
		}
	}
	switch {
	case kind == "application/json":
		read, err := io.ReadAll(io.LimitReader(plain, int64(most)+1))
		if len(read) > most {
			c.waits = late != nil && !c.begins(read)
		} else if answer := c.answerIn(read, late != nil); err == nil && answer != nil {
			c.said, c.waits = c.call.Hear(answer), false
		}
		body.ReadCloser = came.back(err, source)
	case kind != eventStream:
	case late == nil:
		body.ReadCloser = came.back(c.untilAnswer(newEventReader(plain)), source)
	default:
		uncoded(resp, coding)
		if lastEventOf(resp) == nil { // its type is told in another way than those that follow it read
			resp.Header.Set("Content-Type", eventStream)
		}
		came.letGo()
		body.ReadCloser = rejoined{c.whileWorking(newEventReader(plain), late, p), source}
	}
}

func succeeds(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

// kindForClients returns the type of an answer as official clients find it: anywhere in the field.
func kindForClients(h http.Header) string {
	field := strings.ToLower(strings.Join(h.Values("Content-Type"), ","))
	for _, kind := range []string{eventStream, "application/json"} {
		if strings.Contains(field, kind) {
			return kind
		}
	}
	return ""
}

// codingsOf returns the content codings of an answer; "": it has none.
func codingsOf(h http.Header) string {
	codings := strings.ToLower(strings.Join(h.Values("Content-Encoding"), ","))
	if strings.Trim(strings.ReplaceAll(codings, "identity", ""), " ,") == "" {
		return ""
	}
	return codings
}

// uncoded takes the codings of a body that has none any more out of an answer.
func uncoded(resp *http.Response, coding string) {
	if coding != "" {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
}

// readAhead bounds what decoders read of a body beyond what they have returned, in bytes.
const readAhead = 64 << 10

// taken keeps what is read of a body, up to a bound: what comes of a compressed one may be nothing for ever.
type taken struct {
	from io.Reader
	most int // 0: nothing is kept any more
	raw  bytes.Buffer
}

// errFull ends the reading of a body of which too much is kept.
var errFull = errors.New("too much is read ahead of the client")

// Read implements io.Reader.
func (t *taken) Read(p []byte) (int, error) {
	if t.most == 0 {
		return t.from.Read(p)
	}
	room := t.most - t.raw.Len()
	if room <= 0 {
		return 0, errFull
	}
	n, err := t.from.Read(p[:min(len(p), room)])
	t.raw.Write(p[:n])
	return n, err
}

func (t *taken) letGo() { t.most, t.raw = 0, bytes.Buffer{} }

// back returns the body with what was read of it in front. err is what reading ended with.
func (t *taken) back(err error, source io.Closer) io.ReadCloser {
	rest := t.from
	if err != nil && t.raw.Len() < t.most {
		rest = failing{err}
	}
	return rejoined{io.MultiReader(&t.raw, rest), source}
}

// answerIn returns the answer to the call in a body of JSON; nil: there is none. Some clients take an answer out of a
// list, so terms in one must not reach them behind a payment. Nothing is paid for such terms.
func (c *mcpCarrier) answerIn(body []byte, paid bool) []byte {
	if c.call.Sort(body) == toolcall.Answers {
		return body
	}
	if paid && strictjson.Kind(body) == '[' && json.Valid(body) {
		for element := range strictjson.Elements(body) {
			if c.call.Sort(element) == toolcall.Answers {
				return element
			}
		}
	}
	return nil
}

// untilAnswer reads the events of an unpaid call up to the answer. It stops before that at a message which shows that
// the server is at work, and returns the error of a stream that has ended.
func (c *mcpCarrier) untilAnswer(from *eventReader) error {
	var first time.Time
	began := c.now()
	for left := toolcall.MaxAnswer; left > 0; {
		e, err := from.next(left)
		if err == errLongEvent { //nolint:errorlint // it is returned bare
			return nil
		}
		if err != nil {
			if err == io.EOF && c.call.Sort(e.data) == toolcall.Answers { //nolint:errorlint // bodies return it bare
				c.said = c.call.Hear(e.data)
			}
			return err
		}
		left -= len(e.raw)
		switch c.call.Sort(e.data) {
		case toolcall.Answers:
			c.said = c.call.Hear(e.data)
			return nil
		case toolcall.Requests: // it waits for its client
			return nil
		case toolcall.Other:
			switch now := c.now(); {
			case len(e.data) == 0:
				if now.Sub(began) > commentHold {
					return nil
				}
			case first.IsZero():
				first = now
			case now.Sub(first) > progressHold:
				return nil
			}
		}
	}
	return nil
}

// whileWorking reads the events of a paid call up to its first message, and returns the whole stream. The client has it
// sooner if comments say that the server is at work.
func (c *mcpCarrier) whileWorking(from *eventReader, late func(protocol.Answer) *problem, p protocol.Protocol) io.Reader {
	c.waits, c.ids = true, &eventIDs{}
	hears := func(e event) bool {
		c.ids.add(e.id)
		if e.cut && c.begins(e.data) {
			c.waits = false
			return true
		}
		if c.call.Sort(e.data) != toolcall.Answers {
			return false
		}
		c.said, c.waits = c.call.Hear(e.data), false
		return true
	}
	filter := &eventFilter{from: from, most: maxToolAnswer}
	filter.look = func(e event) []byte {
		if hears(e) {
			if told := late(c.heard(p)); told != nil {
				return c.event(*told)
			}
		}
		return e.raw
	}
	for began := c.now(); len(filter.held) < maxToolAnswer; {
		e, err := from.next(maxToolAnswer)
		if err == errLongEvent { //nolint:errorlint // it is returned bare
			hears(e)
			filter.cut(e)
			return filter
		}
		filter.held = append(filter.held, e.raw...)
		switch {
		case err != nil:
			if filter.err = err; err == io.EOF { //nolint:errorlint // bodies return it bare
				hears(e)
			}
			return filter
		case hears(e) || len(e.data) > 0 || c.now().Sub(began) > commentHold:
			return filter
		}
	}
	return filter
}

// begins reports whether a message that is too long to be read begins as the answer to the call. It passes as it is: a
// file that was paid for may be long.
func (c *mcpCarrier) begins(beginning []byte) bool {
	kind, failed := c.call.SortBeginning(beginning)
	if kind != toolcall.Answers {
		return false
	}
	c.said.Failed = failed
	return true
}

// event returns an event that tells of a problem, in the place of the server's answer.
func (c *mcpCarrier) event(p problem) []byte {
	return append(append([]byte("event: message\ndata: "), c.problem(p)...), "\n\n"...)
}

func (c *mcpCarrier) asks(resp *http.Response) bool {
	return c.httpCarrier.asks(resp) || c.said.Terms != nil
}

func (c *mcpCarrier) offers(req *http.Request, resp *http.Response) (x402.Challenge, bool, error) {
	if c.status = c.httpCarrier.asks(resp); c.status {
		return c.httpCarrier.offers(req, resp)
	}
	c.dialect = c.said.Dialect
	return c.protocols.Offers(nil, http.Header{}, c.said.Terms)
}

func (c *mcpCarrier) room(req *http.Request, p protocol.Protocol, payload x402.Payload) error {
	if c.status {
		return c.httpCarrier.room(req, p, payload)
	}
	return nil
}

func (c *mcpCarrier) identity(req *http.Request, asked string, body content) *pay.HTTPRequest {
	return &pay.HTTPRequest{Method: methodOf(req), URL: asked, Body: pay.HashOf("mcp", c.call.Content()), Plain: body.plain}
}

func (c *mcpCarrier) booked(u *url.URL) string { return c.call.Site(u) }

func (c *mcpCarrier) attach(out *http.Request, p protocol.Protocol, credential x402.Payload) {
	if c.status {
		c.httpCarrier.attach(out, p, credential)
		return
	}
	paid := c.call.Paid(c.dialect, credential)
	_ = out.Body.Close() // the kept one
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(paid)), int64(len(paid)), nil
	if out.Header.Get("Content-Length") != "" {
		out.Header.Set("Content-Length", strconv.Itoa(len(paid)))
	}
}

// heard returns what the newest answer says of the payment.
func (c *mcpCarrier) heard(p protocol.Protocol) (a protocol.Answer) {
	a.Failed, a.Speaks = c.said.Failed, c.said.Receipt != "" || c.said.Terms != nil
	if c.said.Receipt != "" {
		receipt, err := p.DecodeReceipt(c.said.Receipt)
		if a.Problem = err; err == nil {
			a.Receipt = &receipt
		}
	}
	if a.Found = c.said.Terms != nil; a.Found { // perhaps of another protocol
		a.Challenge, _, _ = p.Offers(nil, http.Header{}, c.said.Terms)
	}
	return a
}

func (c *mcpCarrier) answer(resp *http.Response, p protocol.Protocol) protocol.Answer {
	header := c.httpCarrier.answer(resp, p)
	if header.Speaks || !succeeds(resp) {
		header.Failed = c.said.Failed
		return header
	}
	return c.heard(p)
}

func (c *mcpCarrier) refusal(resp *http.Response, p protocol.Protocol, patience time.Duration) protocol.Answer {
	if c.httpCarrier.asks(resp) || c.said.Terms == nil {
		return c.httpCarrier.refusal(resp, p, patience)
	}
	return c.heard(p)
}

func (c *mcpCarrier) words(resp *http.Response, patience time.Duration) string {
	if resp == nil || !c.httpCarrier.asks(resp) {
		return "" // the terms have them
	}
	return c.httpCarrier.words(resp, patience)
}

func (c *mcpCarrier) explain(req *http.Request, resp *http.Response, why Explanation, _ time.Duration) {
	why.head(req, resp)
	c.tell(req, resp, c.refuses(why.Error, why.Reason, why))
}

func (c *mcpCarrier) lastEvent(resp *http.Response) *lastEvent {
	last := lastEventOf(resp)
	if last != nil {
		last.answers = func(data []byte) bool { return c.call.Sort(data) == toolcall.Answers }
	}
	return last
}

func (c *mcpCarrier) came() bool { return !c.waits }

func (c *mcpCarrier) own(req *http.Request, resp *http.Response, p problem) {
	c.tell(req, resp, c.problem(p))
}

func (c *mcpCarrier) withhold(req *http.Request, resp *http.Response, p problem, told string) {
	mark(req, resp.Header, p.Reason, told, told)
	neverStored(resp.Header)
	c.tell(req, resp, c.problem(p))
}

// tell gives the client an answer to its call in the place of the seller's.
func (c *mcpCarrier) tell(req *http.Request, resp *http.Response, answer []byte) {
	_ = resp.Body.Close()
	c.protocols.Withhold(resp.Header)
	resp.Header.Del("WWW-Authenticate")
	resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	setBody(req, resp, json.RawMessage(answer))
}

// problem makes an answer to the call that tells of a problem, and what to do about it.
func (c *mcpCarrier) problem(p problem) []byte {
	p.Do = declines.Do(p.Reason)
	return c.refuses(p.Error, p.Reason, p)
}

// refuses makes an answer to the call with words for the model, and details for its program.
func (c *mcpCarrier) refuses(words, reason string, details any) []byte {
	if do := declines.Do(reason).String(); do != "" {
		words += ". " + do
	}
	told, err := plainjson.Marshal(details)
	if err != nil { // strings, times and JSON that was read
		panic(fmt.Sprintf("proxy: encoding an answer: %v", err))
	}
	return c.call.Refusal(c.version, words, told)
}
