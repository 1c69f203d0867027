package conns

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair connects two ends of a stream.
func pair(t *testing.T, network string) (server, client net.Conn) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if client, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return server, client
}

func networks(t *testing.T, f func(t *testing.T, server, client net.Conn)) {
	t.Helper()
	if !Looks {
		t.Skip("the system does not tell")
	}
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			server, client := pair(t, network)
			f(t, server, client)
		})
	}
}

type embedding struct {
	_ int // it need not be the first
	net.Conn
}

// The connection is found below whatever is around it.
func TestGone(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, server, client net.Conn) {
		all := map[string]context.Context{}
		for name, c := range map[string]net.Conn{
			"bare": server, "embedded": &embedding{Conn: server}, "by value": struct{ net.Conn }{server},
			"read ahead": &embedding{Conn: NewAhead(server)}, "TLS": tls.Server(&embedding{Conn: server}, &tls.Config{MinVersion: tls.VersionTLS12}),
		} {
			all[name] = InDoor(context.Background(), c)
		}
		_, _ = io.WriteString(client, strings.Repeat("x", 100)) // and it is not read
		for name, ctx := range all {
			if Gone(ctx) || Blind(ctx) {
				t.Errorf("%s: gone %t, blind %t", name, Gone(ctx), Blind(ctx))
			}
		}
		_ = client.Close()
		for name, ctx := range all {
			until(t, name, func() bool { return Gone(ctx) })
		}
	})
	unknown, _ := net.Pipe()
	if ctx := InDoor(context.Background(), unknown); Gone(ctx) || !Blind(ctx) {
		t.Error("a client that nothing tells of")
	}
	if ctx := InDoor(context.Background(), NewAhead(unknown)); Blind(ctx) {
		t.Error("a client that is read ahead is seen leaving")
	}
	if Blind(context.Background()) || NewWatch(context.Background(), true) != nil {
		t.Error("another server")
	}
}

// An answer is acknowledged when the other side has it, also after the server has closed its end.
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, server, client net.Conn) {
		for name, c := range map[string]struct{ closes, left bool }{"kept": {}, "to be closed": {closes: true, left: true}} {
			ctx := In(context.Background(), server)
			_, _ = io.WriteString(server, "answer")
			w := NewWatch(ctx, true)
			if c.closes {
				_ = server.Close()
			}
			b := make([]byte, 6)
			if _, err := io.ReadFull(client, b); err != nil {
				t.Fatal(err)
			}
			if c.left {
				_ = client.Close()
			}
			if !w.Acknowledged(c.closes) {
				t.Errorf("%s: not acknowledged", name)
			}
			if c.closes {
				break
			}
		}
	})
}

// A client that closes its connection only when it sees the end has not got the answer: a relay does that.
func TestAcknowledgedByARelay(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, server, client net.Conn) {
		_, _ = io.WriteString(server, "answer")
		w := NewWatch(In(context.Background(), server), true)
		_ = server.Close()
		go func() {
			_, _ = io.Copy(io.Discard, client)
			_ = client.Close()
		}()
		if w.Acknowledged(true) {
			t.Error("acknowledged")
		}
	})
}

// A client that announces to close its connection and keeps it sees the server's end later.
func TestAcknowledgedWithoutClosing(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, server, client net.Conn) {
		_, _ = io.WriteString(server, "answer")
		w := NewWatch(In(context.Background(), server), true)
		_ = server.Close()
		ended := make(chan time.Time, 1)
		go func() {
			_, _ = io.Copy(io.Discard, client)
			ended <- time.Now()
		}()
		begun := time.Now()
		if !w.Acknowledged(true) { // it does not close it for that end either
			t.Error("not acknowledged")
		}
		if at := <-ended; at.Sub(begun) < closeWait/2 {
			t.Errorf("the end came after %s", at.Sub(begun))
		}
	})
}

// Bytes that the other side has not read when it closes the connection were not acknowledged.
func TestNotAcknowledged(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		networks(t, func(t *testing.T, server, client net.Conn) {
			early := NewWatch(In(context.Background(), server), false)
			_ = server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = io.Copy(server, endless{}) // until nothing more fits
			w := NewWatch(In(context.Background(), server), true)
			if !written {
				w, early = early, w
			}
			early.Drop()
			time.AfterFunc(20*time.Millisecond, func() { _ = client.Close() })
			begun := time.Now()
			if w.Acknowledged(false) {
				t.Errorf("acknowledged, written %t", written)
			}
			if took := time.Since(begun); took > ackQuiet-time.Second {
				t.Errorf("known after %s only", took)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A client that reads nothing more is not waited for without end.
func TestAcknowledgementIsBounded(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, server, _ net.Conn) {
		_ = server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.Copy(server, endless{})
		if NewWatch(In(context.Background(), server), true).Acknowledged(false) {
			t.Error("acknowledged")
		}
	})
}

// Where the system does not tell, a site needs the wrapper.
func TestCheckWrappers(t *testing.T) {
	t.Parallel()
	other, purser := json.RawMessage(`{"wrapper":"tls"}`), json.RawMessage(`{"wrapper":"purser","max_connections":"7"}`)
	for _, c := range []struct {
		wrappers []json.RawMessage
		looks    bool
		want     bool
	}{
		{nil, true, true},
		{nil, false, false},
		{[]json.RawMessage{other}, false, false},
		{[]json.RawMessage{other, purser}, false, true},
	} {
		if err := checkWrappers(c.wrappers, c.looks); (err == nil) != c.want {
			t.Errorf("%s, %t: %v", c.wrappers, c.looks, err)
		}
	}
}
