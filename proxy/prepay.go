package proxy

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	defaultPrepayFor = time.Minute
	// maxPrepay bounds what is remembered; a forgotten endpoint costs one more round trip.
	maxPrepay = 1000
	// prepayPause is how long an endpoint that has refused is not prepaid, whatever it asks
	// for meanwhile: its terms seem to differ from request to request.
	prepayPause = 10 * time.Minute
	// prepayGrace is how long a request waits for an identical one to end before it is sent
	// unpaid after all.
	prepayGrace = 50 * time.Millisecond
)

// prepay remembers what endpoints have asked for, so that the next request can bring the
// payment along. nil remembers nothing.
type prepay struct {
	hosts HostList
	last  time.Duration
	now   pay.Clock

	mu     sync.Mutex
	known  map[endpoint]*list.Element // of *remembered
	recent list.List                  // the most recently used first
	under  map[any]int                // see enter
}

// endpoint is what a challenge is remembered for; the zero value is never prepaid.
type endpoint struct {
	key, method, url, host string
	client                 pay.Hash // of what tells one client's session from another's
}

type remembered struct {
	endpoint  endpoint
	until     time.Time
	refused   bool // not to be prepaid until then
	challenge x402.Challenge
	http1     bool
}

// newPrepay is nil if there is nothing to prepay.
func newPrepay(o PayOptions, now pay.Clock) (*prepay, error) {
	if o.PrepayFor < 0 {
		return nil, fmt.Errorf("proxy: prepay for %s", o.PrepayFor)
	}
	if len(o.Prepay) == 0 {
		return nil, nil
	}
	hosts, err := ParseHosts(o.Prepay...)
	if err != nil {
		return nil, fmt.Errorf("prepay: %w", err)
	}
	p := &prepay{
		hosts: hosts, last: o.PrepayFor, now: now,
		known: make(map[endpoint]*list.Element), under: make(map[any]int),
	}
	if p.last == 0 {
		p.last = defaultPrepayFor
	}
	return p, nil
}

// endpoint is where a request goes, if that may be prepaid.
func (t *Transport) endpoint(req *http.Request, call *Call) endpoint {
	if t.prepay == nil {
		return endpoint{}
	}
	host, err := normalHost(req.URL.Hostname())
	if err != nil || !t.prepay.hosts.Contains(host) {
		return endpoint{}
	}
	session := slices.Concat(req.Header.Values("Cookie"), []string{""}, req.Header.Values("Authorization"))
	return endpoint{
		key: call.Key.ID, method: methodOf(req), url: bookedURL(req.URL), host: req.Host, client: pay.HashOf(session...),
	}
}

// find is what is remembered of an endpoint, if it is to be prepaid.
func (p *prepay) find(e endpoint) (remembered, bool) {
	if p == nil || e == (endpoint{}) {
		return remembered{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.known[e]
	if at == nil {
		return remembered{}, false
	}
	r := at.Value.(*remembered)
	if !p.now().Before(r.until) {
		p.drop(at)
		return remembered{}, false
	}
	p.recent.MoveToFront(at)
	return *r, !r.refused
}

// learn remembers what an endpoint has asked for and was paid with.
func (p *prepay) learn(r remembered) {
	if p == nil || r.endpoint == (endpoint{}) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if at := p.known[r.endpoint]; at != nil {
		if old := at.Value.(*remembered); old.refused && now.Before(old.until) && !r.refused {
			return
		}
		p.drop(at)
	}
	r.until = now.Add(p.last)
	if r.refused {
		r.until = now.Add(prepayPause)
	}
	p.known[r.endpoint] = p.recent.PushFront(&r)
	if p.recent.Len() > maxPrepay {
		p.drop(p.recent.Back())
	}
}

// refused forgets an endpoint that did not take what it had asked for, and learns nothing
// new of it for a while.
func (p *prepay) refused(e endpoint) { p.learn(remembered{endpoint: e, refused: true}) }

// forget drops what is remembered of an endpoint, unless it has refused.
func (p *prepay) forget(e endpoint) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.known[e]; at != nil && !at.Value.(*remembered).refused {
		p.drop(at)
	}
}

// drop is called with mu held.
func (p *prepay) drop(at *list.Element) {
	delete(p.known, p.recent.Remove(at).(*remembered).endpoint)
}

// enter says that something is under way, a request that may yet be paid for (by its
// endpoint) or one that is (by its identity), and returns what ends it.
//
// A client that is cut off and repeats at once can get here before the server has told
// the first call's context. Unpaid, a repeat asks the seller first, which takes long enough
// for that; a prepaid repeat would be a second payment.
func (p *prepay) enter(what any) func() {
	if p == nil || what == (endpoint{}) {
		return func() {}
	}
	p.mu.Lock()
	p.under[what]++
	p.mu.Unlock()
	return p.leave(what)
}

// alone waits a little for nothing of these to be under way, and reports whether that is
// so. If it is, the last one is entered.
func (p *prepay) alone(ctx context.Context, what ...any) (func(), bool) {
	const pause = time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		p.mu.Lock()
		n := 0
		for _, w := range what {
			n += p.under[w]
		}
		if n == 0 {
			p.under[what[len(what)-1]]++
		}
		p.mu.Unlock()
		switch {
		case n == 0:
			return p.leave(what[len(what)-1]), true
		case waited >= prepayGrace:
			return nil, false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, false
		}
	}
}

// leave ends what was entered, once.
func (p *prepay) leave(what any) func() {
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.under[what]--; p.under[what] == 0 {
			delete(p.under, what)
		}
	})
}

// ahead sends the request with a payment at once, if it is known what its endpoint asks
// for. Nothing done means that it has to be asked after all, and that nothing has left.
func (t *Transport) ahead(req *http.Request, call *Call) (resp *http.Response, done bool, err error) {
	where := t.endpoint(req, call)
	known, ok := t.prepay.find(where)
	if !ok || call.left != nil || call.checkKey() != nil { // once a call, at its beginning
		return nil, false, nil
	}
	if t.redirects.to(call.Key.ID, req.URL) != "" {
		return nil, false, nil // it is the answer to another payment, if anything
	}
	if _, err := call.content(req, t.spool); err != nil {
		return nil, false, nil //nolint:nilerr // whoever asks the seller meets it again
	}
	kept, err := call.whole(req)
	if err != nil {
		return nil, false, nil //nolint:nilerr // the body can still be sent once
	}
	m := &memo{
		challenge: known.challenge, method: methodOf(req), uri: req.URL.RequestURI(), body: kept, http1: known.http1, host: req.URL.Host,
		endpoint: where,
	}
	var alone bool
	if call.left, alone = t.prepay.alone(call.caller, where, call.identity(req, m)); !alone {
		return nil, false, nil
	}
	if err := t.open(req, call, m, ""); err != nil {
		t.log.Info("not prepaid", "host", req.URL.Host, "error", err)
		t.prepay.forget(where)
		return nil, false, nil
	}
	m.prepaid = !m.attempt.Repeats() // an earlier payment is judged as in the ordinary way
	resp, err = t.pay(req, call, nil)
	return resp, true, err
}

// judged tells prepay how the answer to a payload went, and prepares it for the next one.
func (t *Transport) judged(m *memo, status int) {
	switch {
	case m.endpoint == (endpoint{}):
	case m.prepaid && status == http.StatusPaymentRequired:
		t.prepay.refused(m.endpoint)
	case status >= http.StatusBadRequest:
		t.prepay.forget(m.endpoint)
	case status >= 200 && status < 300 && !m.prepaid && !m.attempt.Repeats():
		m.delivered = func() {
			t.prepay.learn(remembered{endpoint: m.endpoint, challenge: m.challenge, http1: m.http1})
		}
	}
}
