package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
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
	// waiting bounds the requests that wait to read.
	waiting = 256
)

// tooManyError says how long to wait.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.wait) }

// throttle bounds what organizations do, so that readers of pages do not slow down payments.
type throttle struct {
	reading *admission.Gate
	changes *perclient.Limiter[string]
	exports *admission.Shares
}

func newThrottle() throttle {
	return throttle{
		reading: newReading(max(1, runtime.GOMAXPROCS(0)/2)), // all organizations leave half of the processors free
		changes: perclient.NewLimiter[string](changesAMinute, changesAMinute), exports: admission.NewShares(exportsAtOnce),
	}
}

// newReading bounds the readers. An organization reads one page at a time.
func newReading(most int) *admission.Gate {
	return admission.New(admission.Options{Concurrent: most, Share: 1, Queued: waiting, Wait: pageTime})
}

// read waits until an organization may read; leave ends the reading. The error is a *tooManyError,
// or the context's.
func (t *throttle) read(ctx context.Context, org string) (leave func(), err error) {
	leave, err = t.reading.Enter(ctx, org)
	if _, full := errors.AsType[*admission.FullError](err); full {
		return nil, &tooManyError{time.Second}
	}
	return leave, err
}

// inTurn returns a view that reads in its organization's turn. It suits views that wait only for
// the store.
func (d *dashboard) inTurn(serve view) view {
	return func(r *http.Request, v visit) (answer, error) {
		leave, err := d.throttle.read(r.Context(), v.scope().String())
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
