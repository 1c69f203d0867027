package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/perclient"
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
	// waiting bounds requests of one organization that wait for their turn to read.
	waiting = 32
)

// tooManyError tells how long to wait.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.wait) }

// turns count what organizations do, and have them read one after the other: what somebody looks at must not slow down
// what others pay. An organization reads one thing at a time, and all of them together leave half of the processors alone.
type turns struct {
	reading chan struct{} // has room for those who read
	changes *perclient.Limiter[string]
	exports *admission.Shares

	mu    sync.Mutex
	lines map[string]*line
}

// line is an organization's, of those who read or wait to.
type line struct {
	turn   chan struct{}
	length int
}

func newTurns() turns {
	return turns{
		reading: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		changes: perclient.NewLimiter[string](changesAMinute, changesAMinute), exports: admission.NewShares(exportsAtOnce),
		lines: map[string]*line{},
	}
}

// read waits until an organization may read, which it does until leave: *tooManyError, or the context's error.
func (t *turns) read(ctx context.Context, org string) (leave func(), err error) {
	t.mu.Lock()
	l := t.lines[org]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[org] = l
	}
	if l.length >= waiting {
		t.mu.Unlock()
		return nil, &tooManyError{time.Second}
	}
	l.length++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.length--; l.length == 0 {
			delete(t.lines, org)
		}
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
	select {
	case t.reading <- struct{}{}:
	case <-ctx.Done():
		<-l.turn
		gone()
		return nil, ctx.Err()
	}
	return func() {
		<-t.reading
		<-l.turn
		gone()
	}, nil
}

// inTurn is a view that reads in its organization's turn. It is for those that wait for nothing but the store.
func (d *dashboard) inTurn(serve view) view {
	return func(r *http.Request, v visit) (answer, error) {
		leave, err := d.turns.read(r.Context(), v.org())
		if err != nil {
			return answer{}, err
		}
		defer leave()
		return serve(r, v)
	}
}

// take takes n turns of an organization: *tooManyError.
func (t *turns) take(org string, n int, now time.Time) error {
	if wait := t.changes.Take(org, n, now); wait > 0 {
		return &tooManyError{wait}
	}
	return nil
}

// enterExport begins an export, which ends with leave: *tooManyError.
func (t *turns) enterExport(org string) (leave func(), err error) {
	leave, err = t.exports.Take(org)
	if err != nil {
		return nil, &tooManyError{exportPause}
	}
	return leave, nil
}
