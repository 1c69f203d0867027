package process

import (
	"bytes"
	"strings"
	"sync"
)

// Log keeps the end of a program's output. It is safe for concurrent use.
type Log struct {
	// Without, if set, drops lines with this text.
	Without string

	mu   sync.Mutex
	text []byte
}

const logBytes = 256 << 10

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(p) {
		if l.Without == "" || !bytes.Contains(line, []byte(l.Without)) {
			l.text = append(l.text, line...)
		}
	}
	if over := len(l.text) - logBytes; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

// String returns the last 256 KiB.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}

// End returns the last lines, shortened, for a failed test.
func (l *Log) End() string {
	const lines, width = 60, 400
	all := strings.Split(l.String(), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), width)]
	}
	return strings.Join(all, "\n")
}
