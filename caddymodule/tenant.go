package caddymodule

// No Caddy here: it counts the requests that use the core of one configuration.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/leases"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/forward"
)

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

	requests leases.Leases
}

// enter counts a request in. It fails once the tenant is closed.
func (t *tenant) enter() error { return t.requests.Enter() }

// leave counts a request out.
func (t *tenant) leave() { t.requests.Leave() }

// declined tells those who watch of a request that a door did not pay, and counts it.
func (t *tenant) declined(door policy.Door, d pay.Decline) {
	t.home.feed.Add(feed.OfDecline(door, d))
	t.payer.NoteDecline(d)
}

// close waits for requests and payments in flight, and then lets go. Requests and tunnels
// have until requests ends, payments until ctx does.
func (t *tenant) close(ctx, requests context.Context, log *slog.Logger) {
	idle := t.requests.Close()
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
