package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// An upstream may tie a login to a connection: no connection passes from one key to another.
func TestConnectionsAreNotSharedByKeys(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.RemoteAddr) }))
	t.Cleanup(up.Close)
	w := newWorld(t)
	_, other := w.NewKey()
	ask := func(secret string) string {
		return w.do(w.client(url.User(secret)), proxytest.Request(t, "GET", up.URL, nil)).Text
	}
	mine := ask(w.Secret)
	if again := ask(w.Secret); again != mine {
		t.Errorf("a key's connection is not used again: %s, %s", mine, again)
	}
	if theirs := ask(other); theirs == mine {
		t.Error("two keys, one connection")
	}
}

func TestPoolsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPools(func() *http.Transport { return new(http.Transport) })
	first := p.of("0")
	for i := range maxPools {
		p.of(fmt.Sprint(i + 1))
	}
	if n := p.byKey.Len(); n != maxPools || p.of("0") == first {
		t.Errorf("%d pools", n)
	}
}

// A connection that switched protocols is a tunnel: counted, and ended with the others.
func TestUpgradesAreTunnels(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(c, c)
		}()
	}))
	t.Cleanup(up.Close)
	of := func(idle time.Duration) *world {
		return newWorld(t, func(s *setup) { s.forward.MaxTunnels, s.forward.IdleTunnel = 1, idle })
	}
	upgrade := func(w *world) (proxytest.Answer, net.Conn) {
		a, c, _ := w.raw(fmt.Sprintf("GET %s/ HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\nProxy-Authorization: %s\n\n", up.URL, basic(w.Secret, "")), "CONNECT")
		return a, c
	}
	w := of(10 * time.Minute)
	a, _ := upgrade(w)
	if a.StatusCode != http.StatusSwitchingProtocols || w.forward.Tunnels() != 1 {
		t.Fatalf("%d, %d tunnels", a.StatusCode, w.forward.Tunnels())
	}
	if b, _ := upgrade(w); b.StatusCode != http.StatusServiceUnavailable || b.Header.Get(proxy.HeaderError) != reasonTunnels {
		t.Errorf("%d %v", b.StatusCode, b.Header)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.forward.Close(ctx); err == nil && w.forward.Tunnels() != 0 {
		t.Error("closed with a tunnel open")
	}

	w = of(time.Second)
	_, conn := upgrade(w)
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an idle one ends: %v", err)
	}
	proxytest.Eventually(t, "its place is free", func() bool { return w.forward.Tunnels() == 0 })
}

// Closing does not wait for a name that no server resolves.
func TestCloseEndsDials(t *testing.T) {
	t.Parallel()
	blocked := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	w := newWorld(t, func(s *setup) { s.guard.Resolver, s.guard.Timeout = blocked, 30*time.Second })
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := net.Dial("tcp", w.addr())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "CONNECT nowhere.example:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: %s\r\n\r\n", basic(w.Secret, ""))
		_, _ = io.ReadAll(io.LimitReader(conn, 12)) // the status line
	}()
	proxytest.Eventually(t, "it dials", func() bool { return w.forward.Tunnels() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	_ = w.forward.Close(ctx)
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("closing took %s", took)
	}
	<-done
}
