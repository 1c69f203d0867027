package conns

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// rephrased is a connection whose next answer can be given other words.
type rephrased interface {
	rephrase(status int, words string)
}

// In is the function In.
func (s *Set) In(ctx context.Context, c net.Conn) context.Context { return In(ctx, c) }

// Rephrase has the next answer on a request's connection name its status in other words, if it has that
// status: HTTP/1 sends words beside the number, which many programs show their users and nothing else.
// net/http has fixed words. Call it before the answer is begun. The words are printable ASCII.
func Rephrase(ctx context.Context, status int, words string) {
	if c := clientOf(ctx); c != nil && c.words != nil {
		c.words.rephrase(status, words)
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
