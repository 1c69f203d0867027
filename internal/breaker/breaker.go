// Package breaker stops asking what keeps failing, and asks again now and then.
//
// What a failure is, and what is refused meanwhile, is the caller's.
package breaker

import (
	"fmt"
	"sync"
	"time"
)

// Options say when a breaker opens, and for how long.
type Options struct {
	// Failures in a row that open it.
	Failures int
	// Wait is how long nothing is asked. It doubles with every further failure, up to MaxWait.
	Wait, MaxWait time.Duration
}

// Breaker counts failures in a row. It is closed until there are too many of them; then it
// is open, and lets one attempt through each time its wait is over. A success closes it. It
// is safe for concurrent use.
type Breaker struct {
	opts Options

	mu       sync.Mutex
	failures int
	wait     time.Duration // 0 while closed
	until    time.Time     // nothing is let through before
	trying   bool          // an attempt was let through since it opened
}

// New makes a closed breaker.
func New(o Options) *Breaker { return &Breaker{opts: o} }

// OpenError: what is asked for has failed too often.
type OpenError struct {
	Failures int           // in a row
	In       time.Duration // until the next attempt
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("failed %d times in a row, and is asked again in %s", e.Failures, max(e.In, 0).Round(100*time.Millisecond))
}

// Allow asks for an attempt now. It is refused with an *OpenError. trying says that it is let
// through an open breaker; it then counts as under way for the length of the wait, unless
// its outcome comes earlier, or it is given back as [Breaker.Unused].
func (b *Breaker) Allow(now time.Time) (trying bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.wait == 0:
		return false, nil
	case now.Before(b.until):
		return false, b.open(now)
	}
	b.trying, b.until = true, now.Add(b.wait)
	return true, nil
}

// State is nil for a closed breaker, else an *OpenError. It lets nothing through.
func (b *Breaker) State(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == 0 {
		return nil
	}
	return b.open(now)
}

// open is called with mu held.
func (b *Breaker) open(now time.Time) error {
	return &OpenError{Failures: b.failures, In: b.until.Sub(now)}
}

// Unused gives the turn of an attempt back that was not made after all.
func (b *Breaker) Unused(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trying {
		b.trying, b.until = false, now
	}
}

// Succeeded closes the breaker, and reports whether it was open.
func (b *Breaker) Succeeded() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed = b.wait > 0
	b.failures, b.wait, b.until, b.trying = 0, 0, time.Time{}, false
	return closed
}

// Failed counts a failure, and reports whether it opened a closed breaker. Failures of
// attempts that began before it opened do not make its wait longer.
func (b *Breaker) Failed(now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.wait == 0 && b.failures >= b.opts.Failures:
		b.wait, opened = b.opts.Wait, true
	case b.trying:
		b.wait = min(2*b.wait, b.opts.MaxWait)
	default:
		return false
	}
	b.trying, b.until = false, now.Add(b.wait)
	return opened
}
