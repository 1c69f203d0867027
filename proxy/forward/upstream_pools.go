package forward

import (
	"net/http"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
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
