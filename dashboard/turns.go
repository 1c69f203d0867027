package dashboard

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what one organization may do here. Signing in costs nothing, so that they hold for everybody.
const (
	// changesAMinute bounds posts. Each is a durable write: what is deleted leaves its row.
	changesAMinute = 60
	// linkTurns is how many posts trying to link a key counts for. Callers of the API may choose their own keys, and
	// choose short ones.
	linkTurns = 6
	// exportsAtOnce bounds exports, each of which may read all there is, for as long as its reader takes.
	exportsAtOnce = 2
	// remembered is how many organizations are kept without asking which of them have all of their turns again.
	remembered = 1000
)

// tooManyError tells how long to wait.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.wait) }

// turns count what organizations do.
type turns struct {
	mu      sync.Mutex
	of      map[string]*rate.Limiter
	exports map[string]int // under way
}

// take takes n turns of an organization: *tooManyError.
func (t *turns) take(org string, n int, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[org]
	if l == nil {
		if len(t.of) >= remembered {
			t.forget(now)
		}
		if t.of == nil {
			t.of = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Limit(changesAMinute)/60, changesAMinute)
		t.of[org] = l
	}
	if l.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - l.TokensAt(now)
	return &tooManyError{time.Duration(missing * float64(time.Minute) / changesAMinute)}
}

// forget drops those of which nothing has to be remembered.
func (t *turns) forget(now time.Time) {
	for org, l := range t.of {
		if l.TokensAt(now) >= changesAMinute {
			delete(t.of, org)
		}
	}
}

// enterExport begins an export, which ends with leave: *tooManyError.
func (t *turns) enterExport(org string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exports[org] >= exportsAtOnce {
		return nil, &tooManyError{exportPause}
	}
	if t.exports == nil {
		t.exports = map[string]int{}
	}
	t.exports[org]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.exports[org]--; t.exports[org] == 0 {
			delete(t.exports, org)
		}
	}, nil
}
