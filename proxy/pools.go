package proxy

import (
	"container/list"
	"net/http"
	"sync"
	"sync/atomic"
)

// maxPools bounds how many keys have connections to upstreams that wait to be used again.
const maxPools = 256

// pools keeps the connections to upstreams apart for each key: some upstreams tie a login
// to a connection, and one that reads a request otherwise than it was meant takes what
// follows on the connection for something else.
type pools struct {
	open func() *http.Transport

	mu     sync.Mutex
	byKey  map[string]*list.Element // of *pool
	recent list.List                // the most recently used first
}

type pool struct {
	key       string
	transport *http.Transport
	opening   atomic.Int32 // connections
}

func newPools(open func() *http.Transport) *pools {
	return &pools{open: open, byKey: make(map[string]*list.Element)}
}

// RoundTrip sends a request over a connection of its call's key.
func (p *pools) RoundTrip(req *http.Request) (*http.Response, error) {
	key := ""
	if call := callOf(req.Context()); call != nil {
		key = call.Key.ID
	}
	return p.of(key).RoundTrip(req)
}

func (p *pools) of(key string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.byKey[key]; at != nil {
		p.recent.MoveToFront(at)
		return at.Value.(*pool)
	}
	fresh := &pool{key: key, transport: p.open()}
	p.byKey[key] = p.recent.PushFront(fresh)
	if p.recent.Len() > maxPools {
		last := p.recent.Remove(p.recent.Back()).(*pool)
		delete(p.byKey, last.key)
		// What is in use now is closed once it has been idle for long enough.
		last.transport.CloseIdleConnections()
	}
	return fresh
}

// CloseIdleConnections closes what is not in use.
func (p *pools) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := p.recent.Front(); at != nil; at = at.Next() {
		at.Value.(*pool).transport.CloseIdleConnections()
	}
}
