package perclient

import (
	"crypto/sha256"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	knownFor = 10 * time.Minute
	maxKnown = 10_000
)

// Logins slows down guesses at API keys: a peer that failed too often gets no more answers for a
// while. Keys that were right lately are answered all the same, because many clients may share the
// peer's address. Logins is safe for concurrent use.
type Logins struct {
	failures *Limiter[netip.Addr]
	known    *lru.Cache[[sha256.Size]byte, time.Time] // until when; by hash, so that no secret is kept
}

// NewLogins returns Logins without entries. A peer may fail so often at once, and per minute.
func NewLogins(atOnce, perMinute int) *Logins {
	return &Logins{failures: NewLimiter[netip.Addr](atOnce, perMinute), known: NewCache[[sha256.Size]byte, time.Time](maxKnown)}
}

// Blocked returns the time that the peer has to wait before this guess is looked at.
func (l *Logins) Blocked(addr netip.Addr, guess [sha256.Size]byte, now time.Time) time.Duration {
	wait := l.failures.Wait(Network(addr), now)
	if wait == 0 {
		return 0
	}
	if until, ok := l.known.Get(guess); ok && now.Before(until) {
		return 0
	}
	return wait
}

// Failed records a wrong guess.
func (l *Logins) Failed(addr netip.Addr, now time.Time) { l.failures.Take(Network(addr), 1, now) }

// Succeeded records a right one.
func (l *Logins) Succeeded(guess [sha256.Size]byte, now time.Time) {
	l.known.Add(guess, now.Add(knownFor))
}
