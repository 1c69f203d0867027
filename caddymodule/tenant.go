package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// errClosing: the tenant's configuration is gone for good.
var errClosing = errors.New("this configuration has ended")

// tenant is what one configuration runs on a pooled store: its payer, and the requests
// that are using it. It outlives its configuration until those are done.
type tenant struct {
	app   *App
	home  *pooled
	payer *pay.Payer
	chain pay.Chain // nil without an RPC
	// facilitator is nil if none is configured.
	facilitator pay.Facilitator
	log         *slog.Logger
	emit        emitter
	readings    *readings // for metrics
	// authority opens HTTPS; nil until a door has asked for it.
	authority *authority
	// closers end what belongs to this configuration besides the payer.
	closers []func(context.Context) error
	// forwards are the proxies by their site, for what clients keep open across a reload.
	forwards map[string]*proxy.Forward
	// retirers are called when another configuration has taken over: what clients keep open
	// must not go on with this one. They do not wait.
	retirers []func()

	mu       sync.Mutex
	requests int
	closed   bool
	left     time.Time     // when its configuration was replaced; zero before
	idle     chan struct{} // closed when the last request ends; nil while nobody waits
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
	t.left = time.Now()
	t.mu.Unlock()
	for _, end := range t.retirers {
		end()
	}
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
	errs = append(errs, t.payer.Close(ctx))
	if err := errors.Join(errs...); err != nil {
		log.Warn("work was still in flight; what it leaves open is for recovery", "error", err)
	}
}

// serves makes a proxy known as that of its site. When the configuration is replaced, what its
// clients keep open goes on with the proxy that the next one has there.
func (t *tenant) serves(s *caddyhttp.Server, f *proxy.Forward) {
	var site string
	if s != nil {
		site = strings.Join(slices.Sorted(slices.Values(s.Listen)), " ")
	}
	for t.forwards[site] != nil { // a site may have several, in the same order each time
		site += " +"
	}
	if t.forwards == nil {
		t.forwards = make(map[string]*proxy.Forward)
	}
	t.forwards[site] = f
	t.closers = append(t.closers, f.Close)
	t.retirers = append(t.retirers, func() {
		f.HandOver(func() (*proxy.Forward, func()) { return t.successor(site) })
	})
}

// successor is the proxy of a site in the newest configuration. leave must be called for each.
func (t *tenant) successor(site string) (next *proxy.Forward, leave func()) {
	newest := t.home.newestTenant()
	if newest == nil || newest == t || newest.forwards[site] == nil || newest.enter() != nil {
		return nil, nil
	}
	return newest.forwards[site], newest.leave
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
