package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// guarded takes Purser-* headers and trailers out of a response, because only purser may write them, and
// Alt-Svc, which would lead the client past purser. It refuses a status that no server can write.
func guarded(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode < 100 || resp.StatusCode > 999 {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("upstream answered with status %d", resp.StatusCode)
	}
	strip(resp.Header)
	strip(resp.Trailer) // as announced; what comes is looked at in the end
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		return resp, nil
	}
	resp.Body = &watched{ReadCloser: resp.Body, resp: resp}
	return resp, nil
}

// strip takes out what no answer may tell the client.
func strip(h http.Header) {
	StripOwn(h)
	h.Del("Alt-Svc")
}

// watched is a response body that tells how it ended.
type watched struct {
	io.ReadCloser
	resp    *http.Response
	onClose func()
	ended   func(error) // hears how the body ended; may be nil
	over    func(complete bool)
	once    sync.Once    // over was called
	piece   func([]byte) // sees what is read before the reader does; may be nil
	tail    *tail        // nil: the answer has no end but that of the body
	last    func()       // hears that the last of the body was read; may be nil
	left    int64        // bytes of a body whose length is known
	err     error        // which the body ended with, or is about to
	done    atomic.Bool  // err is set; a timer may close a body that is being read
	some    atomic.Bool  // a byte was read
}

func (b *watched) Read(p []byte) (int, error) {
	if b.tail.written() && b.ended != nil {
		b.ended(io.EOF)
		b.ended = nil
	}
	n, err := 0, b.err
	if err == nil {
		n, err = b.ReadCloser.Read(p)
		b.err = err
		b.done.Store(err != nil)
		if n > 0 {
			b.some.Store(true)
		}
	}
	failpoint.Here(failpoint.ProxyPiece)
	if b.piece != nil {
		b.piece(p[:n])
	}
	if b.tail.read(p[:n]) { // the next Read says that they were written
		err = nil
	}
	if b.left -= int64(n); b.last != nil && (err == io.EOF || b.left == 0) {
		b.last()
		b.last = nil
	}
	if err == io.EOF { // bodies return it bare; trailers are there from now on
		strip(b.resp.Trailer)
	}
	if ended := b.ended; err != nil && ended != nil {
		b.ended = nil
		ended(err)
	}
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

func (b *watched) end(complete bool) {
	if b.over != nil {
		b.once.Do(func() { b.over(complete) })
	}
}

func (b *watched) Close() error {
	if !b.done.Load() && b.tail.closing() {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxReadOn)
	}
	err := b.ReadCloser.Close()
	b.end(false)
	if b.onClose != nil {
		b.onClose()
	}
	return err
}

// onClose calls f once the response's body is closed.
func onClose(resp *http.Response, f func()) {
	switch body := resp.Body.(type) {
	case *watched:
		body.onClose = f
	case io.ReadWriteCloser: // a connection that has switched protocols must stay one
		resp.Body = switched{&watched{ReadCloser: body, resp: resp, onClose: f}, body}
	default:
		resp.Body = &watched{ReadCloser: body, resp: resp, onClose: f}
	}
}

// onEnd calls f once the response's body was read to its end, or else closed. Without one it calls f at once.
func onEnd(resp *http.Response, f func(complete bool)) {
	if body, ok := resp.Body.(*watched); ok {
		body.over = f
		return
	}
	f(true)
}

// switched is a connection that speaks another protocol now.
type switched struct {
	*watched
	io.Writer
}

const (
	// readOnTime bounds how long an answer is read on behind its own end, once the client has left. A seller may
	// settle when its side of the answer has ended.
	readOnTime = 30 * time.Second
	// maxReadOn bounds what is read then.
	maxReadOn = 1 << 20
	// tailHold bounds how long what follows an answer's own end waits for the client to acknowledge that.
	tailHold = 100 * time.Millisecond
)

var errReadOn = errors.New("the answer went on for too long behind its own end")

// tail follows an answer to a payment that may have an end of its own (docs/design/calls.md, repeats without a key).
// Clients leave there, long before the connection ends. The answer is delivered once that end has been written, and
// the client has acknowledged it.
type tail struct {
	call    *Call
	client  context.Context
	attempt *pay.Attempt
	events  *lastEvent
	stop    func() // ends the way to the seller; nil: it is not read on behind the end

	mu     sync.Mutex
	at     tailPlace
	length int          // of the piece with the end
	gone   bool         // the client has left behind the end
	watch  *conns.Watch // from the end on; nil: there is none, or it was taken
	bound  *time.Timer  // of reading on
}

// tailPlace says how far an answer has come.
type tailPlace int

const (
	tailAhead   tailPlace = iota // its own end has not come
	tailHanded                   // the door has it, and may be writing it
	tailWritten                  // it was written
	tailClosed                   // no end counts any more
)

// follow makes the tail of an answer to a payment; nil: the answer has no end of its own.
func follow(client context.Context, resp *http.Response, a *pay.Attempt, stop func()) *tail {
	body, is := resp.Body.(*watched)
	call := callOf(client)
	if !is || call == nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil
	}
	events := call.carrier.lastEvent(resp)
	if events == nil {
		return nil
	}
	body.tail = &tail{call: call, client: client, attempt: a, events: events, stop: stop}
	return body.tail
}

// read takes a piece of the answer that the door is about to write. It reports whether the answer's own end is in it.
func (t *tail) read(piece []byte) bool {
	if t == nil || len(piece) == 0 {
		return false
	}
	over := t.events.over
	ends := t.events.sees(piece)
	t.mu.Lock()
	if !over && t.events.over && t.at == tailWritten && !t.call.closes { // an end that might have been taken back was written
		t.mu.Unlock()
		t.call.deliver()
		return false
	}
	defer t.mu.Unlock()
	switch {
	case t.at == tailClosed || t.gone:
	case ends && t.at == tailAhead:
		if t.client.Err() != nil {
			t.at = tailClosed
			return false
		}
		t.at, t.length = tailHanded, len(piece)
		t.watch = conns.NewWatch(t.call.caller, false)
		t.attempt.Ending(true)
		return true
	case !ends && t.at != tailAhead:
		t.at = tailAhead
		t.drop()
		t.attempt.Ending(false)
	}
	return false
}

// written notes that the door has written what it has read. It reports whether the answer's own end was in that.
func (t *tail) written() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	if t.at != tailHanded {
		t.mu.Unlock()
		return false
	}
	t.at = tailWritten
	t.watch.Mark(t.length)
	t.watch.Hold(tailHold)
	// The watch ends the connection of a client that does not do so as it has announced.
	deliver := t.gone || t.events.over && !t.call.closes
	t.mu.Unlock()
	if deliver {
		t.call.deliver()
	}
	return true
}

// left notes that the client has left. It reports whether the answer is read on all the same, for a while: its own
// end was written, or the door is about to write it.
func (t *tail) left() bool { return t.leave(tailHanded) }

// closing notes that the door gives the answer up, and reports what left does. The door could not write a piece that
// it has not written by now.
func (t *tail) closing() bool { return t.leave(tailWritten) }

func (t *tail) leave(needed tailPlace) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	at := t.at
	if at < needed || at == tailClosed {
		t.at = tailClosed
		t.mu.Unlock()
		return false
	}
	t.gone = true
	if t.bound == nil && t.stop != nil {
		t.bound = time.AfterFunc(readOnTime, t.stop)
	}
	t.mu.Unlock()
	if at == tailWritten {
		t.call.deliver()
	}
	return t.stop != nil
}

// delivered reports whether the answer's own end was written.
func (t *tail) delivered() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at == tailWritten
}

// take returns the watch of the answer's own end; nil: none. The caller ends it.
func (t *tail) take() *conns.Watch {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != tailWritten {
		return nil
	}
	w := t.watch
	t.watch = nil
	return w
}

// close notes that no end counts any more that was not written.
func (t *tail) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != tailWritten {
		t.at = tailClosed
		t.drop()
	}
	if t.bound != nil {
		t.bound.Stop()
	}
}

// finish is close for a call that has ended.
func (t *tail) finish() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = tailClosed
	t.drop()
}

func (t *tail) drop() {
	t.watch.Drop()
	t.watch = nil
}

// deliver ends the attempt of a client that has left behind its answer's own end.
func (c *Call) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memo; m != nil && !m.ended && !c.finished {
		m.attempt.Deliver(true, c.acknowledged)
	}
}

// maxAnnounced bounds what a client can announce as the time that it waits for an answer.
const maxAnnounced = 24 * time.Hour

// announced returns the time that a client says it waits for an answer, 0 if it says nothing: SDKs of OpenAI
// and Anthropic do in seconds, and so does Prefer (RFC 7240).
func announced(h http.Header) (longest time.Duration) {
	values := append(h.Values("X-Stainless-Timeout"), h.Values("X-Stainless-Read-Timeout")...)
	for preference := range strings.FieldsFuncSeq(strings.Join(h.Values("Prefer"), ","), func(r rune) bool { return r == ',' || r == ';' }) {
		if name, seconds, is := strings.Cut(preference, "="); is && strings.EqualFold(strings.TrimSpace(name), "wait") {
			values = append(values, strings.Trim(strings.TrimSpace(seconds), `"`))
		}
	}
	for _, value := range values {
		if seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && seconds > 0 {
			longest = max(longest, time.Duration(min(seconds, maxAnnounced.Seconds())*float64(time.Second)))
		}
	}
	return longest
}

// tooSlowError ends a request whose upstream takes too long to answer.
type tooSlowError struct{ bound time.Duration }

func (e tooSlowError) Error() string { return "no answer within " + e.bound.String() }
func (tooSlowError) Timeout() bool   { return true }

// answerTime bounds the time from the end of a request that is not paid for to the header of its answer.
type answerTime struct {
	ctx      context.Context // of the send
	bound    time.Duration
	timer    *time.Timer // nil: there is no bound
	answered atomic.Bool
}

// answerTime begins the time of a request. A reverse proxy has bounds of its own, which are the operator's.
func (t *Transport) answerTime(req *http.Request) *answerTime {
	a := &answerTime{ctx: req.Context(), bound: max(t.payer.SendTimeout(), announced(req.Header))}
	if t.door == policy.DoorProxy {
		ctx, stop := context.WithCancelCause(a.ctx) // once there is an answer, the client's context ends it
		a.ctx, a.timer = ctx, time.AfterFunc(math.MaxInt64, func() {
			if !a.answered.Load() {
				stop(tooSlowError{a.bound})
			}
		})
	}
	return a
}

// written is called when the request has been written.
func (a *answerTime) written(httptrace.WroteRequestInfo) {
	if a.timer != nil && !a.answered.Load() { // an answer may come before the end of its request
		a.timer.Reset(a.bound)
	}
}

// over ends the time, and returns the error of the send.
func (a *answerTime) over(err error) error {
	if a.timer == nil {
		return err
	}
	a.answered.Store(true)
	a.timer.Stop()
	if slow, is := errors.AsType[tooSlowError](context.Cause(a.ctx)); is && err != nil {
		return slow
	}
	return err
}
