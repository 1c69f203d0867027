package forward

import (
	"bytes"
	"net"
	"time"

	"github.com/purserpay/purser/internal/conns"
)

// peekedConn is a connection of which something has been read already. That is read again
// before anything else.
type peekedConn struct {
	net.Conn
	early []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *peekedConn) CloseWrite() error { return conns.CloseWrite(c.Conn) }

// more reads what comes next, without taking it from later readers.
func (c *peekedConn) more() error {
	buf := make([]byte, 1<<10)
	n, err := c.Conn.Read(buf)
	c.early = append(c.early, buf[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// sniff reads until it is clear what is spoken, or fails with the connection's error.
// Its reading ends at the deadline; the zero time leaves the one that is set.
func (c *peekedConn) sniff(deadline time.Time) error {
	if !deadline.IsZero() {
		_ = c.SetReadDeadline(deadline)
	}
	for c.protocol() == protocolUnclear {
		if err := c.more(); err != nil {
			return err
		}
	}
	return nil
}

// protocol names what a client speaks in its tunnel.
type protocol int

const (
	protocolUnclear protocol = iota // more bytes will tell
	protocolOther
	protocolTLS
	protocolHTTP // HTTP/1 without TLS: some clients ask for a tunnel for http URLs as well
)

// opened reports whether purser looks into the protocol.
func (p protocol) opened() bool { return p == protocolTLS || p == protocolHTTP }

// protocol names what the bytes that have come begin with.
func (c *peekedConn) protocol() protocol { return detect(c.early) }

// maxRequestLine bounds the first line of what may be HTTP; 8,000 bytes is what RFC 9112,
// section 3, asks for.
const maxRequestLine = 16 << 10

// detect recognizes a ClientHello: a handshake record (22) of version 3.x, whose first message is of
// type 1 (RFC 8446, sections 4 and 5.1). And it recognizes an HTTP/1 request line for a path, as
// clients write it: upper-case method, path, version.
func detect(b []byte) protocol {
	if len(b) == 0 {
		return protocolUnclear
	}
	if b[0] == 22 {
		switch {
		case len(b) > 1 && b[1] != 3, len(b) > 5 && b[5] != 1:
			return protocolOther
		case len(b) > 5:
			return protocolTLS
		}
		return protocolUnclear
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	rest := bytes.TrimLeft(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	switch n := len(line) - len(rest); {
	case n > 20, len(rest) > 0 && (n < 3 || rest[0] != ' '), len(rest) > 1 && rest[1] != '/', !ended && len(b) > maxRequestLine:
		return protocolOther
	case !ended:
		return protocolUnclear
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.HasSuffix(line, []byte(" HTTP/1.0")) {
		return protocolHTTP
	}
	return protocolOther
}
