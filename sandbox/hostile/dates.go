package hostile

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Dates stamps the answers of a party with its clock.
type Dates struct {
	now   func() time.Time
	wrong atomic.Int64
}

// Wrong sets how far the clock is ahead of the world's.
func (d *Dates) Wrong(ahead time.Duration) { d.wrong.Store(int64(ahead)) }

// over stamps what a handler answers. Without a clock of its own a world leaves that to net/http.
func (d *Dates) over(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, wrong := d.now, time.Duration(d.wrong.Load())
		if now == nil && wrong != 0 {
			now = time.Now
		}
		if now != nil {
			w.Header().Set("Date", now().Add(wrong).UTC().Format(http.TimeFormat))
		}
		handler.ServeHTTP(w, r)
	})
}
