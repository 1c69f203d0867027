package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path names the endpoint of the streamable HTTP transport.
const Path = "/mcp"

const (
	maxMessage  = 4 << 20 // of a client
	headerTime  = 10 * time.Second
	idleSession = 24 * time.Hour // clients do not begin a new session by themselves
	closingTime = 5 * time.Second
)

// IsLoopback reports whether only programs of this machine reach an address such as 127.0.0.1:0.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// ServeHTTP serves clients on a listener, until the context ends. Requests under way then end, too.
// remote: the listener is not loopback's.
func ServeHTTP(ctx context.Context, o Options, l net.Listener, remote bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.waiting = new(waiting)
	s := NewServer(ctx, o)
	streams := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{SessionTimeout: idleSession})
	mux := http.NewServeMux()
	mux.Handle(Path, guard(http.MaxBytesHandler(o.waiting.marks(streams), maxMessage), remote))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	for session := range s.Sessions() { // their streams would stay open
		_ = session.Close()
	}
	late, done := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer done()
	err := server.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// guard refuses web pages: a client that gets through spends with the server's key. A page of another
// site says so in Origin. A page whose name was made to lead here (DNS rebinding) says it in Host.
func guard(next http.Handler, remote bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(r, remote) {
			http.Error(w, "purser mcp serves no web pages: the Host or Origin of the request is not its own", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func allowed(r *http.Request, remote bool) bool {
	origins := r.Header.Values("Origin")
	if remote { // under which names it is reached, it cannot know
		return len(origins) == 0
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if !loopbackHost(strings.Trim(host, "[]")) || len(origins) > 1 {
		return false
	}
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	return err == nil && origin.Scheme == "http" && strings.EqualFold(origin.Host, r.Host)
}

// waiting holds the contexts of HTTP requests that wait for the answer of a call. Calls outlive their
// requests otherwise.
type waiting struct {
	last    atomic.Uint64
	clients sync.Map // string: context.Context
}

// callHeader marks a request inside this process.
const callHeader = "Purser-Mcp-Call"

// marks gives each request a mark by which its call finds it.
func (w *waiting) marks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mark := strconv.FormatUint(w.last.Add(1), 10)
		w.clients.Store(mark, r.Context())
		defer w.clients.Delete(mark)
		r.Header.Set(callHeader, mark)
		next.ServeHTTP(rw, r)
	})
}

// client returns the context of the request that a call came with. It has ended if that is gone.
func (w *waiting) client(h http.Header) context.Context {
	if found, ok := w.clients.Load(h.Get(callHeader)); ok {
		return found.(context.Context) //nolint:forcetypeassert // marks stores nothing else
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	return gone
}
