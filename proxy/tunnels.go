package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// tunnels counts the open tunnels and can end them.
type tunnels struct {
	max, maxOfKey int
	idle          time.Duration

	mu      sync.Mutex
	all     map[*tunnel]struct{}
	byKey   map[string]int
	closing bool
	empty   chan struct{} // closed when the last tunnel is gone while closing
}

func newTunnels(most, mostOfKey int, idle time.Duration) *tunnels {
	if most <= 0 {
		most = 1024
	}
	if mostOfKey <= 0 {
		mostOfKey = 256
	}
	if idle <= 0 {
		idle = 10 * time.Minute
	}
	return &tunnels{
		max: most, maxOfKey: mostOfKey, idle: idle,
		all: make(map[*tunnel]struct{}), byKey: make(map[string]int), empty: make(chan struct{}),
	}
}

// acquire takes a place for a tunnel of the key, before anything is dialled for it.
func (s *tunnels) acquire(keyID string) (*tunnel, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.all) >= s.max || s.byKey[keyID] >= s.maxOfKey {
		return nil, false
	}
	t := &tunnel{set: s, keyID: keyID, cut: make(chan struct{})}
	s.all[t] = struct{}{}
	s.byKey[keyID]++
	return t, true
}

func (t *tunnel) release() {
	s := t.set
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, t)
	if s.byKey[t.keyID]--; s.byKey[t.keyID] == 0 {
		delete(s.byKey, t.keyID)
	}
	if s.closing && len(s.all) == 0 {
		close(s.empty)
	}
}

func (s *tunnels) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// close refuses new tunnels, waits for the open ones until ctx ends, cuts the rest, and
// returns when all are gone.
func (s *tunnels) close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		if len(s.all) == 0 {
			close(s.empty)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	default:
	}
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	n := len(s.all)
	for t := range s.all {
		t.end()
	}
	s.mu.Unlock()
	<-s.empty
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d tunnels cut: %w", n, ctx.Err())
}
