package conns

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// The watch behind a body begins when the body ends, and the body's deadline is lifted only then: it is a watch all the
// same.
func TestWatchBeginsWithTheBodysDeadline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client := dial(t, l.Addr().String())
	inner, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	reading := &reads{Conn: inner, begun: make(chan struct{}, 10)}
	c := NewAhead(reading)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	<-reading.begun
	_ = c.SetReadDeadline(time.Time{})
	send(t, client, "\r\n")
	select {
	case err := <-done:
		t.Fatalf("a line break ends the watch: %v", err)
	case <-reading.begun: // it goes on
	}
	_ = client.Close()
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Errorf("the client has left: %v", err)
	}
}

// reads is a connection that tells when it is read.
type reads struct {
	net.Conn
	begun chan struct{}
}

func (r *reads) Read(p []byte) (int, error) {
	r.begun <- struct{}{}
	return r.Conn.Read(p)
}

// Asking a connection that came through another wrapper for its address may wait for the client, as with the PROXY
// protocol. Others do not wait for that.
func TestAddressThatTakesLong(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet(Limits{})
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		ReadHeaderTimeout: time.Minute, ConnState: s.State,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(s.Listen(headed{l}))
	}()
	defer func() { _, _ = server.Close(), <-done }()
	for range 20 {
		dial(t, l.Addr().String()) // and says nothing
	}
	c := dial(t, l.Addr().String())
	send(t, c, "h"+get)
	if got := answered(t, bufio.NewReader(c)); got != "ok" {
		t.Errorf("%q", got)
	}
}

// headed is a listener whose connections begin with a header of one byte, read for their address.
type headed struct{ net.Listener }

func (l headed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &headedConn{Conn: c}, err
}

type headedConn struct {
	net.Conn
	header sync.Once
}

func (c *headedConn) RemoteAddr() net.Addr {
	c.header.Do(func() { _, _ = c.Read(make([]byte, 1)) })
	return c.Conn.RemoteAddr()
}

// speakHTTP2 begins HTTP/2 in the clear with a server whose connections are a set's.
func speakHTTP2(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet(Limits{})
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute, ConnState: s.State, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(s.Listen(l))
	}()
	t.Cleanup(func() { _, _ = server.Close(), <-done })
	c := dial(t, l.Addr().String())
	send(t, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	return c
}

// awaitPing reads frames until the answer to a ping of these eight bytes.
func awaitPing(t *testing.T, c net.Conn, word string) {
	t.Helper()
	for r := bufio.NewReader(c); ; {
		header := make([]byte, 9)
		if _, err := io.ReadFull(r, header); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		if string(body) == word {
			return
		}
	}
}

// A frame of HTTP/2 that lacks its last byte for a moment is not taken for a client that is watched.
func TestHTTP2InPieces(t *testing.T) {
	t.Parallel()
	c := speakHTTP2(t)
	const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00"
	send(t, c, ping[:8])
	time.Sleep(100 * time.Millisecond) // so that it is read on its own
	send(t, c, ping[8:]+"in parts")
	awaitPing(t, c, "in parts")
}
