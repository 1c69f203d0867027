package conns

import (
	"crypto/tls"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/peer"
)

// Places are the addresses that a process listens on. The servers that follow each other at one
// have one socket there, the first one's: when a socket is closed, the system resets the
// connections that wait to be accepted from it.
type Places struct {
	mu     sync.Mutex
	byAddr map[string]*place
}

// place is an address and who listens there, the oldest first.
type place struct {
	listeners []*listener
	shared    *socket
}

// socket is what connections are accepted from.
type socket struct {
	net.Listener
	plain bool          // closing it ends accepting
	done  chan struct{} // closed when nothing is accepted any more
	users int           // guarded by Places.mu
}

// listener is one server's part in a place.
type listener struct {
	set    *Set
	addr   net.Addr
	socket *socket

	once    sync.Once
	closed  chan struct{}
	broken  chan struct{} // closed when the socket cannot be accepted from any more
	failure error         // why; readable then
	failed  atomic.Bool   // the server has been told, and gives up listening
	retired atomic.Bool   // another listener goes on, if there is one at the address

	mu    sync.Mutex
	queue []*Ahead
	woken chan struct{} // has something when there are some
}

// open makes a listener known and has it accept from the place's socket, or from its own one if
// there is none yet, or if that is not a plain one: what is around it may differ.
func (p *Places) open(l *listener, inner net.Listener) {
	p.mu.Lock()
	at := p.at(l.addr)
	if p.byAddr == nil {
		p.byAddr = make(map[string]*place)
	}
	p.byAddr[nameOf(l.addr)] = at
	plain := plainSocket(inner)
	var spare net.Listener
	switch {
	case plain != nil && at.shared != nil:
		l.socket, spare = at.shared, inner
	default:
		l.socket = &socket{Listener: inner, plain: plain != nil, done: make(chan struct{})}
		if plain != nil {
			at.shared = l.socket
		}
	}
	l.socket.users++
	at.listeners = append(at.listeners, l)
	p.mu.Unlock()
	if spare == nil {
		go p.accept(l.socket, l.addr) // until the socket is closed
		return
	}
	for { // what came to it until now; waiting a little is what asks for it
		_ = plain.SetDeadline(time.Now().Add(100 * time.Microsecond))
		c, err := plain.Accept()
		if err != nil {
			break
		}
		p.deliver(l.socket, l.addr, c)
	}
	_ = spare.Close()
}

// plainSocket is the TCP socket that Caddy wraps only to count it, or nil.
func plainSocket(l net.Listener) *net.TCPListener {
	if t, ok := l.(*net.TCPListener); ok {
		return t
	}
	v := reflect.ValueOf(l)
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != "github.com/caddyserver/caddy/v2" {
		return nil
	}
	field := v.FieldByName("Listener")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	t, _ := field.Interface().(*net.TCPListener)
	return t
}

func nameOf(addr net.Addr) string { return addr.Network() + " " + addr.String() }

// at is the place of an address. It is called with mu held.
func (p *Places) at(addr net.Addr) *place {
	if at := p.byAddr[nameOf(addr)]; at != nil {
		return at
	}
	return new(place) // nobody is there
}

// accept takes what comes to a socket.
func (p *Places) accept(s *socket, addr net.Addr) {
	defer close(s.done)
	for {
		c, err := s.Accept()
		switch {
		case err == nil && s.plain:
			p.deliver(s, addr, c)
			continue
		case err == nil: // another wrapper may read a header of its own for the address, as long as that takes
			go func() {
				_ = c.RemoteAddr()
				p.deliver(s, addr, c)
			}()
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() {
			time.Sleep(5 * time.Millisecond) // as many connections as there may be
			continue
		}
		p.mu.Lock()
		at := p.at(addr)
		for _, l := range at.listeners {
			if l.socket == s {
				l.failure = err
				close(l.broken)
			}
		}
		if at.shared == s {
			at.shared = nil
		}
		p.mu.Unlock()
		return
	}
}

// deliver gives a connection to whoever serves at the place: the one that has for longest, as
// long as it goes on. One that was just being accepted when the last user of its socket left is
// the newest listener's.
func (p *Places) deliver(s *socket, addr net.Addr, c net.Conn) {
	p.mu.Lock()
	var to *listener
	listeners := p.at(addr).listeners
	if len(listeners) > 0 {
		to = listeners[len(listeners)-1]
	}
	for _, l := range listeners {
		if l.socket != s {
			continue
		}
		if to = l; !l.retired.Load() {
			break
		}
	}
	p.mu.Unlock()
	if to == nil {
		_ = c.Close()
		return
	}
	to.take(NewAhead(c))
}

// heir is the newest other listener at the address of one that is not used any more, or nil.
func (l *listener) heir() *listener {
	if !l.retired.Load() || l.failed.Load() {
		return nil
	}
	p := l.set.limits.Places
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range slices.Backward(p.at(l.addr).listeners) {
		if o != l {
			return o
		}
	}
	return nil
}

// take gives the listener a connection.
func (l *listener) take(c *Ahead) {
	l.mu.Lock()
	l.queue = append(l.queue, c)
	l.mu.Unlock()
	l.wake()
	select {
	case <-l.closed:
		l.giveUp()
	default:
	}
}

func (l *listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// giveUp has the heir take what was not accepted, or closes it if there is none.
func (l *listener) giveUp() {
	l.mu.Lock()
	left := l.queue
	l.queue = nil
	l.mu.Unlock()
	heir := l.heir()
	for _, c := range left {
		if heir != nil {
			heir.take(c)
		} else {
			_ = c.Close()
		}
	}
}

// next is a connection that came, or nil.
func (l *listener) next() *Ahead {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	c := l.queue[0]
	if l.queue = l.queue[1:]; len(l.queue) > 0 {
		l.wake()
	}
	return c
}

// Accept waits for a connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-l.broken:
			l.failed.Store(true) // the server may close it without being shut down, and serve on
			return nil, l.failure
		case <-l.woken:
		}
		c := l.next()
		if c == nil {
			continue
		}
		if _, encrypted := c.Conn.(*tls.Conn); encrypted {
			return c.Conn, nil
		}
		if !peer.Of(c.Conn.RemoteAddr().String()).IsValid() {
			return c, nil // on a Unix socket, where one connection is not told from another
		}
		if heir := l.heir(); heir != nil {
			heir.take(c)
			continue
		}
		if t := l.admit(c); t != nil {
			return t, nil
		}
		_ = c.Close()
		l.set.limits.Dropped()
	}
}

// Close ends the listener. Its socket is closed with its last listener.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		p := l.set.limits.Places
		l.retired.Store(true)
		p.mu.Lock()
		at := p.at(l.addr)
		at.listeners = slices.DeleteFunc(at.listeners, func(o *listener) bool { return o == l })
		l.socket.users--
		last := l.socket.users == 0
		if last && at.shared == l.socket {
			at.shared = nil
		}
		if len(at.listeners) == 0 {
			delete(p.byAddr, nameOf(l.addr))
		}
		p.mu.Unlock()
		close(l.closed)
		if last {
			if err = l.socket.Close(); l.socket.plain {
				<-l.socket.done
			}
		}
		l.giveUp()
	})
	return err
}

// Addr is where it listens.
func (l *listener) Addr() net.Addr { return l.addr }
