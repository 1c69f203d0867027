package forward

import (
	"bytes"
	"errors"
	"net"
	"time"
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
func (c *peekedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

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
	for {
		if _, clear := detect(c.early); clear {
			return nil
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// protocol names what a client speaks in its tunnel.
type protocol int

const (
	protocolOther protocol = iota
	protocolTLS
	protocolHTTP // HTTP/1 without TLS: some clients ask for a tunnel for http URLs as well
)

// protocol returns what sniff has found; protocolOther if it found nothing.
func (c *peekedConn) protocol() protocol {
	l, clear := detect(c.early)
	if !clear {
		return protocolOther
	}
	return l
}

// detect names the protocol that bytes begin with. clear says that more bytes would not change it.
func detect(b []byte) (l protocol, clear bool) {
	if tls, clear := startsTLS(b); tls {
		return protocolTLS, clear
	}
	http, clear := startsHTTP(b)
	if http {
		return protocolHTTP, clear
	}
	return protocolOther, clear
}

// maxRequestLine bounds the first line of what may be HTTP; 8,000 bytes is what RFC 9112,
// section 3, asks for.
const maxRequestLine = 16 << 10

// startsHTTP reports whether bytes begin with an HTTP/1 request line for a path, as clients
// write it: upper-case method, path, version. A yes that is not clear means that they may.
func startsHTTP(b []byte) (yes, clear bool) {
	line, _, ended := bytes.Cut(b, []byte("\n"))
	method := bytes.TrimLeft(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	switch rest, n := method, len(line)-len(method); {
	case n > 20, len(rest) > 0 && (n < 3 || rest[0] != ' '), len(rest) > 1 && rest[1] != '/':
		return false, true
	}
	if !ended {
		return len(b) <= maxRequestLine, len(b) > maxRequestLine
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	return bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.HasSuffix(line, []byte(" HTTP/1.0")), true
}

// startsTLS reports whether bytes begin with a ClientHello: a handshake record (22) of
// version 3.x, whose first message is of type 1 (RFC 8446, sections 4 and 5.1). clear says
// that more bytes would not change that.
func startsTLS(b []byte) (yes, clear bool) {
	switch {
	case len(b) > 0 && b[0] != 22, len(b) > 1 && b[1] != 3, len(b) > 5 && b[5] != 1:
		return false, true
	}
	return true, len(b) > 5
}
