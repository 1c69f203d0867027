// Package logins slows down guesses at API keys.
package logins

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/peer"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

const (
	knownFor = 10 * time.Minute
	maxKnown = 10_000
)

// Book slows down guessing: a peer that failed too often gets no more answers for a while. Keys
// that were right lately are answered all the same, because many clients may share the peer's
// address. A Book is safe for concurrent use.
type Book struct {
	failures *perclient.Limiter[netip.Addr]
	known    *lru.Cache[pay.Hash, time.Time] // until when; by hash, so that no secret is kept
}

// New returns a book without entries. A peer may fail so often at once, and per minute.
func New(atOnce, perMinute int) *Book {
	return &Book{failures: perclient.NewLimiter[netip.Addr](atOnce, perMinute), known: perclient.NewCache[pay.Hash, time.Time](maxKnown)}
}

// Blocked returns the time that the peer has to wait before this guess is looked at.
func (b *Book) Blocked(addr netip.Addr, guess pay.Hash, now time.Time) time.Duration {
	wait := b.failures.Wait(peer.Network(addr), now)
	if wait == 0 {
		return 0
	}
	if until, ok := b.known.Get(guess); ok && now.Before(until) {
		return 0
	}
	return wait
}

// Failed records a wrong guess.
func (b *Book) Failed(addr netip.Addr, now time.Time) { b.failures.Take(peer.Network(addr), 1, now) }

// Succeeded records a right one.
func (b *Book) Succeeded(guess pay.Hash, now time.Time) { b.known.Add(guess, now.Add(knownFor)) }
