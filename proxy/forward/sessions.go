package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
)

// Bounds of intercepted connections. Bodies and answers have none: a stream may be slow.
const (
	insideHeaderTimeout = time.Minute
	insideHeaderBytes   = 64 << 10 // as the proxy's own site
	insidePing          = time.Minute
)

// sessions serves the requests of intercepted connections.
type sessions struct {
	handler http.Handler
	idle    time.Duration
	log     *slog.Logger

	http1    *http.Server
	http2    atomic.Pointer[http.Server]
	once     sync.Once
	retired  chan struct{} // closed when connections are to end
	draining sync.WaitGroup

	mu   sync.Mutex
	open map[*session]struct{}
}

func newSessions(handler http.Handler, idle time.Duration, log *slog.Logger) *sessions {
	all := &sessions{handler: handler, idle: idle, log: log, retired: make(chan struct{}), open: make(map[*session]struct{})}
	all.http1 = all.newServer()
	all.http2.Store(all.newServer())
	return all
}

type sessionKey struct{}

func (all *sessions) newServer() *http.Server {
	return &http.Server{
		Handler:           all.handler,
		ReadHeaderTimeout: insideHeaderTimeout,
		IdleTimeout:       all.idle,
		MaxHeaderBytes:    insideHeaderBytes,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: insidePing},
		ErrorLog:          slog.NewLogLogger(all.log.Handler(), slog.LevelWarn),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), sessionKey{}, l.(*single).session)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if conn, ok := c.(*conns.Ahead); ok {
				if state == http.StateHijacked {
					conn.Release()
				}
				c = conn.Conn
			}
			if conn, ok := c.(*tls.Conn); ok {
				c = conn.NetConn()
			}
			c.(*session).noteState(state)
		},
	}
}

// serve serves a connection until it is closed.
func (all *sessions) serve(s *session) {
	for {
		server := all.http1
		if s.speaksHTTP2() {
			server = all.http2.Load()
		}
		l := &single{session: s, retired: all.retired}
		err := server.Serve(l)
		if l.given {
			break
		}
		if !errors.Is(err, http.ErrServerClosed) {
			all.log.Error("intercepted connection not served", "error", err)
			_ = s.Close()
			break
		}
		// The server was replaced in this moment.
	}
	select {
	case <-s.closed:
	case <-s.tunnel.life.Done():
		_ = s.Close()
	}
}

// retire ends the connections: idle ones at once, others when their requests are done. It
// does not wait for them. Connections that come later are served one request, or, with
// HTTP/2, those that come while one is under way.
//
// With HTTP/1, answers get "Connection: close". The server is not shut down, because it would drop
// requests whose header it is reading. With HTTP/2, only a shutdown sends GOAWAY. Another server
// takes the connections that come meanwhile. The shutdown gets a context that has ended: else it
// would close connections that it takes for idle, and cut off the ends of their answers.
func (all *sessions) retire() {
	all.once.Do(func() {
		close(all.retired)
		all.http1.SetKeepAlivesEnabled(false)
		next := all.newServer()
		next.SetKeepAlivesEnabled(false)
		old := all.http2.Swap(next)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		all.draining.Go(func() { _ = old.Shutdown(over) })
	})
}

// single is a listener that has one connection to accept.
type single struct {
	session *session
	given   bool
	retired <-chan struct{}
}

// Accept returns the connection, once. Then it waits for the connection's end, because a server
// that shuts down waits for its listeners before it closes idle connections.
func (l *single) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		if l.session.speaksHTTP2() {
			return l.session.inside, nil // which net/http knows by its type
		}
		return conns.NewAhead(l.session.inside), nil
	}
	select {
	case <-l.session.closed:
	case <-l.session.tunnel.life.Done():
	case <-l.retired:
		l.session.drain()
	}
	return nil, net.ErrClosed
}

// Close has nothing to close: connections of a server that shuts down end by themselves.
func (l *single) Close() error { return nil }

// Addr returns the connection's address, because nothing listens.
func (l *single) Addr() net.Addr { return l.session.LocalAddr() }

const (
	// unusedFor bounds how long an open connection may wait for its first request once sessions
	// are to end.
	unusedFor = time.Second
	// goneAfter bounds how long an HTTP/2 connection may last after its last request. The server
	// leaves its client a second to notice GOAWAY.
	goneAfter = 2 * time.Second
)

// drain waits until a connection has ended, or will end by itself. It closes an unused connection.
func (s *session) drain() {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		switch over, unused := s.ending(); {
		case unused:
			_ = s.inside.Close()
			return
		case over:
			return
		}
		select {
		case <-s.closed:
			return
		case <-s.tunnel.life.Done():
			return
		case <-look.C:
		}
	}
}

// ending reports whether a connection ends without further care, and whether it is to be
// closed now.
func (s *session) ending() (over, unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	quiet := time.Since(s.since)
	idle := s.state == http.StateIdle || s.state == http.StateNew
	switch {
	case s.speaksHTTP2():
		return false, idle && quiet >= goneAfter
	case s.state == http.StateNew:
		return false, quiet >= unusedFor
	}
	return !idle, idle
}

// Drain is for a process that ends. It refuses new tunnels, ends intercepted connections as
// Retire does, and waits for the requests inside them until ctx ends: a server that shuts
// down does not know of them, because it has given their connections away. It cuts nothing,
// and does not wait for blind tunnels and upgraded connections, which may never end.
func (f *Proxy) Drain(ctx context.Context) error {
	f.tunnels.shut()
	f.Retire(time.Time{})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		n := len(f.sessions.requests())
		if n == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the requests of %d intercepted connections: %w", n, ctx.Err())
		}
	}
}

// add makes an intercepted connection known until remove.
func (all *sessions) add(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[s] = struct{}{}
}

func (all *sessions) remove(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, s)
}

// requests returns the tunnels of the connections with a request under way.
func (all *sessions) requests() map[*tunnel]bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	busy := make(map[*tunnel]bool)
	for s := range all.open {
		if s.busy() {
			busy[s.tunnel] = true
		}
	}
	return busy
}
