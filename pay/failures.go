package pay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// Default bounds of [FailureBounds].
const (
	defaultFailuresPerMinute = 100
	defaultFailuresPerDay    = 3000
	// defaultPerMinute bounds the new payments of a key in a minute where no policy does. Payments that
	// settle, or are open, are bounded by no failures.
	defaultPerMinute       = 3000
	defaultQuotesPerMinute = 300
	defaultForNothing      = 5
)

// FailureBounds bound the attempts of one key that end refused, void, unresolved or disputed: nothing else keeps them
// from filling the disk. Minutes and days are in UTC. 0 is the default, a negative number no bound.
type FailureBounds struct {
	PerMinute int // default: 100
	PerDay    int // default: 3,000
	// Quotes bounds the quotes of one key in any minute, in this process, because they cost neither
	// money nor a failure. Default: 300.
	Quotes int
	// ForNothing is the number of a key's payments in a row to one host that have moved money and brought nothing,
	// after which the host is paused for the key. Default: 5.
	ForNothing int
}

// complete sets the defaults; 0 is no bound in the result.
func (f FailureBounds) complete() FailureBounds {
	bound := func(given, def int) int {
		if given == 0 {
			return def
		}
		return max(given, 0)
	}
	return FailureBounds{
		PerMinute: bound(f.PerMinute, defaultFailuresPerMinute), PerDay: bound(f.PerDay, defaultFailuresPerDay),
		Quotes: bound(f.Quotes, defaultQuotesPerMinute), ForNothing: bound(f.ForNothing, defaultForNothing),
	}
}

// quotes returns the turns of each key to ask for quotes; nil: any number.
func (f FailureBounds) quotes() *perclient.Limiter[string] {
	if f.Quotes == 0 {
		return nil
	}
	return perclient.NewLimiter[string](f.Quotes, f.Quotes)
}

// FailuresError refuses a new payment, because too many of its key have failed or begun, or a quote,
// because the key has asked for too many.
type FailuresError struct {
	Most       int
	Window     string        // "minute" or "day"
	RetryAfter time.Duration // until the window is over
	Begun      bool          // too many have begun, whatever became of them
	Quotes     bool          // a quote was refused
}

func (e *FailuresError) Error() string {
	switch {
	case e.Begun:
		return fmt.Sprintf("%d payments of this key have begun in this %s; the next may begin when it is over", e.Most, e.Window)
	case e.Quotes:
		return fmt.Sprintf("this key has asked for more than %d quotes in a %s", e.Most, e.Window)
	}
	return fmt.Sprintf("%d payments of this key have failed in this %s; the next may begin when it is over", e.Most, e.Window)
}

// failedPrefix begins the names of the counters of failed attempts.
const failedPrefix = "failed/"

// failedWindow counts a key's failed attempts in a minute or a day. One counter serves all windows:
// its upper half is the number of the window since 1970, its lower half that of attempts. The first
// payment in another window starts it anew.
type failedWindow struct {
	name   string
	length time.Duration
	most   int // 0: no bound
}

// halfCounter is the bit at which the upper half of a counter of failed attempts begins.
const halfCounter = 32

func (w failedWindow) counter(keyID string) Counter {
	return Counter(failedPrefix + w.name + "/" + keyID)
}

func (w failedWindow) number(at time.Time) uint64 {
	return uint64(max(at.Unix(), 0)) / uint64(w.length/time.Second)
}

func (f FailureBounds) windows() []failedWindow {
	return []failedWindow{{"minute", time.Minute, f.PerMinute}, {"day", 24 * time.Hour, f.PerDay}}
}

// overload returns the bound for keys without a PerMinute: 0 is none. On REST, the defaults limit no plain
// key. They only say whether more than the usual bound is meant to pass.
func overload(pol policy.Policy) int {
	switch n := pol.PerMinute; {
	case n == nil:
		return defaultPerMinute
	case *n == 0:
		return 0
	default:
		return max(*n, defaultPerMinute)
	}
}

// begunWindow counts the payments that a key begins in a minute.
func begunWindow(most int) failedWindow { return failedWindow{"begun", time.Minute, most} }

// CountsFailures reports whether a counter counts attempts, and no reservations.
func (c Counter) CountsFailures() bool { return strings.HasPrefix(string(c), failedPrefix) }

// patience refuses a new payment while too many of its key have failed. It adds the new windows.
func (b *Begin) patience(v BeginView, j *judged) error {
	for _, w := range b.Failures.windows() {
		if err := b.within(v, w, &j.starts); err != nil {
			return err
		}
	}
	return nil
}

// pace refuses a new payment while too many of its key have begun, and counts it.
func (b *Begin) pace(v BeginView, j *judged) error {
	w := begunWindow(b.PerMinute)
	if w.most <= 0 {
		return nil
	}
	if err := b.within(v, w, &j.starts); err != nil {
		if full, is := errors.AsType[*FailuresError](err); is {
			full.Window, full.Begun = "minute", true
		}
		return err
	}
	j.starts = append(j.starts, CounterChange{Counter: w.counter(b.KeyID), Amount: money.New(1), Add: true})
	return nil
}

// within refuses a payment for which a window has no room. It adds a window that begins.
func (b *Begin) within(v BeginView, w failedWindow, starts *[]CounterChange) error {
	if w.most <= 0 {
		return nil
	}
	c, now := w.counter(b.KeyID), w.number(b.Now)
	have, err := v.Counter(c)
	if err != nil {
		return err
	}
	n := have.Big().Uint64()
	switch {
	case n>>halfCounter != now:
		*starts = append(*starts, CounterChange{Counter: c, Amount: money.New(now << halfCounter), Set: true})
	case n&(1<<halfCounter-1) >= uint64(w.most):
		over := time.Unix(int64((now+1)*uint64(w.length/time.Second)), 0)
		return &FailuresError{Most: w.most, Window: w.name, RetryAfter: over.Sub(b.Now)}
	}
	return nil
}

// fail counts a payment once among those of its key that failed, also if it settles later. That of
// an operator is none of its key's.
func (p *Payment) fail() []CounterChange {
	if p.Failed || p.Door == policy.DoorOperator {
		return nil
	}
	p.Failed = true
	var changes []CounterChange
	for _, w := range (FailureBounds{}).windows() {
		changes = append(changes, CounterChange{Counter: w.counter(p.KeyID), Amount: money.New(1), Add: true})
	}
	return changes
}
