package simulation

import (
	"runtime"
	"strings"
	"sync"
	"time"
)

// moments keeps the calls apart in time that look at a wallet. The first one looks, and all that wait for it go on at
// once. They would set timers that fire at one moment.
type moments struct {
	mu   sync.Mutex
	last time.Time
}

// wait sleeps until a moment of its own: an odd nanosecond. The conductor has the even ones.
func (m *moments) wait() {
	m.mu.Lock()
	now := time.Now()
	next := now.Add(1 + now.Sub(now.Truncate(2)))
	if !next.After(m.last) {
		next = m.last.Add(2)
	}
	m.last = next
	m.mu.Unlock()
	time.Sleep(time.Until(next))
}

// sleep sleeps until an even nanosecond.
func sleep(d time.Duration) {
	end := time.Now().Add(d + 1).Truncate(2)
	time.Sleep(time.Until(end))
}

// looking reports whether the clock is asked by a look at a wallet. It holds no lock then.
func looking() bool {
	var callers [6]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "pay.(*Payer).look") {
			return true
		}
		if !more || !strings.Contains(frame.Function, "now") {
			return false
		}
	}
}
