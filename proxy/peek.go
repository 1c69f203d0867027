package proxy

import (
	"errors"
	"net"
	"time"
)

// peeked is a connection of which something has been read already. That is read again
// before anything else.
type peeked struct {
	net.Conn
	early []byte
}

func (c *peeked) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *peeked) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// more reads what comes next, without taking it from later readers.
func (c *peeked) more() error {
	buf := make([]byte, 1<<10)
	n, err := c.Conn.Read(buf)
	c.early = append(c.early, buf[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// look reads until it is clear whether TLS is spoken, or fails with the connection's error.
// Its reading ends at the deadline; the zero time leaves the one that is set.
func (c *peeked) look(deadline time.Time) error {
	if !deadline.IsZero() {
		_ = c.SetReadDeadline(deadline)
	}
	for {
		if _, clear := startsTLS(c.early); clear {
			return nil
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// speaksTLS is what look has found.
func (c *peeked) speaksTLS() bool {
	yes, clear := startsTLS(c.early)
	return yes && clear
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
