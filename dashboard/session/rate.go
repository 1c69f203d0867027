package session

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxPeers bounds how many clients are remembered. When there are more, all begin anew.
const maxPeers = 10_000

// limiter bounds how often each client may do something in a minute.
type limiter struct {
	perMinute int // negative: no bound

	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
}

func newLimiter(perMinute int) *limiter {
	return &limiter{perMinute: perMinute, peers: make(map[netip.Addr]*rate.Limiter)}
}

// take returns how long a client has to wait; zero: not at all, and this time was counted.
func (l *limiter) take(peer netip.Addr, now time.Time) time.Duration {
	if l.perMinute < 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.peers[peer]
	if of == nil {
		if len(l.peers) >= maxPeers {
			clear(l.peers)
		}
		of = rate.NewLimiter(rate.Limit(l.perMinute)/60, l.perMinute)
		l.peers[peer] = of
	}
	if of.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - of.TokensAt(now)) / float64(l.perMinute) * float64(time.Minute))
}
