//go:build failpoints

package failpoint

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// clockKept is the time between two readings of the clock's file.
const clockKept = 5 * time.Millisecond

var (
	clockFile = os.Getenv(ClockFile)
	ahead     atomic.Int64 // of the machine's clock, in nanoseconds
	clockRead atomic.Int64 // time of the last reading, in nanoseconds since started
	started   = time.Now()
)

// Now returns the machine's time plus the offset in the clock's file.
func Now() time.Time { return time.Now().Add(Ahead()) }

// Ahead returns the offset in the clock's file: how far a test has set the clock forward.
func Ahead() time.Duration {
	if clockFile == "" {
		return 0
	}
	if since := int64(time.Since(started)); clockRead.Load() == 0 || since-clockRead.Load() >= int64(clockKept) {
		text, err := os.ReadFile(clockFile)
		d, err2 := time.ParseDuration(strings.TrimSpace(string(text)))
		if err == nil && err2 == nil { // otherwise the file is being written
			ahead.Store(int64(d))
			clockRead.Store(since)
		}
	}
	return time.Duration(ahead.Load())
}

// Every returns the interval of a job that usually runs every d. With a clock that a test sets
// forward, the interval is so short that the test need not wait.
func Every(d time.Duration) time.Duration {
	if clockFile == "" {
		return d
	}
	return min(d, 100*time.Millisecond)
}
