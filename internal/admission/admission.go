// Package admission bounds the work that is done at once. Without room, a caller waits in a fair
// queue, and is refused after a bounded time, so that overload does not slow down every caller.
package admission

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Options configures a Gate. Zero values mean the defaults.
type Options struct {
	// Concurrent bounds the callers inside. Default: 2048. Negative: no bounds at all.
	Concurrent int
	// Share bounds the callers of one party that are inside. Default: three quarters of Concurrent.
	Share int
	// Queued bounds the waiting callers. Default: the value of Concurrent.
	Queued int
	// Wait bounds the time in the queue. Default: 10 s.
	Wait time.Duration
	// Refused, when set, is called at every refusal.
	Refused func()
}

const (
	defaultConcurrent = 2048
	defaultWait       = 10 * time.Second
)

// RetryAfter is sent to refused clients.
const RetryAfter = 5 * time.Second

// FullError reports that there was no room. No work was begun.
type FullError struct{ Waited time.Duration }

func (e *FullError) Error() string {
	if e.Waited == 0 {
		return "too much is under way, and too many are waiting"
	}
	return fmt.Sprintf("too much is under way for %s", e.Waited.Round(time.Millisecond))
}

// Gate admits a bounded number of callers. Each caller belongs to a party, such as an API key.
// Parties take turns: a flood from one party takes neither all places nor all of the queue. A Gate
// is safe for concurrent use. A nil Gate admits every caller.
type Gate struct {
	opts Options

	mu      sync.Mutex
	inside  int
	queued  int
	parties map[string]*party
	queue   list.List // *party with a waiting caller, next one first
}

type party struct {
	name    string
	inside  int
	waiting list.List // *waiter, first one first
	entry   *list.Element
}

type waiter struct {
	party    *party
	entry    *list.Element // nil once admitted or refused
	admitted chan bool     // receives one value; nil when the caller was admitted at once
}

// New returns a gate, or nil when there are no bounds.
func New(o Options) *Gate {
	if o.Concurrent < 0 {
		return nil
	}
	o.Concurrent = cmp.Or(o.Concurrent, defaultConcurrent)
	o.Queued, o.Wait = cmp.Or(max(o.Queued, 0), o.Concurrent), cmp.Or(max(o.Wait, 0), defaultWait)
	o.Share = cmp.Or(max(o.Share, 0), max(1, o.Concurrent*3/4))
	if o.Refused == nil {
		o.Refused = func() {}
	}
	return &Gate{opts: o, parties: make(map[string]*party)}
}

// Enter waits for a place for this party. The caller must call leave once to give the place back.
// The error is a *FullError, or that of a context that ended.
func (g *Gate) Enter(ctx context.Context, name string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	w, err := g.join(name)
	if err != nil {
		g.opts.Refused()
		return nil, err
	}
	if w.admitted == nil {
		return func() { g.leave(w.party) }, nil
	}
	return g.await(ctx, w)
}

// join takes a place, or joins the queue.
func (g *Gate) join(name string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parties[name]
	if p == nil {
		p = &party{name: name}
	}
	w := &waiter{party: p}
	// While a place is free, every waiting caller belongs to a party that has its full share.
	if g.inside < g.opts.Concurrent && p.inside < g.opts.Share && p.waiting.Len() == 0 {
		g.parties[name] = p
		g.inside++
		p.inside++
		return w, nil
	}
	if g.queued >= g.opts.Queued && !g.displace(p) {
		return nil, &FullError{}
	}
	g.parties[name] = p
	w.admitted = make(chan bool, 1)
	w.entry = p.waiting.PushBack(w)
	if p.entry == nil {
		p.entry = g.queue.PushBack(p)
	}
	g.queued++
	return w, nil
}

// displace makes room in a full queue. It refuses the last caller of the party with the longest
// queue, if that queue is longer by at least two.
func (g *Gate) displace(by *party) bool {
	var most *party
	for e := g.queue.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*party); most == nil || p.waiting.Len() > most.waiting.Len() {
			most = p
		}
	}
	if most == nil || most.waiting.Len() <= by.waiting.Len()+1 {
		return false
	}
	last := most.waiting.Back().Value.(*waiter)
	g.dequeue(last)
	last.admitted <- false
	return true
}

func (g *Gate) await(ctx context.Context, w *waiter) (leave func(), err error) {
	began := time.Now()
	timer := time.NewTimer(g.opts.Wait)
	defer timer.Stop()
	var admitted bool
	select {
	case admitted = <-w.admitted:
	case <-timer.C:
		admitted = g.withdraw(w)
	case <-ctx.Done():
		if g.withdraw(w) {
			g.leave(w.party)
		}
		return nil, ctx.Err()
	}
	if !admitted {
		g.opts.Refused()
		return nil, &FullError{Waited: time.Since(began)}
	}
	return func() { g.leave(w.party) }, nil
}

// withdraw takes a waiter out of the queue. It returns true when the waiter was admitted at the
// last moment.
func (g *Gate) withdraw(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.entry == nil {
		return <-w.admitted
	}
	g.dequeue(w)
	return false
}

// dequeue removes a waiter from the queue. Its caller must hold mu.
func (g *Gate) dequeue(w *waiter) {
	p := w.party
	p.waiting.Remove(w.entry)
	w.entry = nil
	g.queued--
	if p.waiting.Len() == 0 {
		g.queue.Remove(p.entry)
		p.entry = nil
	}
	g.removeIdle(p)
}

func (g *Gate) removeIdle(p *party) {
	if p.inside == 0 && p.waiting.Len() == 0 {
		delete(g.parties, p.name)
	}
}

// leave gives a place back, and admits the next waiter whose party has room in its share.
func (g *Gate) leave(p *party) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	p.inside--
	for e := g.queue.Front(); e != nil; e = e.Next() {
		next := e.Value.(*party)
		if next.inside >= g.opts.Share {
			continue
		}
		w := next.waiting.Front().Value.(*waiter)
		g.inside++
		next.inside++
		g.queue.MoveToBack(e)
		g.dequeue(w)
		w.admitted <- true
		break
	}
	g.removeIdle(p)
}

// Shares bounds the work of each party. A party without a free place is refused at once. It is safe
// for concurrent use.
type Shares struct {
	most int

	mu   sync.Mutex
	held map[string]int
}

// NewShares returns Shares that give each party this many places.
func NewShares(most int) *Shares { return &Shares{most: most, held: make(map[string]int)} }

// Take takes a place, which leave gives back. Without a free place it fails with a *FullError.
func (s *Shares) Take(party string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[party] >= s.most {
		return nil, &FullError{}
	}
	s.held[party]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[party]--; s.held[party] == 0 {
			delete(s.held, party)
		}
	}, nil
}
