//go:build !failpoints

package failpoint

import "time"

// Now tells the machine's time.
func Now() time.Time { return time.Now() }

// Ahead is 0: there is no other clock.
func Ahead() time.Duration { return 0 }

// Every returns d.
func Every(d time.Duration) time.Duration { return d }
