package payapi

import (
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/perclient"
)

// takeTurn takes a turn of the caller's address. Without one, it returns the seconds until the
// next.
func takeTurn(l *perclient.Limiter[netip.Addr], r *http.Request, now time.Time) (wait int) {
	if failpoint.Off(failpoint.Floods) {
		return 0
	}
	return int(math.Ceil(l.Take(perclient.Peer(r.RemoteAddr), 1, now).Seconds()))
}
