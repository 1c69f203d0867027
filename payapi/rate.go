package payapi

import (
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/peer"
)

// maxAddresses bounds each of the two generations that addressLimit remembers.
const maxAddresses = 10_000

// addressLimit bounds how often each client address may do something. It remembers two
// generations of addresses: one that was not seen for a whole generation has all of its
// turns again, so forgetting it loses nothing. Only a flood from very many addresses ends a
// generation earlier.
type addressLimit struct {
	perMinute, atOnce int
	generation        time.Duration // in which all turns come back

	mu          sync.Mutex
	young, aged map[netip.Addr]*rate.Limiter
	since       time.Time // when the young generation began
}

// newAddressLimit gives each address so many turns at once, and so many back per minute.
func newAddressLimit(atOnce, perMinute int) *addressLimit {
	return &addressLimit{
		perMinute: perMinute, atOnce: atOnce, young: make(map[netip.Addr]*rate.Limiter),
		generation: time.Duration(math.Ceil(float64(time.Minute) * float64(atOnce) / float64(perMinute))),
	}
}

// take uses one of the caller's turns, or says how many seconds to wait for the next. No
// limit at all has a turn for everybody.
func (l *addressLimit) take(r *http.Request, now time.Time) (wait int) {
	if l == nil || failpoint.Off(failpoint.Floods) {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.of(peer.Of(r.RemoteAddr), now).ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay <= 0 {
		return 0
	}
	turn.CancelAt(now)
	return int(math.Ceil(delay.Seconds()))
}

func (l *addressLimit) of(addr netip.Addr, now time.Time) *rate.Limiter {
	if now.Sub(l.since) >= l.generation || len(l.young) >= maxAddresses {
		l.young, l.aged, l.since = make(map[netip.Addr]*rate.Limiter), l.young, now
	}
	limiter := l.young[addr]
	if limiter == nil {
		if limiter = l.aged[addr]; limiter == nil {
			limiter = rate.NewLimiter(rate.Limit(float64(l.perMinute)/60), l.atOnce)
		}
		l.young[addr] = limiter
	}
	return limiter
}
