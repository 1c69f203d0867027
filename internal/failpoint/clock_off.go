//go:build !failpoints

package failpoint

import "time"

// Now tells the machine's time.
func Now() time.Time { return time.Now() }

// Every returns d.
func Every(d time.Duration) time.Duration { return d }
