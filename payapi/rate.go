package payapi

import (
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/peer"
	"github.com/purserpay/purser/internal/perclient"
)

// takeTurn takes one of the turns of the caller's address. If there is none, it returns how many
// seconds to wait for the next.
func takeTurn(l *perclient.Limiter[netip.Addr], r *http.Request, now time.Time) (wait int) {
	if failpoint.Off(failpoint.Floods) {
		return 0
	}
	return int(math.Ceil(l.Take(peer.Of(r.RemoteAddr), 1, now).Seconds()))
}
