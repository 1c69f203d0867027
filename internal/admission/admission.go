// Package admission bounds how much is worked on at once. What finds no room waits a little,
// in turn with others, and is then refused instead of making everything slow for everybody.
//
// How a refusal is told to a client is the doors' affair.
package admission

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Options are the bounds of a gate. Zero values are the defaults.
type Options struct {
	// Concurrent is how many are worked on at once; three quarters of them may be one
	// party's. Default: 2048; negative: no bounds at all.
	Concurrent int
	// Queued is how many may wait. Default: as many as Concurrent.
	Queued int
	// Wait is how long one waits at most. Default: 10 s.
	Wait time.Duration
	// Refused hears of every refusal. May be nil.
	Refused func()
}

const (
	defaultConcurrent = 2048
	defaultWait       = 10 * time.Second
)

// RetryAfter is what who was refused is asked to wait.
const RetryAfter = 5 * time.Second

// FullError: there was no room, and nothing was begun.
type FullError struct{ Waited time.Duration }

func (e *FullError) Error() string {
	if e.Waited == 0 {
		return "too much is under way, and too many are waiting"
	}
	return fmt.Sprintf("too much is under way for %s", e.Waited.Round(time.Millisecond))
}

// Gate lets a bounded number in. Parties, such as API keys, take turns: the flood of one
// neither fills the places nor the queue for others. It is safe for concurrent use. A nil
// Gate lets everybody in.
type Gate struct {
	opts  Options
	share int // places of one party

	mu      sync.Mutex
	inside  int
	queued  int
	parties map[string]*party
	turns   list.List // of *party: those with somebody waiting, the next one first
}

type party struct {
	name    string
	inside  int
	waiting list.List // of *waiter, the first one first
	turn    *list.Element
}

type waiter struct {
	in   *party
	at   *list.Element // nil once it was let in or refused
	done chan bool     // gets whether it was let in; room for one; nil: it was at once
}

// New makes a gate; nil when there are no bounds.
func New(o Options) *Gate {
	if o.Concurrent < 0 {
		return nil
	}
	if o.Concurrent == 0 {
		o.Concurrent = defaultConcurrent
	}
	if o.Queued <= 0 {
		o.Queued = o.Concurrent
	}
	if o.Wait <= 0 {
		o.Wait = defaultWait
	}
	if o.Refused == nil {
		o.Refused = func() {}
	}
	return &Gate{opts: o, share: max(1, o.Concurrent*3/4), parties: make(map[string]*party)}
}

// Enter waits for a place. leave gives it back, and must be called once. The error is an
// *FullError, or that of a context that ended.
func (g *Gate) Enter(ctx context.Context, who string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	w, err := g.take(who)
	if err != nil {
		g.opts.Refused()
		return nil, err
	}
	if w.done == nil {
		return func() { g.leave(w.in) }, nil
	}
	return g.await(ctx, w)
}

// take takes a place, or one in the queue.
func (g *Gate) take(who string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parties[who]
	if p == nil {
		p = &party{name: who}
	}
	w := &waiter{in: p}
	// If a place is free, whoever waits belongs to a party that has its share.
	if g.inside < g.opts.Concurrent && p.inside < g.share && p.waiting.Len() == 0 {
		g.parties[who] = p
		g.inside++
		p.inside++
		return w, nil
	}
	if g.queued >= g.opts.Queued && !g.displace(p) {
		return nil, &FullError{}
	}
	g.parties[who] = p
	w.done = make(chan bool, 1)
	w.at = p.waiting.PushBack(w)
	if p.turn == nil {
		p.turn = g.turns.PushBack(p)
	}
	g.queued++
	return w, nil
}

// displace refuses the last one of the party that has most waiting, if another party's place
// in a full queue is worth it.
func (g *Gate) displace(by *party) bool {
	var most *party
	for e := g.turns.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*party); most == nil || p.waiting.Len() > most.waiting.Len() {
			most = p
		}
	}
	if most == nil || most.waiting.Len() <= by.waiting.Len()+1 {
		return false
	}
	last := most.waiting.Back().Value.(*waiter)
	g.drop(last)
	last.done <- false
	return true
}

func (g *Gate) await(ctx context.Context, w *waiter) (leave func(), err error) {
	began := time.Now()
	timer := time.NewTimer(g.opts.Wait)
	defer timer.Stop()
	var in bool
	select {
	case in = <-w.done:
	case <-timer.C:
		in = g.stop(w)
	case <-ctx.Done():
		if g.stop(w) {
			g.leave(w.in)
		}
		return nil, ctx.Err()
	}
	if !in {
		g.opts.Refused()
		return nil, &FullError{Waited: time.Since(began)}
	}
	return func() { g.leave(w.in) }, nil
}

// stop ends the waiting, and reports whether the waiter was let in at the last moment.
func (g *Gate) stop(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.at == nil {
		return <-w.done
	}
	g.drop(w)
	return false
}

// drop takes a waiter out of the queue. It is called with mu held, as are those below.
func (g *Gate) drop(w *waiter) {
	p := w.in
	p.waiting.Remove(w.at)
	w.at = nil
	g.queued--
	if p.waiting.Len() == 0 {
		g.turns.Remove(p.turn)
		p.turn = nil
	}
	g.forget(p)
}

func (g *Gate) forget(p *party) {
	if p.inside == 0 && p.waiting.Len() == 0 {
		delete(g.parties, p.name)
	}
}

// leave gives a place back, to whoever's turn it is.
func (g *Gate) leave(p *party) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	p.inside--
	for e := g.turns.Front(); e != nil; e = e.Next() {
		next := e.Value.(*party)
		if next.inside >= g.share {
			continue
		}
		w := next.waiting.Front().Value.(*waiter)
		g.inside++
		next.inside++
		g.turns.MoveToBack(e)
		g.drop(w)
		w.done <- true
		break
	}
	g.forget(p)
}

// Shares bounds what each party has under way at the same time; there is no waiting. It is
// safe for concurrent use.
type Shares struct {
	most int

	mu   sync.Mutex
	have map[string]int
}

// NewShares gives each party so many places.
func NewShares(most int) *Shares { return &Shares{most: most, have: make(map[string]int)} }

// Take takes a place, which leave gives back, or fails with an *FullError.
func (s *Shares) Take(who string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have[who] >= s.most {
		return nil, &FullError{}
	}
	s.have[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.have[who]--; s.have[who] == 0 {
			delete(s.have, who)
		}
	}, nil
}
