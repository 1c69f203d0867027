//go:build failpoints

package failpoint

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// clockKept is how long what the clock's file says is not read again.
const clockKept = 5 * time.Millisecond

var (
	clockFile = os.Getenv(ClockFile)
	ahead     atomic.Int64 // of the machine's clock, in nanoseconds
	clockRead atomic.Int64 // when the file was read last, in nanoseconds since started
	started   = time.Now()
)

// Now tells the time: the machine's, and as much later as the clock's file says.
func Now() time.Time {
	if clockFile == "" {
		return time.Now()
	}
	if since := int64(time.Since(started)); clockRead.Load() == 0 || since-clockRead.Load() >= int64(clockKept) {
		text, err := os.ReadFile(clockFile)
		d, err2 := time.ParseDuration(strings.TrimSpace(string(text)))
		if err == nil && err2 == nil { // else the file is being written
			ahead.Store(int64(d))
			clockRead.Store(since)
		}
	}
	return time.Now().Add(time.Duration(ahead.Load()))
}

// Every returns how often something is done that is usually done every d: with a clock that a
// test sets forward, often enough for nobody to wait for it.
func Every(d time.Duration) time.Duration {
	if clockFile == "" {
		return d
	}
	return min(d, 100*time.Millisecond)
}
