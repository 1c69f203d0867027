package conns

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/peer"
)

// Limits bound open connections.
type Limits struct {
	// Max are all connections, MaxPeer those of one client address (for IPv6, of one /64).
	Max, MaxPeer int
	// Dropped hears of every connection that was closed for want of room. May be nil.
	Dropped func()
	// Places are the process's, for connections to be handed over when a listener is closed and
	// another goes on at its address. Nil: nothing is handed over.
	Places *Places
}

// Set are the connections of one server. When there is no room for a new one, one without a
// request is closed: the oldest of those that have not sent a whole request yet, else the one
// that has been idle for longest. So whoever collects connections collects them from himself,
// and who has something to say is heard. Only if every connection has a request under way is
// the new one closed.
type Set struct {
	limits Limits
	// patience is how long Retire waits for requests that have just come.
	patience time.Duration

	mu sync.Mutex
	// listeners are those that were made.
	listeners []*listener
	all       map[string]*tracked // by both addresses
	peers     map[netip.Addr]int
	fresh     list.List // of *tracked, the oldest first: nothing was asked on them yet
	waited    list.List // idle between requests, the longest first
}

// tracked is a connection of a set.
type tracked struct {
	*Ahead
	passing
	set  *Set
	from *listener
	id   string
	peer netip.Addr

	in *list.List // fresh, waited, or nil while a request is under way; guarded by Set.mu
	at *list.Element
}

// NewSet makes an empty set. A limit of 0 is none.
func NewSet(l Limits) *Set {
	if l.Dropped == nil {
		l.Dropped = func() {}
	}
	if l.Places == nil {
		l.Places = new(Places)
	}
	return &Set{limits: l, patience: patience, all: make(map[string]*tracked), peers: make(map[netip.Addr]int)}
}

// Listen gives the set the connections of a listener, which are read ahead. Those that speak
// TLS already stay as they are, because net/http knows them by their type. With a listener that
// is wrapped below TLS the limits hold for them, and only they.
func (s *Set) Listen(inner net.Listener) net.Listener {
	l := &listener{set: s, addr: inner.Addr(), woken: make(chan struct{}, 1), closed: make(chan struct{}), broken: make(chan struct{})}
	s.limits.Places.open(l, inner)
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	return l
}

// admit makes room for a connection, or returns nil.
func (l *listener) admit(c *Ahead) *tracked {
	s := l.set
	t := &tracked{Ahead: c, set: s, from: l, id: identify(c), peer: peer.Of(c.RemoteAddr().String())}
	s.mu.Lock()
	var victims []*tracked
	defer func() {
		s.mu.Unlock()
		for _, v := range victims { // without the lock, as closing takes it
			_ = v.Close()
			s.limits.Dropped()
		}
	}()
	if s.limits.MaxPeer > 0 && s.peers[t.peer] >= s.limits.MaxPeer {
		v := s.quiet(func(o *tracked) bool { return o.peer == t.peer })
		if v == nil {
			return nil
		}
		victims = append(victims, v)
		s.remove(v)
	}
	if s.limits.Max > 0 && len(s.all) >= s.limits.Max {
		v := s.quiet(func(*tracked) bool { return true })
		if v == nil {
			return nil
		}
		victims = append(victims, v)
		s.remove(v)
	}
	s.all[t.id] = t
	s.peers[t.peer]++
	s.move(t, &s.fresh)
	return t
}

// quiet is the connection that can be spared first.
func (s *Set) quiet(of func(*tracked) bool) *tracked {
	for _, l := range []*list.List{&s.fresh, &s.waited} {
		for e := l.Front(); e != nil; e = e.Next() {
			if t := e.Value.(*tracked); of(t) {
				return t
			}
		}
	}
	return nil
}

// State is for http.Server.ConnState. c may be another connection around the set's.
func (s *Set) State(c net.Conn, state http.ConnState) {
	if late := s.note(c, state); late != nil {
		late.tooLate()
	}
}

// note returns the connection if a request has come on it too late.
func (s *Set) note(c net.Conn, state http.ConnState) (late *tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.all[identify(c)]
	if t == nil {
		return nil
	}
	over, isLate := t.moved(c, state)
	if over {
		s.remove(t)
		_ = t.Ahead.Close()
		return nil
	}
	if isLate {
		late = t
	}
	switch state {
	case http.StateIdle:
		s.move(t, &s.waited)
	case http.StateActive:
		s.move(t, nil)
	case http.StateHijacked:
		t.Release()
		s.move(t, nil)
	case http.StateNew, http.StateClosed: // as it was; the latter comes through Close
	}
	return late
}

// Open is how many connections there are.
func (s *Set) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// move is called with mu held.
func (s *Set) move(t *tracked, to *list.List) {
	if t.in != nil {
		t.in.Remove(t.at)
	}
	if t.in, t.at = to, nil; to != nil {
		t.at = to.PushBack(t)
	}
}

// remove is called with mu held.
func (s *Set) remove(t *tracked) {
	if s.all[t.id] != t {
		return
	}
	delete(s.all, t.id)
	s.move(t, nil)
	if s.peers[t.peer]--; s.peers[t.peer] == 0 {
		delete(s.peers, t.peer)
	}
}

// Close closes the connection and gives its place back, or hands it over.
func (t *tracked) Close() error {
	if t.handOver() {
		return nil
	}
	t.set.mu.Lock()
	t.set.remove(t)
	t.set.mu.Unlock()
	return t.Ahead.Close()
}

// identify tells one open connection from all others.
func identify(c net.Conn) string { return c.RemoteAddr().String() + " " + c.LocalAddr().String() }
