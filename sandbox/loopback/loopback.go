// Package loopback serves HTTP on 127.0.0.1, for the parties of the sandbox.
package loopback

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

const (
	// maxHeader holds the largest payment header, in bytes.
	maxHeader = 256 << 10
	// headerTime bounds the time for a caller's headers.
	headerTime = 10 * time.Second
)

// Options configures a Server. The zero value works.
type Options struct {
	// Name names the server in errors and logs.
	Name string
	// Port is the server's port. Default: a free one.
	Port int
	// Certificate makes the server speak TLS.
	Certificate *tls.Certificate
	// Logger gets warnings of net/http. Default: none.
	Logger *slog.Logger
}

// Server is a running server.
type Server struct {
	Port   int
	name   string
	http   *http.Server
	served chan error // holds the result of serving
}

// Serve starts a server. Its requests end with ctx. The caller must call Close or Shutdown.
func Serve(ctx context.Context, o Options, handler http.Handler) (*Server, error) {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		Port: socket.Addr().(*net.TCPAddr).Port, name: o.Name, served: make(chan error, 1),
		http: &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTime, MaxHeaderBytes: maxHeader,
			ErrorLog:    slog.NewLogLogger(o.Logger.With("part", o.Name).Handler(), slog.LevelWarn),
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
	}
	serve := s.http.Serve
	if o.Certificate != nil {
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*o.Certificate}, MinVersion: tls.VersionTLS12}
		serve = func(socket net.Listener) error { return s.http.ServeTLS(socket, "", "") }
	}
	go func() { s.served <- serve(socket) }()
	return s, nil
}

// URL returns the origin of the server, without TLS.
func (s *Server) URL() string { return s.Origin("http", "127.0.0.1") }

// Origin returns the origin of the server under a host name.
func (s *Server) Origin(scheme, host string) string {
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(s.Port))
}

// Close cuts off running requests. A nil server is closed already.
func (s *Server) Close() error { return s.Shutdown(0) }

// Shutdown lets requests finish for a time, and cuts off the rest. A nil server is closed already.
func (s *Server) Shutdown(grace time.Duration) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // cutting off the rest is no failure
	}
	err := <-s.served
	s.served <- err // for a later call
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", s.name, err)
}
