// Package conns looks after clients' connections below net/http: it goes on reading while a
// request is served, so that a client that leaves is noticed whatever it sent before, and it
// bounds how many connections there are.
package conns

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// maxAhead bounds what is kept of what a client sends behind the request that is served. A
// client that sends more is not seen leaving until its request is answered.
const maxAhead = 64 << 10

// Ahead is a connection for an http.Server that speaks HTTP/1 and has a ReadHeaderTimeout.
//
// While a handler runs, net/http reads one byte, to notice that the client leaves, and stops
// with the first byte that comes: a line break behind the request, or the beginning of the
// next one. From then on the client could leave unseen, and its repeat would be taken for a
// second purchase. So what comes is kept here, and the read goes on until net/http breaks it
// off or the client is gone.
//
// That read is known by its size and by having no deadline: headers have one, and bodies are
// read through a larger buffer. HTTP/2 is not read ahead: there, a read of one byte is the end of
// a frame that came in pieces.
type Ahead struct {
	net.Conn
	kept    []byte                 // read, and not yet taken; of one reader at a time
	preface int                    // bytes of the preface of HTTP/2 that have come; -1: it is another protocol
	timed   atomic.Bool            // reads have a deadline
	plain   atomic.Bool            // the connection is not HTTP/1, or not net/http's, any more
	next    atomic.Pointer[phrase] // of the next answer; nil: net/http's own
}

// http2Preface begins every connection that speaks HTTP/2 (RFC 9113, section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n"

// NewAhead makes a connection that is read ahead.
func NewAhead(c net.Conn) *Ahead { return &Ahead{Conn: c} }

// Release ends the reading ahead. It is for a connection that a handler has taken over.
func (c *Ahead) Release() { c.plain.Store(true) }

// SetDeadline implements net.Conn.
func (c *Ahead) SetDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Ahead) SetReadDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *Ahead) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite ends one direction of a connection, if it can be ended alone.
func CloseWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (c *Ahead) Read(p []byte) (int, error) {
	if len(c.kept) > 0 && !c.watching(p) {
		return c.take(p), nil
	}
	if len(c.kept) == 0 {
		n, err := c.Conn.Read(p)
		c.recognize(p[:n])
		// Asked only now: a body's deadline is lifted a moment after the watch behind it has begun.
		if err != nil || n == 0 || !c.watching(p) {
			return n, err
		}
		c.kept = append(c.kept, p[0])
	}
	return c.watch(p)
}

// recognize looks for the preface of HTTP/2 in what comes first.
func (c *Ahead) recognize(p []byte) {
	for _, b := range p {
		switch {
		case c.preface < 0 || c.preface == len(http2Preface):
			return
		case b != http2Preface[c.preface]:
			c.preface = -1
			return
		}
		if c.preface++; c.preface == len(http2Preface) {
			c.Release()
		}
	}
}

// watching reports whether a read is the one that notices that the client leaves.
func (c *Ahead) watching(p []byte) bool { return len(p) == 1 && !c.timed.Load() && !c.plain.Load() }

// watch reads on until it is broken off, with a deadline in the past, or the client is gone.
func (c *Ahead) watch(p []byte) (int, error) {
	buf := make([]byte, 4<<10)
	for len(c.kept) < maxAhead {
		n, err := c.Conn.Read(buf)
		c.kept = append(c.kept, buf[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.take(p), nil
		default:
			return 0, err
		}
	}
	return c.take(p), nil
}

func (c *Ahead) take(p []byte) int {
	n := copy(p, c.kept)
	if c.kept = c.kept[n:]; len(c.kept) == 0 {
		c.kept = nil
	}
	return n
}
