// Package leases counts those who use something that is to be let go of. It knows nothing of the thing.
package leases

import (
	"errors"
	"sync"
	"time"
)

// ErrClosed says that no more leases are given.
var ErrClosed = errors.New("this configuration has ended")

// Leases counts leases. The zero value is ready, and safe for concurrent use.
type Leases struct {
	mu      sync.Mutex
	open    int
	closed  bool
	retired time.Time     // zero: it is not
	idle    chan struct{} // closed when the last lease ends; nil while no caller waits for it
}

// Enter takes a lease. The error is [ErrClosed].
func (l *Leases) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.open++
	return nil
}

// Leave gives a lease back.
func (l *Leases) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.open == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Open returns the number of leases.
func (l *Leases) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Retire notes that the thing was replaced. Leases are given all the same.
func (l *Leases) Retire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = now
}

// Expire gives no more leases if the thing was replaced a time ago and none is open, and reports whether that is so.
func (l *Leases) Expire(now time.Time, kept time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired.IsZero() || l.open > 0 || now.Before(l.retired.Add(kept)) {
		return false
	}
	l.closed = true
	return true
}

// Close gives no more leases. The channel is closed when the last one ends; it is nil if there is none.
func (l *Leases) Close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.open == 0 {
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return l.idle
}
