package proxy

import (
	"context"
	"fmt"
	"time"
)

// Drain is for a process that ends. It refuses new tunnels, ends intercepted connections as
// Retire does, and waits for the requests inside them until ctx ends: a server that shuts
// down does not know of them, because it has given their connections away. It cuts nothing,
// and does not wait for blind tunnels and upgraded connections, which may never end.
func (f *Forward) Drain(ctx context.Context) error {
	f.tunnels.shut()
	f.Retire(time.Time{})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		n := len(f.inside.requests())
		if n == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the requests of %d intercepted connections: %w", n, ctx.Err())
		}
	}
}

// add makes an intercepted connection known until remove.
func (i *inside) add(s *session) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sessions[s] = struct{}{}
}

func (i *inside) remove(s *session) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.sessions, s)
}

// requests returns the tunnels of the connections with a request under way.
func (i *inside) requests() map[*tunnel]bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	busy := make(map[*tunnel]bool)
	for s := range i.sessions {
		if s.busy() {
			busy[s.tunnel] = true
		}
	}
	return busy
}
