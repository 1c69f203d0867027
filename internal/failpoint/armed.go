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

// Enabled is true in a test build. A test build must not handle real money.
const Enabled = true

var (
	target      = parse(os.Getenv(KillAt))
	waiting     atomic.Bool // until the earlier place of the target is passed
	passed      atomic.Int64
	switchedOff = strings.Split(os.Getenv(SwitchedOff), ",")
)

// killPoint says where the process kills itself.
type killPoint struct {
	earlier, place string
	count          int64
}

func parse(text string) (k killPoint) {
	place, number, _ := strings.Cut(text, ":")
	if k.count, _ = strconv.ParseInt(number, 10, 64); k.count < 1 {
		k.count = 1
	}
	if earlier, later, found := strings.Cut(place, ">"); found {
		k.earlier, place = earlier, later
	}
	k.place = place
	waiting.Store(k.earlier != "")
	return k
}

// Here kills the process if this place is the chosen one. SIGKILL ends it at once, so that nothing
// more is written or sent.
func Here(name string) {
	if name == target.earlier {
		waiting.Store(false)
	}
	if waiting.Load() || name != target.place && target.place != Anywhere || passed.Add(1) != target.count {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// Off reports whether the test has switched a protection off.
func Off(protection string) bool { return slices.Contains(switchedOff, protection) }
