// Package reopen tries again and again to open what a start could not, such as a store. It knows no store: its caller opens
// it, and decides what is served meanwhile.
package reopen

import (
	"context"
	"sync/atomic"
	"time"
)

// Pauses before an attempt grow from the first to the last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Outage is the time until an attempt succeeds, or [Outage.Stop].
type Outage struct {
	// Since is its beginning.
	Since time.Time

	cause atomic.Pointer[error]
	end   context.CancelFunc
	ended chan struct{}
}

// Begin begins an outage because of cause. attempt is called, by one goroutine, until it returns nil or ctx ends. changed is
// told of an error whose text is another one than that before it.
func Begin(ctx context.Context, cause error, attempt func(context.Context) error, changed func(error)) *Outage {
	ctx, end := context.WithCancel(ctx)
	o := &Outage{Since: time.Now(), end: end, ended: make(chan struct{})}
	o.cause.Store(&cause)
	go func() { // Stop waits for it
		defer close(o.ended)
		o.run(ctx, attempt, changed)
	}()
	return o
}

func (o *Outage) run(ctx context.Context, attempt func(context.Context) error, changed func(error)) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		err := attempt(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != o.Cause().Error() {
			changed(err)
		}
		o.cause.Store(&err)
	}
}

// Cause returns the error of the latest attempt.
func (o *Outage) Cause() error { return *o.cause.Load() }

// Stop ends the attempts, and waits for the one that is being made.
func (o *Outage) Stop() {
	o.end()
	<-o.ended
}
