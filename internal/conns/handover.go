package conns

import (
	"bytes"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A server that is shut down closes the connections that are idle, and drops the requests that
// it is just reading: whoever sends one at that moment gets no answer. When another server has
// taken over the address, there is no need for that. Before the shutdown, each connection with
// no request under way is given to the other server, with what has come on it, and the others
// follow when their request is answered. Their clients notice nothing.
//
// That is possible as long as nothing of the next request has been acted on. net/http says when
// a connection becomes idle, and when it has read a whole header. In between, what it has read
// is known here and can be read again by the other server.

// patience is how long Retire waits, by default, for requests that have just come to get to
// their handler. Until then a shutdown would drop them.
const patience = 200 * time.Millisecond

// Retire gives the connections to other servers at their addresses. It is called before the
// set's server is shut down, once the other one serves; a server without another one at its
// address keeps its connections.
func (s *Set) Retire() {
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		l.retired.Store(true)
	}
	for deadline := time.Now().Add(s.patience); ; time.Sleep(100 * time.Microsecond) {
		between := false
		for _, t := range s.connections() {
			between = t.offer() || between
		}
		if !between || time.Now().After(deadline) {
			return
		}
	}
}

// connections are all that the set has.
func (s *Set) connections() []*tracked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}

// maxTaken bounds what is remembered of a request that is being read.
const maxTaken = 128 << 10

// passing is what has to be known of a connection to hand it over.
type passing struct {
	mu      sync.Mutex
	quiet   bool      // no request is under way, as net/http has it
	active  time.Time // when the last request's header was there
	begun   bool      // its handler is at work
	reading bool      // somebody waits in Read
	read    bool      // something was read since it is quiet
	taken   []byte    // what was read of the next request
	// mixed: more than the request came before its answer, of which only net/http knows how
	// much it has. Such a connection is not handed over.
	mixed bool
	// spoiled: it failed or was answered while it was quiet, so that net/http gives it up.
	spoiled bool
	// asked: it is to be handed over with the next read, unless a request begins before.
	asked bool
	// spared: it was to be closed while a header was being read, and was not.
	spared bool
	// closing: it was to be closed while a request was under way. That is its end, unless it
	// is idle in truth, which net/http knows a moment before it says so.
	closing bool
	// gone: it belongs to another server. Whoever had it is to believe that it is closed.
	gone bool
	to   *listener
}

// errPassed is what the old server gets; it takes it for a connection that broke.
func errPassed(op string) error { return &net.OpError{Op: op, Net: "tcp", Err: net.ErrClosed} }

// moved notes what net/http says of the connection. Only one that it has as it came from here
// can be handed over; one with TLS on top cannot.
//
// It reports whether the connection is to be closed now, and whether a request has come on it too
// late: when the server is about to be shut down.
func (t *tracked) moved(c net.Conn, state http.ConnState) (over, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, secured := c.(interface{ ConnectionState() tls.ConnectionState })
	switch {
	case secured || state == http.StateHijacked:
		t.quiet, t.mixed = false, true
	case state == http.StateNew, state == http.StateIdle:
		t.quiet, t.read, t.spoiled, t.spared, t.closing = true, false, false, false, false
		t.asked = t.from.retired.Load()
	case state == http.StateActive:
		late = t.from.retired.Load()
		t.quiet, t.asked, t.begun, t.active = false, false, late, time.Now()
		if !late {
			t.taken = nil
		}
	}
	return t.closing && state == http.StateClosed && !t.gone, late
}

// tooLate hands over a connection on which a request has come after Retire. net/http tells that
// its header is there before it does anything with it; that it must not is said by a panic, which
// ends its goroutine for this connection as it ends a handler.
func (t *tracked) tooLate() {
	if t.from.heir() == nil {
		return
	}
	t.mu.Lock()
	if !t.gone && !t.mixed {
		t.bequeath()
	}
	gone := t.gone
	t.mu.Unlock()
	if gone {
		t.forget()
		panic(http.ErrAbortHandler)
	}
}

// Read reads for the server that has the connection.
func (t *tracked) Read(p []byte) (int, error) {
	t.mu.Lock()
	if t.asked && t.quiet && !t.mixed && !t.spoiled && !t.gone {
		t.bequeath()
	}
	if t.gone {
		t.mu.Unlock()
		t.forget()
		return 0, errPassed("read")
	}
	t.reading, t.begun = true, true
	// While a request is under way, one byte is read to notice that the client leaves.
	watching := len(p) == 1
	t.mu.Unlock()

	n, err := t.Ahead.Read(p)

	if gone := t.noted(p[:n], err, watching); gone {
		t.forget()
		return 0, errPassed("read")
	}
	return n, err
}

// noted takes down what was read. It reports whether that was for another server.
func (t *tracked) noted(p []byte, err error, watching bool) (gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
	if len(p) > 0 && (t.quiet || watching || t.gone) && (!t.mixed || t.gone) {
		t.read = t.read || t.quiet
		switch t.taken = append(t.taken, p...); {
		case len(t.taken) > maxTaken:
			t.mixed = true
		case bytes.HasPrefix(t.taken, []byte("PRI * HTTP/2.0\r\n")): // RFC 9113, section 3.4
			t.mixed = true
			t.Release() // a read of one byte is of a frame that came in pieces
		}
	}
	if t.gone {
		t.deliver()
	} else if err != nil && t.quiet {
		t.spoiled = true
	}
	return t.gone
}

// Write writes for the server that has the connection.
func (t *tracked) Write(p []byte) (int, error) {
	t.mu.Lock()
	switch {
	case t.gone:
		t.mu.Unlock()
		return 0, errPassed("write")
	case t.quiet: // a header that is none gets an answer
		t.spoiled = true
	case len(t.taken) > 0:
		t.taken, t.mixed = nil, true
	}
	t.begun = true
	t.mu.Unlock()
	return t.Ahead.Write(p)
}

// handOver gives the connection to the listener that goes on, if there is one and it can be. It
// reports whether there is nothing to close, or not yet.
func (t *tracked) handOver() bool {
	t.mu.Lock()
	switch {
	case t.gone:
	case t.mixed || t.quiet && t.spoiled || t.closing || t.from.heir() == nil:
		t.mu.Unlock()
		return false
	case !t.quiet:
		t.closing = true
		t.mu.Unlock()
		return true
	case t.read && !t.reading: // it has begun with the next request
		again := t.spared
		t.spared = true
		t.mu.Unlock()
		return !again
	default:
		t.bequeath()
	}
	gone := t.gone
	t.mu.Unlock()
	if gone {
		t.forget()
	}
	return gone
}

// offer hands the connection over if nothing is under way. It reports whether that is not known
// yet, because a header is just being read.
func (t *tracked) offer() (between bool) {
	if t.from.heir() == nil {
		return false
	}
	t.mu.Lock()
	switch {
	case t.gone || t.mixed || t.quiet && t.spoiled:
	case !t.quiet:
		between = !t.begun && time.Since(t.active) < t.set.patience
	case t.reading:
		t.bequeath()
	default:
		t.asked, between = true, true // it reads again, or acts on what it has
	}
	gone := t.gone
	t.mu.Unlock()
	if gone {
		t.forget()
	}
	return between
}

// bequeath gives the connection away, or has its reader do that. It is called with mu held.
func (t *tracked) bequeath() {
	if t.to = t.from.heir(); t.to == nil {
		return
	}
	t.gone = true
	if t.reading {
		_ = t.Ahead.SetReadDeadline(time.Unix(1, 0)) // it stops, and goes on in deliver
		return
	}
	t.deliver()
}

// deliver is called with mu held, when nobody reads.
func (t *tracked) deliver() {
	next := NewAhead(t.Conn)
	// Line breaks behind a request belong to none.
	next.kept = bytes.TrimLeft(slices.Concat(t.taken, t.kept), "\r\n")
	t.taken, t.kept = nil, nil
	_ = next.Conn.SetDeadline(time.Time{}) // the old server's
	t.to.take(next)
}

// forget gives the place of a connection back that is somebody else's now.
func (t *tracked) forget() {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.set.remove(t)
}

// deadline sets a deadline for the server that has the connection.
func (t *tracked) deadline(set func(time.Time) error, at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	return set(at)
}

// SetDeadline implements net.Conn.
func (t *tracked) SetDeadline(at time.Time) error { return t.deadline(t.Ahead.SetDeadline, at) }

// SetReadDeadline implements net.Conn.
func (t *tracked) SetReadDeadline(at time.Time) error { return t.deadline(t.Ahead.SetReadDeadline, at) }

// SetWriteDeadline implements net.Conn.
func (t *tracked) SetWriteDeadline(at time.Time) error {
	return t.deadline(t.Ahead.SetWriteDeadline, at)
}

// CloseWrite ends one direction, if the connection can do that.
func (t *tracked) CloseWrite() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	return t.Ahead.CloseWrite()
}
