package hostile

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Dates puts a clock's time into the Date header of a party's answers.
type Dates struct {
	now   func() time.Time
	wrong atomic.Int64
}

// Wrong sets how far the clock is ahead of the world's.
func (d *Dates) Wrong(ahead time.Duration) { d.wrong.Store(int64(ahead)) }

// stamp adds the Date header to a handler's answers. In a world without its own clock, net/http adds
// it.
func (d *Dates) stamp(handler http.Handler) http.Handler {
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
