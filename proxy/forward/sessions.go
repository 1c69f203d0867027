package forward

import (
	"context"
	"crypto/tls"
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
	draining sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond // of mu: a connection has another state, or a handler less
	retired bool       // connections are to end
	open    map[*session]struct{}
}

func newSessions(handler http.Handler, idle time.Duration, log *slog.Logger) *sessions {
	all := &sessions{handler: handler, idle: idle, log: log, open: make(map[*session]struct{})}
	all.changed = sync.NewCond(&all.mu)
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
		ConnContext: conns.In,
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
	for l := (&single{session: s}); !l.given; { // again if the server was replaced in this moment
		server := all.http1
		if s.speaksHTTP2() {
			server = all.http2.Load()
		}
		_ = server.Serve(l)
	}
	_ = s.Close()
}

// retire ends the connections as [Proxy.Retire] says. With HTTP/2, connections that come later are
// served the requests that come while one is under way.
//
// With HTTP/1, answers get "Connection: close". The server is not shut down, because it would drop
// requests whose header it is reading. With HTTP/2, only a shutdown sends GOAWAY. Another server
// takes the connections that come meanwhile. The shutdown gets a context that has ended: else it
// would close connections that it takes for idle, and cut off the ends of their answers.
func (all *sessions) retire() {
	all.once.Do(func() {
		all.mu.Lock()
		all.retired = true
		for s := range all.open {
			s.limit()
		}
		all.mu.Unlock()
		all.http1.SetKeepAlivesEnabled(false)
		next := all.newServer()
		next.SetKeepAlivesEnabled(false)
		old := all.http2.Swap(next)
		all.draining.Go(func() { _ = old.Shutdown(ended) })
	})
}

// ended is the context of what must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// single is a listener that has one connection to accept.
type single struct {
	session *session
	given   bool
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
	}
	return nil, net.ErrClosed
}

// Close has nothing to close: connections of a server that shuts down end by themselves.
func (l *single) Close() error { return nil }

// Addr returns the connection's address, because nothing listens.
func (l *single) Addr() net.Addr { return l.session.LocalAddr() }

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
	all.changed.Broadcast()
}

// requests waits until no connection has a request under way, or until ctx ends. It returns the
// tunnels of those that have one.
func (all *sessions) requests(ctx context.Context) map[*tunnel]bool {
	defer context.AfterFunc(ctx, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.changed.Broadcast()
	})()
	all.mu.Lock()
	defer all.mu.Unlock()
	for {
		busy := make(map[*tunnel]bool)
		for s := range all.open {
			if s.busy() {
				busy[s.tunnel] = true
			}
		}
		if len(busy) == 0 || ctx.Err() != nil {
			return busy
		}
		all.changed.Wait()
	}
}
