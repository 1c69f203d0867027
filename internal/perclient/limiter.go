// Package perclient tells clients apart, and remembers a bounded amount about each. When there are
// too many clients, the one that was active the longest ago is forgotten, so that a flood of new ones
// does not make all others begin anew.
package perclient

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// maxClients bounds the remembered clients.
const maxClients = 10_000

// Limiter bounds how often each client may do something. A client that is forgotten gains turns, but
// only after more than 10,000 others took theirs. A Limiter is safe for concurrent use. A nil Limiter
// bounds nothing.
type Limiter[K comparable] struct {
	perMinute, atOnce int

	mu      sync.Mutex
	clients *simplelru.LRU[K, *rate.Limiter] // by the last turn they took
}

// NewLimiter gives each client so many turns at once, and so many back per minute. It returns nil if
// perMinute is negative.
func NewLimiter[K comparable](atOnce, perMinute int) *Limiter[K] {
	if perMinute < 0 {
		return nil
	}
	return &Limiter[K]{perMinute: perMinute, atOnce: atOnce, clients: newLRU[K, *rate.Limiter](maxClients)}
}

// Take takes n turns of a client and returns 0. If the client has fewer, Take takes none and
// returns the time until it has n.
func (l *Limiter[K]) Take(client K, n int, now time.Time) (wait time.Duration) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turns, ok := l.clients.Get(client)
	if !ok {
		turns = rate.NewLimiter(rate.Limit(l.perMinute)/60, l.atOnce)
		l.clients.Add(client, turns)
	}
	if turns.AllowN(now, n) {
		return 0
	}
	return l.until(turns, n, now)
}

// Wait returns the time until a client has a turn, and takes none.
func (l *Limiter[K]) Wait(client K, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turns, ok := l.clients.Peek(client)
	if !ok || turns.TokensAt(now) >= 1 {
		return 0
	}
	return l.until(turns, 1, now)
}

func (l *Limiter[K]) until(turns *rate.Limiter, n int, now time.Time) time.Duration {
	return time.Duration((float64(n) - turns.TokensAt(now)) / float64(l.perMinute) * float64(time.Minute))
}
