package process

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

// Clock is the clock of a test and of the test builds that it starts. The test sets it forward, so
// that nothing waits for authorizations to expire, for leases to lapse or for recovery to look again.
type Clock struct {
	file  string
	ahead atomic.Int64 // of the machine's clock
}

// NewClock returns a clock that shows the machine's time.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{file: filepath.Join(t.TempDir(), "clock")}
	c.Forward(t, 0)
	return c
}

// Now tells the time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Setting is the variable that has a test build go by this clock.
func (c *Clock) Setting() string { return failpoint.ClockFile + "=" + c.file }

// Forward lets time go by for everybody.
func (c *Clock) Forward(t testing.TB, d time.Duration) {
	t.Helper()
	d = time.Duration(c.ahead.Add(int64(d)))
	next := c.file + ".next" // what is renamed is never read in part
	err := os.WriteFile(next, []byte(d.String()), 0o600)
	if err == nil {
		err = os.Rename(next, c.file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Until asks as Eventually does, and lets five minutes go by every few seconds meanwhile: leases
// lapse, authorizations expire, and recovery looks again. A nil clock shows the machine's time alone.
func (c *Clock) Until(t testing.TB, limit time.Duration, ask func() string) {
	t.Helper()
	var passed time.Time
	Eventually(t, limit, func() string {
		if c != nil && time.Since(passed) > 3*time.Second {
			c.Forward(t, 5*time.Minute)
			passed = time.Now()
		}
		return ask()
	})
}
