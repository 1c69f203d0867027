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

// Bounds on one organization's use of the dashboard. They hold for all organizations, because
// signing in is free.
const (
	// changesAMinute bounds posts. Each is a durable write, and a deleted object leaves a row.
	changesAMinute = 60
	// linkPosts is the number of posts that one attempt to link a key counts for. Clients of the
	// API may choose their own keys, and choose short ones.
	linkPosts = 6
	// exportsAtOnce bounds concurrent exports. Each may read all events, for as long as its client
	// takes.
	exportsAtOnce = 2
	// waiting bounds an organization's requests that wait to read.
	waiting = 32
)

// tooManyError says how long to wait.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.wait) }

// throttle bounds what organizations do, so that readers of pages do not slow down payments. An
// organization reads one page at a time. All of them together leave half of the processors free.
type throttle struct {
	reading chan struct{} // has room for the reading organizations
	changes *perclient.Limiter[string]
	exports *admission.Shares

	mu     sync.Mutex
	queues map[string]*readQueue
}

// readQueue counts an organization's requests that read or wait to.
type readQueue struct {
	turn   chan struct{}
	length int
}

func newThrottle() throttle {
	return throttle{
		reading: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		changes: perclient.NewLimiter[string](changesAMinute, changesAMinute), exports: admission.NewShares(exportsAtOnce),
		queues: map[string]*readQueue{},
	}
}

// read waits until an organization may read; leave ends the reading. The error is a *tooManyError,
// or the context's.
func (t *throttle) read(ctx context.Context, org string) (leave func(), err error) {
	t.mu.Lock()
	l := t.queues[org]
	if l == nil {
		l = &readQueue{turn: make(chan struct{}, 1)}
		t.queues[org] = l
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
			delete(t.queues, org)
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

// inTurn returns a view that reads in its organization's turn. It suits views that wait only for
// the store.
func (d *dashboard) inTurn(serve view) view {
	return func(r *http.Request, v visit) (answer, error) {
		leave, err := d.throttle.read(r.Context(), v.org())
		if err != nil {
			return answer{}, err
		}
		defer leave()
		return serve(r, v)
	}
}

// takePosts counts n posts of an organization, or fails with a *tooManyError.
func (t *throttle) takePosts(org string, n int, now time.Time) error {
	if wait := t.changes.Take(org, n, now); wait > 0 {
		return &tooManyError{wait}
	}
	return nil
}

// enterExport begins an export, which leave ends. It fails with a *tooManyError.
func (t *throttle) enterExport(org string) (leave func(), err error) {
	leave, err = t.exports.Take(org)
	if err != nil {
		return nil, &tooManyError{exportPause}
	}
	return leave, nil
}
