package caddymodule

// No Caddy here: it counts the requests that use the core of one configuration.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/forward"
)

// errClosing: the tenant's configuration is gone for good.
var errClosing = errors.New("this configuration has ended")

// tenant holds what one configuration runs on a pooled store: its payer, and the requests that are
// using it. It outlives its configuration until those are done.
type tenant struct {
	app   *App
	home  *pooled
	payer *pay.Payer
	books *books.Books
	chain pay.Chain // nil without an RPC
	// facilitator is nil if none is configured.
	facilitator pay.Facilitator
	log         *slog.Logger
	emit        emitter
	readings    *metrics.Readings
	notices     *notices.Sender
	troubles    *trouble.Watch
	// authority opens HTTPS; nil until a door has asked for it.
	authority *authority
	// closers end what belongs to this configuration besides the payer.
	closers  []func(context.Context) error
	forwards []*forward.Proxy

	mu       sync.Mutex
	requests int
	closed   bool
	left     time.Time     // when its configuration was replaced; zero before
	idle     chan struct{} // closed when the last request ends; nil while close does not wait
}

// enter counts a request in. It fails once the tenant is closed.
func (t *tenant) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosing
	}
	t.requests++
	return nil
}

// declined tells those who watch of a request that a door did not pay, and counts it.
func (t *tenant) declined(door policy.Door, d pay.Decline) {
	t.home.feed.Add(feed.OfDecline(door, d))
	t.payer.NoteDecline(d)
}

// leave counts a request out.
func (t *tenant) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests--
	if t.requests == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// retire notes that the configuration was replaced.
func (t *tenant) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = time.Now()
}

// forgettable reports whether no request can come any more. It closes the tenant if so.
func (t *tenant) forgettable(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left.IsZero() || t.requests > 0 || now.Before(t.left.Add(tenantKept)) {
		return false
	}
	t.closed = true
	return true
}

// close waits for requests and payments in flight, and then lets go. Requests and tunnels
// have until requests ends, payments until ctx does.
func (t *tenant) close(ctx, requests context.Context, log *slog.Logger) {
	t.mu.Lock()
	t.closed = true
	var idle chan struct{}
	if t.requests > 0 {
		t.idle = make(chan struct{})
		idle = t.idle
	}
	t.mu.Unlock()
	var errs []error
	for _, end := range t.closers { // those of the proxy cut the tunnels that are left
		errs = append(errs, end(requests))
	}
	if idle != nil {
		select {
		case <-idle:
		case <-requests.Done():
			errs = append(errs, fmt.Errorf("waiting for requests in flight: %w", requests.Err()))
		}
	}
	if t.payer != nil { // else it was never opened
		errs = append(errs, t.payer.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		log.Warn("work was still in flight; what it leaves open is for recovery", "error", err)
	}
}

// closeLater closes what a client keeps open, if it can be closed, when the tenant is.
func (t *tenant) closeLater(client any) {
	if c, ok := client.(interface{ Close() }); ok {
		t.closers = append(t.closers, func(context.Context) error {
			c.Close()
			return nil
		})
	}
}
