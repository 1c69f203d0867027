package conns

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/purserpay/purser/internal/perclient"
)

// Limits bound open connections. A limit of 0 is none.
type Limits struct {
	// Max bounds all connections, MaxPeer those of one client address (for IPv6, of one /64).
	Max, MaxPeer int
	// Dropped hears of every connection that was closed for want of room. May be nil.
	Dropped func()
}

// Set holds the open connections of one server. A new connection that finds no room takes the
// place of the oldest one that has not sent a whole request yet, else of the one that has been idle
// for longest. If every connection has a request under way, the new one is closed.
type Set struct {
	limits Limits

	mu    sync.Mutex
	all   map[identity]*tracked
	peers map[netip.Addr]int
	fresh list.List // of *tracked without a request so far, the oldest first
	idle  list.List // of *tracked between requests, the longest idle first
}

// NewSet makes an empty set.
func NewSet(l Limits) *Set {
	if l.Dropped == nil {
		l.Dropped = func() {}
	}
	return &Set{limits: l, all: make(map[identity]*tracked), peers: make(map[netip.Addr]int)}
}

// Listen gives the set the connections of a listener, which are read ahead. Connections that
// speak TLS already stay as they are, because net/http knows them by their type.
func (s *Set) Listen(inner net.Listener) net.Listener { return &listener{Listener: inner, set: s} }

type listener struct {
	net.Listener
	set *Set
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, encrypted := c.(*tls.Conn); encrypted {
		return c, nil
	}
	t := &tracked{Ahead: NewAhead(c), set: l.set}
	if _, known := c.(*net.TCPConn); known {
		t.once.Do(t.enter)
	}
	return t, nil
}

// tracked is a connection of a set.
type tracked struct {
	*Ahead
	set  *Set
	once sync.Once

	// Guarded by Set.mu.
	id     identity // zero until it is in the set
	peer   netip.Addr
	closed bool
	in     *list.List // fresh, idle, or nil while a request is under way
	at     *list.Element
}

// Read enters a connection in the set that was not entered when it was accepted. Its address may
// come from a header that the client has yet to send, as with the PROXY protocol, and no other
// connection may wait for that.
func (t *tracked) Read(p []byte) (int, error) {
	t.once.Do(t.enter)
	return t.Ahead.Read(p)
}

func (t *tracked) enter() {
	id := identify(t)
	if !id.remote.IsValid() { // connections of a Unix socket cannot be told apart
		return
	}
	for _, v := range t.set.add(t, id, perclient.Network(id.remote.Addr())) {
		_ = v.Close()
		t.set.limits.Dropped()
	}
}

// Close closes the connection and gives its place back.
func (t *tracked) Close() error {
	t.set.mu.Lock()
	t.closed = true
	t.set.remove(t)
	t.set.mu.Unlock()
	return t.Ahead.Close()
}

// add makes room for a connection and returns those to close for it, which is the new one itself
// if there is no room.
func (s *Set) add(t *tracked, id identity, from netip.Addr) (victims []*tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed {
		return nil
	}
	t.id, t.peer = id, from
	makeRoom := func(of func(*tracked) bool) bool {
		v := s.quiet(of)
		if v == nil {
			return false
		}
		victims = append(victims, v)
		s.remove(v)
		return true
	}
	if s.limits.MaxPeer > 0 && s.peers[t.peer] >= s.limits.MaxPeer &&
		!makeRoom(func(o *tracked) bool { return o.peer == t.peer }) {
		return append(victims, t)
	}
	if s.limits.Max > 0 && len(s.all) >= s.limits.Max && !makeRoom(func(*tracked) bool { return true }) {
		return append(victims, t)
	}
	s.all[t.id] = t
	s.peers[t.peer]++
	s.move(t, &s.fresh)
	return victims
}

// quiet returns the first connection of these that can be spared, or nil.
func (s *Set) quiet(of func(*tracked) bool) *tracked {
	for _, l := range []*list.List{&s.fresh, &s.idle} {
		for e := l.Front(); e != nil; e = e.Next() {
			if t := e.Value.(*tracked); of(t) {
				return t
			}
		}
	}
	return nil
}

// State notes what the server says of a connection. It is for http.Server.ConnState, and c may
// be another connection around the set's.
func (s *Set) State(c net.Conn, state http.ConnState) {
	if state == http.StateNew || state == http.StateClosed { // the set hears of both from the connection
		return
	}
	id := identify(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.all[id]
	switch {
	case t == nil:
	case state == http.StateIdle:
		s.move(t, &s.idle)
	case state == http.StateActive:
		s.move(t, nil)
	case state == http.StateHijacked:
		t.Release()
		s.move(t, nil)
	}
}

// move puts a connection at the end of a list, or on none. The caller holds mu.
func (s *Set) move(t *tracked, to *list.List) {
	if t.in != nil {
		t.in.Remove(t.at)
	}
	if t.in, t.at = to, nil; to != nil {
		t.at = to.PushBack(t)
	}
}

// remove forgets a connection. The caller holds mu.
func (s *Set) remove(t *tracked) {
	if t.id == (identity{}) || s.all[t.id] != t {
		return
	}
	delete(s.all, t.id)
	s.move(t, nil)
	if s.peers[t.peer]--; s.peers[t.peer] == 0 {
		delete(s.peers, t.peer)
	}
}

// identity tells one open connection from all others.
type identity struct{ remote, local netip.AddrPort }

func identify(c net.Conn) identity {
	return identity{addrPort(c.RemoteAddr()), addrPort(c.LocalAddr())}
}

// addrPort returns an address without the detour over its text: the set is asked twice for each
// request, and texts took 2 % of an unpaid one's CPU. It is zero for an address without a port.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	p, _ := netip.ParseAddrPort(a.String())
	return p
}
