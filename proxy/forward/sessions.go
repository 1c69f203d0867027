package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
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

// keyFresh bounds the age of a connection's key. After it, the key is looked up again, so that a
// changed policy or a revoked key counts on open connections.
const keyFresh = time.Second

// session is an intercepted connection: the connection below the client's TLS, if the client speaks
// TLS, and the caller that its requests pay with.
type session struct {
	*peekedConn
	tunnel  *tunnel
	tls     *tls.Conn // over this; nil for plain HTTP
	inside  net.Conn  // what the requests come from: tls, or the session itself
	host    string    // of the CONNECT, in normal form
	port    uint16
	connect context.Context // of the CONNECT, for traces

	once   sync.Once
	closed chan struct{}

	asking sync.Mutex // held while the key is looked up
	who    caller
	asked  time.Time // when it was

	// Guarded by sessions.mu.
	all     *sessions
	state   http.ConnState // as the server has it; closed until it has it
	unused  *time.Timer    // closes the connection of a retired Proxy that waits for a request
	serving int            // handlers, which with HTTP/2 may outlive the connection
	waited  bool           // no more of them
}

// unusedFor bounds how long a connection may wait for a request once sessions are to end. The server
// leaves an HTTP/2 client a second of it to notice GOAWAY.
const unusedFor = 2 * time.Second

func (f *Proxy) newSession(t *tunnel, who caller, host string, port uint16) *session {
	s := &session{
		tunnel: t, who: who, host: host, port: port, asked: f.now(), closed: make(chan struct{}),
		all: f.sessions, state: http.StateClosed,
	}
	s.unused = time.AfterFunc(math.MaxInt64, func() { _ = s.inside.Close() })
	s.unused.Stop()
	return s
}

// Close closes the connection and ends the waiting for it.
func (s *session) Close() error {
	err := s.peekedConn.Close()
	s.once.Do(func() { close(s.closed) })
	return err
}

func (s *session) speaksHTTP2() bool {
	return s.tls != nil && s.tls.ConnectionState().NegotiatedProtocol == "h2"
}

// scheme returns the scheme of the URLs inside, with its default port.
func (s *session) scheme() (name string, port uint16) {
	if s.tls == nil {
		return "http", 80
	}
	return "https", 443
}

// authority returns the CONNECT's host and port as they stand in a URL.
func (s *session) authority() string {
	if _, own := s.scheme(); s.port != own {
		return net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
	}
	if strings.Contains(s.host, ":") {
		return "[" + s.host + "]"
	}
	return s.host
}

// isFor reports whether a Host header means the host and port of the CONNECT.
func (s *session) isFor(authority string) bool {
	_, own := s.scheme()
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = (&url.URL{Host: authority}).Hostname(), strconv.Itoa(int(own))
	}
	host, err = guard.NormalHost(host)
	return err == nil && host == s.host && port == strconv.Itoa(int(s.port))
}

// enter counts a handler in. It fails when the CONNECT is over already.
func (s *session) enter() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.waited {
		return false
	}
	s.serving++
	return true
}

func (s *session) leave() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.serving--
	s.all.changed.Broadcast()
}

// wait lets no more handlers in and waits for those that are at work: a payment that has
// begun is brought to its end without its client. Behind it, no server serves the connection any more.
func (s *session) wait() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	for s.waited = true; s.serving > 0 || s.state != http.StateClosed && s.state != http.StateHijacked; {
		s.all.changed.Wait()
	}
}

// busy reports whether a request is under way, or a payment that its client has left. A connection
// that speaks another protocol by now is not busy. The caller holds sessions.mu.
func (s *session) busy() bool {
	return s.state == http.StateActive || s.serving > 0 && s.state != http.StateHijacked
}

// noteState notes the server's view of the connection.
func (s *session) noteState(state http.ConnState) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.state = state
	s.limit()
	s.all.changed.Broadcast()
}

// limit bounds the time without a request once sessions are to end. The caller holds sessions.mu.
func (s *session) limit() {
	if s.unused.Stop(); s.all.retired && (s.state == http.StateNew || s.state == http.StateIdle) {
		s.unused.Reset(unusedFor)
	}
}

// opener returns the caller who opened the session, whose key may be gone.
func (s *session) opener() caller {
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.who
}

// caller returns the caller of a request, with a key that is not older than keyFresh.
func (s *session) caller(ctx context.Context, f *Proxy) (caller, *refusal) {
	s.asking.Lock()
	defer s.asking.Unlock()
	now := f.now()
	ended := !s.who.key.Ends.IsZero() && !now.Before(s.who.key.Ends)
	if age := now.Sub(s.asked); age >= 0 && age < keyFresh && !ended {
		return s.who, s.who.relays()
	}
	key, err := f.payer.Resolve(ctx, s.who.secret)
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		return caller{}, keyGone
	case err != nil:
		return caller{}, unavailable(err)
	}
	s.who.key, s.asked = key, now
	f.payer.NoteUse(key.ID, policy.DoorProxy)
	return s.who, s.who.relays()
}

// keyGone cannot be a 407: to the client inside, there is no proxy.
var keyGone = &refusal{
	status: http.StatusForbidden, reason: reasonCredentials, text: "The API key that this connection was opened with is not valid any more",
	header: http.Header{"Connection": {"close"}},
}

// serveInside relays a request that came through an intercepted connection, as an
// absolute-form one for the CONNECT's host would be.
func (f *Proxy) serveInside(w http.ResponseWriter, r *http.Request) {
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok || !s.enter() { // the connection is gone
		panic(http.ErrAbortHandler)
	}
	defer s.leave()
	r, over := conns.Lasting(withoutSocketScheme(r))
	defer over()
	var who caller
	no := f.checkInside(s, r)
	if no == nil {
		who, no = s.caller(r.Context(), f)
	}
	if no != nil {
		f.refuse(w, r, s.opener(), no)
		return
	}
	var state *tls.ConnectionState // which net/http does not see below the reading ahead
	if s.tls != nil {
		is := s.tls.ConnectionState()
		state = &is
	}
	through := f.throughInside(who, s.absolute)
	f.relayFor(w, ofSite(s.absolute(r), state), who, func(w http.ResponseWriter, r *http.Request, relay http.Handler) {
		through(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			in, end := f.observer.Inside(s.connect, r)
			defer end()
			relay.ServeHTTP(w, in)
		}))
	})
}

// throughInside has a request pass through [Options].Inside. whole gives what comes out of it the URL that its client
// meant.
func (f *Proxy) throughInside(who caller, whole func(*http.Request) *http.Request) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, relay http.Handler) {
		f.inside(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if no := checkForm(r); no != nil { // of what handlers have made of it
				f.refuse(w, r, who, no)
				return
			}
			relay.ServeHTTP(w, whole(r))
		}))
	}
}

// checkInside refuses requests that cannot or must not be relayed.
func (f *Proxy) checkInside(s *session, r *http.Request) *refusal {
	misdirected := &refusal{
		status: http.StatusMisdirectedRequest, reason: reasonMisdirected,
		text: "The request is for another host than this connection was opened for",
	}
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return notRelayed(r)
	case r.Host == "" && !r.ProtoAtLeast(1, 1): // HTTP/1.0 need not say
	case !s.isFor(r.Host):
		return misdirected
	}
	for _, host := range r.Header.Values("Host") { // HTTP/2 may have one beside :authority
		if !s.isFor(host) {
			return misdirected
		}
	}
	scheme, _ := s.scheme()
	switch {
	case r.URL.IsAbs() && (!strings.EqualFold(r.URL.Scheme, scheme) || r.URL.User != nil || !s.isFor(r.URL.Host)):
		return misdirected
	case looped(r.Header, f.pseudonym):
		return inALoop
	}
	return checkForm(r)
}

// checkForm refuses requests of a form that cannot be relayed.
func checkForm(r *http.Request) *refusal {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return notRelayed(r)
	case r.URL.Opaque != "", r.URL.Path != "" && r.URL.Path[0] != '/':
		return badRequest("The request needs a path")
	}
	return nil
}

// ofSite returns a request with its whole URL as a server of that host would have it, which speaks TLS unless state
// is nil.
func ofSite(r *http.Request, state *tls.ConnectionState) *http.Request {
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme, u.Host = "", ""
	out.URL, out.TLS = &u, state
	return out
}

// absolute returns a request of the connection with its whole URL.
func (s *session) absolute(r *http.Request) *http.Request {
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme, _ = s.scheme()
	u.Host = s.authority()
	out.URL = &u
	out.Host = u.Host // which the client's means, however it is spelt
	out.Header.Del("Host")
	return out
}
