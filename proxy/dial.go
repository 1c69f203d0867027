package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
)

// handshakeTimeout bounds the TLS handshake with an upstream.
const handshakeTimeout = 10 * time.Second

// upstreamDialer opens the connections of an upstream transport. A connection that is being
// opened ends with the request that it is opened for. The standard library would go on and
// keep it for later requests; but then a client that asks and takes back, over and over,
// would have as many handshakes under way as fit into the time of one, which no bound on its
// requests limits.
type upstreamDialer struct {
	guard *Guard
	tls   *tls.Config
}

func newUpstreamDialer(g *Guard, roots *x509.CertPool) *upstreamDialer {
	return &upstreamDialer{guard: g, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
}

type askerKey struct{}

// asker is the request that a connection is opened for.
type asker struct {
	ctx   context.Context
	http1 bool // it speaks WebSocket, which HTTP/2 here does not
}

// askedBy notes in a request's context, which reaches the dialer without its end, what the
// request is.
func askedBy(req *http.Request) *http.Request {
	ctx := req.Context()
	http1 := httpguts.HeaderValuesContainsToken(req.Header["Connection"], "upgrade") && req.Header.Get("Upgrade") != ""
	return req.WithContext(context.WithValue(ctx, askerKey{}, &asker{ctx: ctx, http1: http1}))
}

// until is ctx that ends with its asker as well.
func (a *asker) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func askerOf(ctx context.Context) *asker {
	if a, ok := ctx.Value(askerKey{}).(*asker); ok {
		return a
	}
	return &asker{ctx: ctx}
}

// dial is for http.Transport's DialContext.
func (d *upstreamDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := askerOf(ctx).until(ctx)
	defer cancel()
	return d.guard.DialContext(ctx, network, address)
}

// dialTLS is for http.Transport's DialTLSContext.
func (d *upstreamDialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	by := askerOf(ctx)
	ctx, cancel := by.until(ctx)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &DeniedError{Verdict: DenyHost, Address: address}
	}
	conn, err := d.guard.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	config.ServerName = host
	config.NextProtos = []string{"h2", "http/1.1"}
	if by.http1 {
		config.NextProtos = nil
	}
	client := tls.Client(conn, config)
	ctx, over := context.WithTimeout(ctx, handshakeTimeout)
	defer over()
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS with %s: %w", host, err)
	}
	return client, nil
}
