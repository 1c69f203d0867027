// Package breaker stops calls to a service that keeps failing, and allows a single attempt from
// time to time.
package breaker

import (
	"fmt"
	"sync"
	"time"
)

// Options says when a breaker opens, and for how long.
type Options struct {
	// Failures is the number of failures in a row that opens the breaker.
	Failures int
	// Wait is the time without attempts. It doubles with every further failure, up to MaxWait.
	Wait, MaxWait time.Duration
}

// Breaker counts failures in a row. Too many of them open it. An open breaker allows one attempt
// each time its wait ends. A success closes it. A Breaker is safe for concurrent use.
type Breaker struct {
	opts Options

	mu       sync.Mutex
	failures int
	wait     time.Duration // 0 while closed
	until    time.Time     // no attempt is allowed before
	probing  bool          // a probe was allowed since the breaker opened
}

// New returns a closed breaker.
func New(o Options) *Breaker { return &Breaker{opts: o} }

// OpenError reports that the breaker is open.
type OpenError struct {
	Failures int           // in a row
	In       time.Duration // until the next attempt
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("failed %d times in a row, and is asked again in %s", e.Failures, max(e.In, 0).Round(100*time.Millisecond))
}

// Allow asks for an attempt now. A refusal is an *OpenError. probe reports an attempt through an
// open breaker. While a probe is under way, no other attempt is allowed for the length of the wait.
// Its outcome, or [Breaker.Unused], ends that earlier.
func (b *Breaker) Allow(now time.Time) (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == 0 || now.Before(b.until) {
		return false, b.state(now)
	}
	b.probing, b.until = true, now.Add(b.wait)
	return true, nil
}

// State returns nil for a closed breaker, else an *OpenError. It allows no attempt.
func (b *Breaker) State(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state(now)
}

func (b *Breaker) state(now time.Time) error {
	if b.wait == 0 {
		return nil
	}
	return &OpenError{Failures: b.failures, In: b.until.Sub(now)}
}

// Unused gives back a probe that was not made.
func (b *Breaker) Unused(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing {
		b.probing, b.until = false, now
	}
}

// Succeeded closes the breaker, and reports whether it was open.
func (b *Breaker) Succeeded() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed = b.wait > 0
	b.failures, b.wait, b.until, b.probing = 0, 0, time.Time{}, false
	return closed
}

// Failed counts a failure, and reports whether it opened a closed breaker. A failure of an attempt
// that began before the breaker opened does not lengthen the wait.
func (b *Breaker) Failed(now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.wait == 0 && b.failures >= b.opts.Failures:
		b.wait, opened = b.opts.Wait, true
	case b.probing:
		b.wait = min(2*b.wait, b.opts.MaxWait)
	default:
		return false
	}
	b.probing, b.until = false, now.Add(b.wait)
	return opened
}
