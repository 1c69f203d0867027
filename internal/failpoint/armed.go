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

var (
	fate   = parse(os.Getenv(KillAt))
	waits  atomic.Bool // for the earlier place to be passed
	passed atomic.Int64
	off    = strings.Split(os.Getenv(SwitchedOff), ",")
)

// end is where the process ends itself.
type end struct {
	earlier, place string
	turn           int64
}

func parse(text string) (e end) {
	place, count, _ := strings.Cut(text, ":")
	if e.turn, _ = strconv.ParseInt(count, 10, 64); e.turn < 1 {
		e.turn = 1
	}
	if earlier, later, found := strings.Cut(place, ">"); found {
		e.earlier, place = earlier, later
	}
	e.place = place
	waits.Store(e.earlier != "")
	return e
}

// Here is a place where a test may end the process: at once, as kill -9 does, so that
// nothing more is written or sent.
func Here(name string) {
	if name == fate.earlier {
		waits.Store(false)
	}
	if waits.Load() || name != fate.place && fate.place != Anywhere || passed.Add(1) != fate.turn {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// Off reports whether a test has switched a protection off.
func Off(protection string) bool { return slices.Contains(off, protection) }
