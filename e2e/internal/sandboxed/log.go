package sandboxed

import (
	"bytes"
	"strings"
	"sync"
)

// Log is what a process says, readable while it runs.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds to it.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// End is the last lines of it, none of them long: what a failed test shows.
func (l *Log) End() string {
	const lines, width = 20, 300
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), width)]
	}
	return strings.Join(all, "\n")
}
