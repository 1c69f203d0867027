package proxy

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/purserpay/purser/pay"
)

// Bounds on guessing API keys.
const (
	failuresPerMinute = 30
	failuresAtOnce    = 20
	knownFor          = 10 * time.Minute
	maxRemembered     = 10_000
)

// logins slows down guessing: a peer that failed too often gets no more answers for a
// while. Keys that were right lately are answered all the same, since many clients may
// share the peer's address.
type logins struct {
	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
	known map[pay.Hash]time.Time // until when; by hash, so that no secret is kept
}

func newLogins() *logins {
	return &logins{peers: make(map[netip.Addr]*rate.Limiter), known: make(map[pay.Hash]time.Time)}
}

// blocked is how long the peer has to wait before this guess is looked at.
func (l *logins) blocked(peer netip.Addr, guess pay.Hash, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.peers[network(peer)]
	if limiter == nil || limiter.TokensAt(now) >= 1 || now.Before(l.known[guess]) {
		return 0
	}
	return time.Duration((1 - limiter.TokensAt(now)) / failuresPerMinute * float64(time.Minute))
}

func (l *logins) failed(peer netip.Addr, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.peers[network(peer)]
	if limiter == nil {
		if len(l.peers) >= maxRemembered {
			clear(l.peers)
		}
		limiter = rate.NewLimiter(rate.Limit(failuresPerMinute)/60, failuresAtOnce)
		l.peers[network(peer)] = limiter
	}
	limiter.AllowN(now, 1)
}

func (l *logins) succeeded(guess pay.Hash, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxRemembered {
		clear(l.known)
	}
	l.known[guess] = now.Add(knownFor)
}

// network is what one client has all of: an IPv4 address, or the /64 around an IPv6 one.
func network(peer netip.Addr) netip.Addr {
	if !peer.Is6() {
		return peer
	}
	p, _ := peer.WithZone("").Prefix(64) // fails for other widths only
	return p.Addr()
}

func tooManyFailures(wait time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, reason: reasonTooMany, text: "Too many requests",
		header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}},
	}
}
