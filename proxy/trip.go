package proxy

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
)

// trip watches one send through the hooks of net/http/httptrace: where it went, and
// whether anything of it can have got there.
type trip struct {
	asked     atomic.Bool // for a connection, so the sender does call the hooks
	connected atomic.Bool
	reused    atomic.Bool
	written   atomic.Bool // header fields were written, so they may have left
	astray    atomic.Bool // the connection led where the request must not go
	again     atomic.Bool // and was not the first one: something may have left before
	peer      atomic.Pointer[net.Addr]
}

// watch adds the hooks to ctx. allowed, if not nil, is asked about the address before
// anything is written to it.
func (t *trip) watch(ctx context.Context, allowed func(net.Addr) bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			addr := info.Conn.RemoteAddr()
			t.peer.Store(&addr)
			t.connected.Store(true)
			t.reused.Store(info.Reused)
			if allowed != nil && !allowed(addr) {
				// Cancelling would race with the writing; a closed connection takes nothing.
				t.again.Store(t.written.Load())
				t.astray.Store(true)
				_ = info.Conn.Close()
			}
		},
		WroteHeaderField: func(string, []string) { t.written.Store(true) },
		WroteHeaders:     func() { t.written.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				t.written.Store(true)
				failpoint.Here(failpoint.ProxyWritten)
			}
		},
	})
}

// remote is the address that was really used, nil if it is not known.
func (t *trip) remote() net.Addr {
	if addr := t.peer.Load(); addr != nil {
		return *addr
	}
	return nil
}

// unconnected reports whether the failed send provably never had a connection it could
// have used.
func (t *trip) unconnected() bool {
	return t.asked.Load() && !t.connected.Load() || t.astray.Load() && !t.again.Load()
}

// stale reports whether the failed send met a kept connection that was closed meanwhile,
// before any of its header was written.
func (t *trip) stale() bool {
	return t.asked.Load() && t.reused.Load() && !t.written.Load() && !t.astray.Load()
}
