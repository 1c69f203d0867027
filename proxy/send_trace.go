package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
)

// sendTrace watches one send through the hooks of net/http/httptrace: the address that it went to,
// and whether any part of it can have arrived.
type sendTrace struct {
	asked     atomic.Bool // for a connection, so the sender does call the hooks
	connected atomic.Bool // it got one that the request may use
	reused    atomic.Bool // the last such one was a kept one
	written   atomic.Bool // header fields were written, so they may have left
	misled    atomic.Bool // it got one that leads where the request must not go
	peer      atomic.Pointer[net.Addr]
}

// errMisled ends a send whose connection leads where it must not go.
var errMisled = errors.New("the connection leads where the request must not go")

// lookOn adds the hooks of an unpaid send to ctx. They are few, because net/http joins them with those
// of the door by reflection. written is one of them.
func (t *sendTrace) lookOn(ctx context.Context, written func(httptrace.WroteRequestInfo)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			addr := info.Conn.RemoteAddr()
			t.peer.Store(&addr)
		},
		Got1xxResponse: stripInformational,
		WroteRequest:   written,
	})
}

// stripInformational takes Purser-* headers and Alt-Svc out of an answer ahead of the real one. It is called
// before the hook of the door's reverse proxy, with the same header.
func stripInformational(_ int, header textproto.MIMEHeader) error {
	StripOwn(http.Header(header))
	header.Del("Alt-Svc")
	return nil
}

// watch adds the hooks of a paid send to ctx. allowed, if not nil, judges the address of each connection before
// anything is written to it. stop ends ctx when it says no: http.Transport would otherwise try the
// next connection by itself, and write to it.
func (t *sendTrace) watch(ctx context.Context, allowed func(net.Addr) bool, stop context.CancelCauseFunc) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			addr := info.Conn.RemoteAddr()
			t.peer.Store(&addr)
			if allowed != nil && !allowed(addr) {
				// The end of ctx races with the writing; a closed connection takes nothing.
				t.misled.Store(true)
				_ = info.Conn.Close()
				stop(errMisled)
				return
			}
			t.connected.Store(true)
			t.reused.Store(info.Reused)
		},
		Got1xxResponse:   stripInformational,
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

// remote returns the address of the connection that was used, nil if it is not known.
func (t *sendTrace) remote() net.Addr {
	if addr := t.peer.Load(); addr != nil {
		return *addr
	}
	return nil
}

// unconnected reports whether the failed send provably never had a connection that it could use.
func (t *sendTrace) unconnected() bool { return t.asked.Load() && !t.connected.Load() }

// astray reports whether the send is unconnected because its connections led to denied addresses.
func (t *sendTrace) astray() bool { return t.unconnected() && t.misled.Load() }

// stale reports whether the failed send met a kept connection that was closed meanwhile,
// before any of its header was written.
func (t *sendTrace) stale() bool {
	return t.connected.Load() && t.reused.Load() && !t.written.Load() && !t.misled.Load()
}
