package conns

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// Settling returns a writer whose connection, once a handler has taken it over, is at rest when settle returns. The
// handler has closed it by then. Without this, a copy or a server of HTTP/2 that goes on behind the handler's back would
// use the connection while a server that counts its bytes writes them into a log.
func Settling(w http.ResponseWriter) (settled http.ResponseWriter, settle func()) {
	s := &settling{ResponseWriter: w}
	return s, func() {
		if s.conn != nil {
			s.conn.settle()
		}
	}
}

type settling struct {
	http.ResponseWriter
	conn *settlingConn // nil until it is taken over
}

// Unwrap is for http.ResponseController.
func (s *settling) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Hijack implements http.Hijacker.
func (s *settling) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s.conn = &settlingConn{Conn: conn}
	s.conn.changed = sync.NewCond(&s.conn.mu)
	return s.conn, buffered, nil
}

type settlingConn struct {
	net.Conn
	mu      sync.Mutex
	changed *sync.Cond
	at      int // reads and writes under way
	closed  bool
}

func (c *settlingConn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.at++
	return true
}

func (c *settlingConn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at--
	c.changed.Broadcast()
}

func (c *settlingConn) Read(p []byte) (int, error) {
	if !c.begin() {
		return 0, net.ErrClosed
	}
	defer c.end()
	return c.Conn.Read(p)
}

func (c *settlingConn) Write(p []byte) (int, error) {
	if !c.begin() {
		return 0, net.ErrClosed
	}
	defer c.end()
	return c.Conn.Write(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *settlingConn) CloseWrite() error { return CloseWrite(c.Conn) }

func (c *settlingConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *settlingConn) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at > 0 {
		c.changed.Wait()
	}
}
