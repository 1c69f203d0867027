package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
)

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
// begun is brought to its end without its client.
func (s *session) wait() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	for s.waited = true; s.serving > 0; {
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
	if age := now.Sub(s.asked); age >= 0 && age < keyFresh {
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
	return s.who, s.who.relays()
}

// keyGone cannot be a 407: to the client inside, there is no proxy.
var keyGone = &refusal{
	status: http.StatusForbidden, reason: reasonCredentials, text: "The API key that this connection was opened with is not valid any more",
	header: http.Header{"Connection": {"close"}},
}
