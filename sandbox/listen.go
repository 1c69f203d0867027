package sandbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Offsets of a world's ports from Options.Port, which purser itself uses. Offset 4 is for purser's
// reverse proxy, and offset 5 for its metrics.
const (
	sellerOffset      = 1
	facilitatorOffset = 2
	rpcOffset         = 3
	MetricsOffset     = 5
	sellerTLSOffset   = 6
	identityOffset    = 7
	LastOffset        = identityOffset
)

const (
	// maxHeader holds the largest payment header, in bytes.
	maxHeader = 256 << 10
	// closeTime is the time that requests have to finish when the world ends.
	closeTime = 2 * time.Second
)

// address returns the address of a part of the world.
func address(port, offset int) string {
	if port != 0 {
		port += offset
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// listener is a server on loopback.
type listener struct {
	server *http.Server
	port   int
	done   chan struct{}
	failed error // error of serving; readable once done is closed
}

// listen serves a handler, over TLS when certificate is not nil. Requests end with ctx.
func listen(
	ctx context.Context, what, address string, handler http.Handler, certificate *tls.Certificate, log *slog.Logger,
) (*listener, error) {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	l := &listener{
		server: &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxHeader,
			ErrorLog:    slog.NewLogLogger(log.With("part", what).Handler(), slog.LevelWarn),
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
		port: socket.Addr().(*net.TCPAddr).Port, done: make(chan struct{}),
	}
	serve := l.server.Serve
	if certificate != nil {
		l.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
		serve = func(socket net.Listener) error { return l.server.ServeTLS(socket, "", "") }
	}
	go func() {
		defer close(l.done)
		if err := serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.failed = fmt.Errorf("%s: %w", what, err)
		}
	}()
	return l, nil
}

// close lets requests finish for closeTime and then ends them.
func (l *listener) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		_ = l.server.Close() // cutting off the rest is no failure
	}
	<-l.done
	return l.failed
}

// origin returns the listener's URL with this host name.
func (l *listener) origin(scheme, host string) string {
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(l.port))
}
