//go:build failpoints

package failpoint

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled tells a test build from a program that handles money.
const Enabled = true

// The environment of a test build.
const (
	// killAt is "place" or "place:n": the process ends itself with SIGKILL when it comes to
	// the place for the nth time.
	killAt = "PURSER_FAILPOINT"
	// switchedOff lists protections, separated by commas.
	switchedOff = "PURSER_UNPROTECTED"
)

var (
	place, turn = parse(os.Getenv(killAt))
	passed      atomic.Int64
	off         = strings.Split(os.Getenv(switchedOff), ",")
)

func parse(text string) (place string, turn int64) {
	place, count, found := strings.Cut(text, ":")
	if turn, _ = strconv.ParseInt(count, 10, 64); !found || turn < 1 {
		turn = 1
	}
	return place, turn
}

// Here is a place where a test may end the process: at once, as kill -9 does, so that
// nothing more is written or sent.
func Here(name string) {
	if name != place || passed.Add(1) != turn {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// Off reports whether a test has switched a protection off.
func Off(protection string) bool { return slices.Contains(off, protection) }
