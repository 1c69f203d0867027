package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/proxy"
)

// defaultMaxTunnels is for all; a quarter of it are one key's, half are one client address's.
const defaultMaxTunnels = 4096

// tunnels counts the open tunnels, blind and intercepted ones, and can end them.
type tunnels struct {
	max, maxOfKey, maxOfPeer int

	idle     time.Duration
	observer proxy.Observer  // called with mu held
	closing  context.Context // ends when no new tunnels are opened any more
	refuse   context.CancelFunc

	mu     sync.Mutex
	all    map[*tunnel]struct{}
	byKey  map[string]int
	byPeer map[netip.Addr]int
	gone   sync.WaitGroup // for all of them; not reused after closing
}

func newTunnels(o Options) *tunnels {
	most := cmp.Or(o.MaxTunnels, defaultMaxTunnels)
	s := &tunnels{
		max: most, maxOfKey: cmp.Or(o.MaxKeyTunnels, max(1, most/4)), maxOfPeer: cmp.Or(o.MaxPeerTunnels, max(1, most/2)),
		idle: cmp.Or(o.IdleTunnel, 10*time.Minute), observer: o.Observer,
		all: make(map[*tunnel]struct{}), byKey: make(map[string]int), byPeer: make(map[netip.Addr]int),
	}
	s.closing, s.refuse = context.WithCancel(context.Background())
	return s
}

// acquire takes a place for a tunnel of the key, for a client at "address:port".
func (s *tunnels) acquire(keyID, remote string) (*tunnel, bool) {
	from := perclient.Peer(remote)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil || len(s.all) >= s.max || s.byKey[keyID] >= s.maxOfKey || s.byPeer[from] >= s.maxOfPeer {
		return nil, false
	}
	t := &tunnel{set: s, keyID: keyID, peer: from}
	t.life, t.end = context.WithCancel(context.Background())
	s.all[t] = struct{}{}
	s.byKey[keyID]++
	s.byPeer[from]++
	s.gone.Add(1)
	s.observer.Tunnels(1)
	return t, true
}

func (t *tunnel) release() {
	t.end()
	s := t.set
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, t)
	s.observer.Tunnels(-1)
	if s.byKey[t.keyID]--; s.byKey[t.keyID] == 0 {
		delete(s.byKey, t.keyID)
	}
	if s.byPeer[t.peer]--; s.byPeer[t.peer] == 0 {
		delete(s.byPeer, t.peer)
	}
	s.gone.Done()
}

// shut refuses new tunnels from here on.
func (s *tunnels) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse()
}

// cut ends the open tunnels but these, and returns how many there were to end.
func (s *tunnels) cut(but map[*tunnel]bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.all {
		if !but[t] {
			t.end()
			n++
		}
	}
	return n
}

// close refuses new tunnels, waits for the open ones until ctx ends, and cuts the rest.
func (s *tunnels) close(ctx context.Context) error {
	s.shut()
	gone := make(chan struct{})
	go func() {
		s.gone.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	n := s.cut(nil)
	<-gone
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d tunnels cut: %w", n, ctx.Err())
}

// tunnel is one CONNECT among the counted tunnels. A blind one moves bytes in both
// directions until both ends are done, one of them breaks off, or nothing has moved for a while.
type tunnel struct {
	set   *tunnels
	keyID string
	peer  netip.Addr // network of the client

	life   context.Context // ends when the tunnel is broken off or released
	end    context.CancelFunc
	active atomic.Int64 // when bytes moved last, in nanoseconds of time.Since(began)
	began  time.Time
}

const established = "HTTP/1.1 200 Connection Established\r\n\r\n"

// run moves bytes until the tunnel is over. Both connections are closed on return.
func (t *tunnel) run(client, upstream net.Conn) {
	t.began = time.Now()
	conns.Unbound(client)
	defer upstream.Close()
	defer client.Close()
	stop := context.AfterFunc(t.life, func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer stop()

	var up sync.WaitGroup
	up.Go(func() { t.move(upstream, client) })
	t.move(client, upstream)
	up.Wait()
}

// move copies one direction. At its end it closes the other side for writing only, so
// that what is still under way the other way arrives; anything else ends the tunnel.
func (t *tunnel) move(dst, src net.Conn) {
	buf := make([]byte, bufferSize)
	for {
		n, err := t.read(src, buf)
		if n > 0 {
			_ = dst.SetWriteDeadline(time.Now().Add(t.set.idle))
			if _, werr := dst.Write(buf[:n]); werr != nil {
				t.end()
				return
			}
			t.active.Store(int64(time.Since(t.began)))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && conns.CloseWrite(dst) == nil:
			return
		default:
			t.end()
			return
		}
	}
}

// read waits for bytes as long as either direction is not idle.
func (t *tunnel) read(src net.Conn, buf []byte) (int, error) {
	for {
		quiet := time.Since(t.began) - time.Duration(t.active.Load())
		_ = src.SetReadDeadline(time.Now().Add(t.set.idle - quiet))
		n, err := src.Read(buf)
		if n > 0 {
			t.active.Store(int64(time.Since(t.began)))
			return n, err
		}
		quiet = time.Since(t.began) - time.Duration(t.active.Load())
		if !errors.Is(err, os.ErrDeadlineExceeded) || quiet >= t.set.idle {
			return n, err
		}
	}
}

// connect serves CONNECT: intercepted where that is asked for, else with a blind tunnel.
func (f *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := guard.SplitAuthority(r.Host)
	var (
		who caller
		no  *refusal
	)
	switch {
	case r.ProtoMajor != 1:
		no = otherProtocol
	case err != nil || r.URL.Path != "":
		no = badRequest("CONNECT needs a host and a port")
	case looped(r.Header, f.pseudonym):
		no = inALoop
	default:
		who, no = f.authenticate(r)
	}
	if no != nil {
		f.refuse(w, r, who, no)
		return
	}
	t, ok := f.tunnels.acquire(who.key.ID, r.RemoteAddr)
	if !ok {
		f.refuse(w, r, who, busy(reasonTunnels, textTunnels, nil))
		return
	}
	if f.interception.opens(host) {
		f.intercept(w, r, f.newSession(t, who, host, port))
		return
	}
	defer t.release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(t.life, cancel) // the proxy may be closed meanwhile
	defer stop()
	upstream, err := f.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		f.refuseDial(w, r, who, err)
		return
	}
	defer upstream.Close()
	client, err := f.takeOver(w, r)
	if err != nil {
		return
	}
	f.log.Debug("tunnel opened", "key", who.key.ID, "host", host, "port", port, "address", upstream.RemoteAddr().String())
	t.run(client, upstream)
}

// takeOver takes the connection of a CONNECT over and tells the client that its tunnel is
// open. An error has been answered, as far as it could be.
func (f *Proxy) takeOver(w http.ResponseWriter, r *http.Request) (*peekedConn, error) {
	conn, err := hijack(w)
	if err != nil {
		f.log.Error("CONNECT not taken over", "error", err)
		f.refuse(w, r, caller{}, &refusal{status: http.StatusInternalServerError, reason: proxy.DeclinedInternal, text: "Internal error"})
		return nil, err
	}
	f.observer.Answered(proxy.ResultTunnel)
	if _, err := io.WriteString(conn, established); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("answering CONNECT: %w", err)
	}
	return conn, nil
}

// hijack takes the connection over, with what the client has sent already.
func hijack(w http.ResponseWriter) (*peekedConn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // the server's deadlines are for requests
	client := &peekedConn{Conn: conn}
	client.early, _ = buffered.Peek(buffered.Reader.Buffered()) // from the buffer alone, which nothing else uses
	return client, nil
}

var (
	errTunnels = errors.New("too many tunnels are open")
	errUnasked = errors.New("the upstream switched to a protocol that nobody asked for")
)

// upgraded makes a connection that switched protocols a tunnel among the others. Inside an
// intercepted connection it is part of that one.
func (f *Proxy) upgraded(resp *http.Response, call *proxy.Call) error {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(resp.Header.Get("Upgrade"), resp.Request.Header.Get("Upgrade")) {
		return errUnasked
	}
	u := &upgrade{ReadWriteCloser: conn, call: call, idle: f.tunnels.idle, release: func() {}}
	var life context.Context
	if s, inside := resp.Request.Context().Value(sessionKey{}).(*session); inside {
		life = s.tunnel.life
	} else {
		t, ok := f.tunnels.acquire(call.Key.ID, resp.Request.RemoteAddr)
		if !ok {
			return errTunnels
		}
		life, u.release = t.life, t.release
	}
	u.quiet = time.AfterFunc(math.MaxInt64, func() { _ = u.Close() })
	u.quiet.Reset(u.idle)
	context.AfterFunc(life, func() { _ = u.Close() })
	resp.Body = u
	return nil
}

// upgrade is the upstream's side of such a connection.
type upgrade struct {
	io.ReadWriteCloser
	call  *proxy.Call
	idle  time.Duration
	quiet *time.Timer

	answered, closing sync.Once
	release           func()
}

// Read ends the call, the first time: the answer that switched protocols has been written then.
func (u *upgrade) Read(p []byte) (int, error) {
	u.answered.Do(func() { u.call.Finish(true) })
	n, err := u.ReadWriteCloser.Read(p)
	u.moved(err)
	return n, err
}

func (u *upgrade) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	u.moved(err)
	return n, err
}

func (u *upgrade) moved(err error) {
	if err == nil {
		u.quiet.Reset(u.idle)
	}
}

// Close gives the tunnel's place back. The relay calls it when either side is done.
func (u *upgrade) Close() error {
	err := u.ReadWriteCloser.Close()
	u.closing.Do(func() {
		u.quiet.Stop()
		u.release()
	})
	return err
}
