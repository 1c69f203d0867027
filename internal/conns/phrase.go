package conns

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
)

type connKey struct{}

// rephrased is a connection whose next answer can be given other words.
type rephrased interface {
	rephrase(status int, words string)
}

// In keeps a connection that is read ahead in the context of its requests, for [Rephrase]. It is for
// http.Server.ConnContext.
func In(ctx context.Context, c net.Conn) context.Context {
	if own, is := c.(rephrased); is {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// In is the same for the connections of a set. c may be another connection around the set's.
func (s *Set) In(ctx context.Context, c net.Conn) context.Context {
	if _, own := c.(rephrased); own {
		return In(ctx, c)
	}
	return context.WithValue(ctx, connKey{}, wrapped{s, c})
}

// wrapped is a connection around one of a set. Which one, it tells when it is needed: with the PROXY
// protocol its address comes with the first bytes, and the server's next connection must not wait for them.
type wrapped struct {
	set  *Set
	conn net.Conn
}

func (w wrapped) rephrase(status int, words string) {
	id := identify(w.conn)
	w.set.mu.Lock()
	t := w.set.all[id]
	w.set.mu.Unlock()
	if t != nil {
		t.rephrase(status, words)
	}
}

// Rephrase has the next answer on a request's connection name its status in other words, if it has that
// status: HTTP/1 sends words beside the number, which many programs show their users and nothing else.
// net/http has fixed words. Call it before the answer is begun. The words are printable ASCII.
func Rephrase(ctx context.Context, status int, words string) {
	if c, is := ctx.Value(connKey{}).(rephrased); is {
		c.rephrase(status, words)
	}
}

// phrase holds the end of a status line behind the version, as net/http writes it, and what replaces it.
type phrase struct{ plain, instead []byte }

func (c *Ahead) rephrase(status int, words string) {
	if c.plain.Load() { // HTTP/2 has no words, and a write there can begin with a seller's text
		return
	}
	code := strconv.Itoa(status)
	c.next.Store(&phrase{[]byte(" " + code + " " + http.StatusText(status) + "\r\n"), []byte(" " + code + " " + words + "\r\n")})
}

// versionLength is that of "HTTP/1.1".
const versionLength = 8

// Write implements net.Conn. net/http flushes each answer, so a status line begins a write: the bytes of
// a body cannot be taken for one.
func (c *Ahead) Write(p []byte) (int, error) {
	if c.next.Load() == nil {
		return c.Conn.Write(p)
	}
	next := c.next.Swap(nil)
	if next == nil || len(p) < versionLength || !bytes.HasPrefix(p[versionLength:], next.plain) {
		return c.Conn.Write(p)
	}
	more := len(next.instead) - len(next.plain)
	n, err := c.Conn.Write(slices.Concat(p[:versionLength], next.instead, p[versionLength+len(next.plain):]))
	return min(max(0, n-more), len(p)), err
}
