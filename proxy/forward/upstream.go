package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy"
)

// maxPools bounds the keys that have idle connections to upstreams.
const maxPools = 256

// pools keeps the connections to upstreams of each key apart. Some upstreams tie a login to a
// connection. Others misread a request, and take the next bytes on the connection for another one.
type pools struct {
	open func() *http.Transport

	mu    sync.Mutex
	byKey *lru.Cache[string, *pool]
}

type pool struct {
	transport *http.Transport
	opening   atomic.Int32 // connections
}

func newPools(open func() *http.Transport) *pools {
	// Connections that are in use now are closed once they have been idle for long enough.
	byKey, err := lru.NewWithEvict(maxPools, func(_ string, p *pool) { p.transport.CloseIdleConnections() })
	if err != nil {
		panic(err) // the size is a constant
	}
	return &pools{open: open, byKey: byKey}
}

// RoundTrip sends a request over a connection of its call's key.
func (p *pools) RoundTrip(req *http.Request) (*http.Response, error) {
	key := ""
	if sent := relayedOf(req.Context()); sent != nil {
		key = sent.call.Key.ID
	}
	return p.of(key).RoundTrip(req)
}

func (p *pools) of(key string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, ok := p.byKey.Get(key)
	if !ok {
		of = &pool{transport: p.open()}
		p.byKey.Add(key, of)
	}
	return of
}

// CloseIdleConnections closes what is not in use.
func (p *pools) CloseIdleConnections() {
	for _, one := range p.byKey.Values() {
		one.transport.CloseIdleConnections()
	}
}

// handshakeTimeout bounds the TLS handshake with an upstream.
const handshakeTimeout = 10 * time.Second

// maxUnusedDials bounds the connections that are being opened for requests of one key that no longer
// need them.
const maxUnusedDials = 64

// upstreamDialer opens the connections of an upstream transport. The standard library goes on
// opening a connection when its request is over, and keeps it for later ones. A client that asks and
// takes back, over and over, would have handshakes without bound under way: so a connection that is
// being opened ends with a request that failed.
type upstreamDialer struct {
	guard *guard.Dialer
	tls   *tls.Config
}

type dialOriginKey struct{}

// dialOrigin tells the dialer about the request that a connection is opened for.
type dialOrigin struct {
	http1   bool            // it speaks WebSocket, which HTTP/2 here does not
	life    context.Context // ends when no connection is to be opened for it any more
	end     context.CancelFunc
	opening *atomic.Int32 // connections of the pool that are being opened
}

// RoundTrip sends a request. Its context reaches the dialer without its end, so a note in it
// says what became of the request.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	by := &dialOrigin{
		http1:   httpguts.HeaderValuesContainsToken(req.Header["Connection"], "upgrade") && req.Header.Get("Upgrade") != "",
		opening: &p.opening,
	}
	by.life, by.end = context.WithCancel(context.Background())
	resp, err := p.transport.RoundTrip(req.WithContext(context.WithValue(req.Context(), dialOriginKey{}, by)))
	if err != nil || p.opening.Load() > maxUnusedDials {
		by.end()
	}
	return resp, err
}

// beginDial returns the origin of a dial, and a context that ends with ctx and, until done is called,
// with the origin.
func beginDial(ctx context.Context) (_ context.Context, by *dialOrigin, done func()) {
	by = ctx.Value(dialOriginKey{}).(*dialOrigin)
	by.opening.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(by.life, func() { cancel(context.Cause(by.life)) })
	return ctx, by, func() {
		stop()
		cancel(nil)
		by.opening.Add(-1)
	}
}

// dial implements http.Transport's DialContext.
func (d *upstreamDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, _, done := beginDial(ctx)
	defer done()
	return d.guard.DialContext(ctx, network, address)
}

// dialTLS implements http.Transport's DialTLSContext.
func (d *upstreamDialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, by, done := beginDial(ctx)
	defer done()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &guard.DeniedError{Verdict: guard.DenyHost, Address: address}
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
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // in the handshake
		asked = true
		return new(tls.Certificate), nil
	}
	client := tls.Client(conn, config)
	ctx, over := context.WithTimeout(ctx, handshakeTimeout)
	defer over()
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &proxy.HandshakeError{Host: host, Err: err, AskedForCertificate: asked}
	}
	return client, nil
}

// upstreamPing bounds the silence of an HTTP/2 connection to an upstream that is in use. After it,
// purser sends a ping.
const upstreamPing = 30 * time.Second

// newUpstream makes the transport that the proxy sends with. It adds nothing to requests and decodes
// nothing in answers. Every connection goes through the guard, and every certificate is verified. The time
// to the header of an answer is bounded by the paying transport.
func newUpstream(g *guard.Dialer, roots *x509.CertPool) *http.Transport {
	d := &upstreamDialer{guard: g, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	return &http.Transport{
		Proxy:                  nil, // another proxy would move the guard's judgement to the wrong address
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true, // as it is not by itself with dialers
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: upstreamPing},
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
	}
}
