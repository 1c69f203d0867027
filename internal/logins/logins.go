// Package logins slows down whoever guesses API keys.
package logins

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/purserpay/purser/internal/peer"
	"github.com/purserpay/purser/pay"
)

const (
	knownFor      = 10 * time.Minute
	maxRemembered = 10_000
)

// Book slows down guessing: a peer that failed too often gets no more answers for a
// while. Keys that were right lately are answered all the same, since many clients may
// share the peer's address. It is safe for concurrent use.
type Book struct {
	perMinute, atOnce int

	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
	known map[pay.Hash]time.Time // until when; by hash, so that no secret is kept
}

// New makes a book without entries. A peer may fail so often at once, and per minute.
func New(atOnce, perMinute int) *Book {
	return &Book{
		perMinute: perMinute, atOnce: atOnce, peers: make(map[netip.Addr]*rate.Limiter), known: make(map[pay.Hash]time.Time),
	}
}

// Blocked is how long the peer has to wait before this guess is looked at.
func (b *Book) Blocked(addr netip.Addr, guess pay.Hash, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter := b.peers[peer.Network(addr)]
	if limiter == nil || limiter.TokensAt(now) >= 1 || now.Before(b.known[guess]) {
		return 0
	}
	return time.Duration((1 - limiter.TokensAt(now)) / float64(b.perMinute) * float64(time.Minute))
}

// Failed notes a wrong guess.
func (b *Book) Failed(addr netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter := b.peers[peer.Network(addr)]
	if limiter == nil {
		if len(b.peers) >= maxRemembered {
			clear(b.peers)
		}
		limiter = rate.NewLimiter(rate.Limit(b.perMinute)/60, b.atOnce)
		b.peers[peer.Network(addr)] = limiter
	}
	limiter.AllowN(now, 1)
}

// Succeeded notes a right one.
func (b *Book) Succeeded(guess pay.Hash, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxRemembered {
		clear(b.known)
	}
	b.known[guess] = now.Add(knownFor)
}
