package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/pay"
)

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
	stop    func() // ends the way to the seller

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
	events := lastEventOf(resp)
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
	if t.bound == nil {
		t.bound = time.AfterFunc(readOnTime, t.stop)
	}
	t.mu.Unlock()
	if at == tailWritten {
		t.call.deliver()
	}
	return true
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
