package forward

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

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
