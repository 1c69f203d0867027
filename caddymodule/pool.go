package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
)

// stores are the open databases of this process. A reload finds its database here,
// because the new configuration starts before the old one stops and a database file can
// be opened only once.
var stores = caddy.NewUsagePool()

const (
	// drainTime bounds how long a store without a configuration waits for work in flight.
	drainTime = 10 * time.Second
	// requestTime is the part of it that requests and tunnels have; payments that they
	// leave behind have the rest.
	requestTime = 8 * time.Second
	// exitTime is requestTime when the process ends. The servers have waited for their
	// requests by then, and for those inside intercepted connections (see drainWith); what
	// is left are tunnels, which may never end.
	exitTime = time.Second
	// tenantKept keeps a tenant known after its configuration was replaced:
	// requests that its server had already accepted may still come.
	tenantKept = time.Minute
)

var errOtherSettings = errors.New("the running configuration has this store open with another master key, world or other options; those change with a restart, not with a reload")

// pooled is one open store and the configurations that use it, its tenants. It owns what
// runs once per process and database: recovery, and the sending of events.
type pooled struct {
	store    Store
	place    string
	since    time.Time // it is open
	settings string    // what it was opened with
	log      *slog.Logger
	logs     logs.Follower
	events   *events
	feed     *feed.Feed
	links    *session.Links // survive a reload
	calls    *pay.Calls     // so do they

	turn     sync.Mutex // held while recovery changes hands
	recovery *recovery  // nil while no tenant recovers; guarded by turn

	mu      sync.Mutex
	tenants []*tenant   // oldest first
	active  []*tenant   // those started and not stopped, oldest first
	started atomic.Bool // one was
}

// recovery is one run of a payer's recovery loop.
type recovery struct {
	tenant *tenant
	cancel context.CancelFunc
	done   chan struct{}
}

// acquire opens a store or takes the open one. Each acquire needs one release.
func acquire(ctx context.Context, m StoreModule, place, settings string, o StoreOptions) (*pooled, error) {
	v, loaded, err := stores.LoadOrNew(place, func() (caddy.Destructor, error) {
		p := &pooled{place: place, since: time.Now(), settings: settings, calls: pay.NewCalls(), logs: logs.NewFollower(o.Logger.Handler())}
		p.log = slog.New(p.logs)
		o.Logger = p.log
		store, err := m.Open(ctx, place, o)
		if err != nil {
			return nil, &storeError{err}
		}
		p.store, p.events, p.feed, p.links = store, newEvents(p.log), feed.New(nil), session.NewLinks(nil)
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	p := v.(*pooled)
	if loaded && p.settings != settings {
		p.release()
		return nil, fmt.Errorf("%s: %w", place, errOtherSettings)
	}
	return p, nil
}

// release gives up one acquire. The last one waits for work in flight and closes the store.
func (p *pooled) release() {
	if _, err := stores.Delete(p.place); err != nil {
		p.log.Error("store not closed cleanly", "store", p.place, "error", err)
	}
}

// add makes a tenant known and forgets those that can get no request any more.
func (p *pooled) add(t *tenant) {
	p.mu.Lock()
	p.tenants = append(p.tenants, t)
	var gone []*tenant
	p.tenants = slices.DeleteFunc(p.tenants, func(old *tenant) bool {
		if old.requests.Expire(time.Now(), tenantKept) {
			gone = append(gone, old)
			return true
		}
		return false
	})
	p.mu.Unlock()
	for _, old := range gone {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		old.close(ctx, ctx, p.log) // nothing is in flight
		cancel()
	}
}

// start makes a tenant the one that recovers and speaks, until a newer one starts.
func (p *pooled) start(t *tenant) {
	p.mu.Lock()
	if n := len(p.active); n > 0 {
		t.readings.Inherit(p.active[n-1].readings)
		t.troubles.Inherit(p.active[n-1].troubles)
	}
	p.active = append(p.active, t)
	p.started.Store(true)
	p.mu.Unlock()
	p.logs.Follow(t.log.Handler())
	p.events.speak(t.emit)
	p.rule()
	p.handOver()
}

// stop ends a tenant's turn. If it was the newest, because a newer configuration failed to
// start or the process ends, the one before takes over.
func (p *pooled) stop(t *tenant) {
	p.mu.Lock()
	p.active = slices.DeleteFunc(p.active, func(a *tenant) bool { return a == t })
	p.mu.Unlock()
	if newest := p.newestTenant(); newest != nil {
		p.logs.Follow(newest.log.Handler())
		p.events.speak(newest.emit)
	}
	p.rule()
	p.handOver()
}

// rule makes the limits of the newest active tenant hold for all.
func (p *pooled) rule() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.active)
	if n == 0 {
		return
	}
	for _, t := range p.tenants {
		if newest := p.active[n-1]; t != newest {
			t.payer.Follow(newest.payer)
		} else {
			t.payer.Follow(nil)
		}
	}
}

// handOver makes the newest active tenant the only one that recovers, and waits until
// the one before has stopped.
func (p *pooled) handOver() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	var newest *tenant
	if n := len(p.active); n > 0 {
		newest = p.active[n-1]
	}
	p.mu.Unlock()
	if p.recovery != nil && p.recovery.tenant == newest {
		return
	}
	if p.recovery != nil {
		p.recovery.cancel()
		<-p.recovery.done
		p.recovery = nil
	}
	if newest == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &recovery{tenant: newest, cancel: cancel, done: make(chan struct{})}
	p.recovery = r
	go func() { // waited for through done
		defer close(r.done)
		var beside sync.WaitGroup
		beside.Go(func() { newest.readings.Run(ctx) })
		beside.Go(func() { newest.books.Sweep(ctx) })
		beside.Go(func() { newest.notices.Run(ctx) })
		beside.Go(func() { newest.troubles.Run(ctx) })
		defer beside.Wait()
		newest.payer.Recover(ctx)
	}()
}

// newestTenant is the tenant that serves now, or nil. A request may have opened it before it has started: see [App.enter].
func (p *pooled) newestTenant() *tenant {
	p.mu.Lock()
	defer p.mu.Unlock()
	serving := p.active
	if !p.started.Load() {
		serving = p.tenants
	}
	if n := len(serving); n > 0 {
		return serving[n-1]
	}
	return nil
}

// Destruct waits, for drainTime at most, for the work of all tenants, and closes the store.
func (p *pooled) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	p.mu.Lock()
	p.active = nil
	tenants := p.tenants
	p.mu.Unlock()
	p.handOver()
	defer p.feed.Close()
	patience := requestTime
	if caddy.Exiting() {
		patience = exitTime
	}
	requests, cancelRequests := context.WithTimeout(ctx, patience)
	defer cancelRequests()
	var draining sync.WaitGroup
	for _, t := range tenants {
		draining.Go(func() { t.close(ctx, requests, p.log) })
	}
	draining.Wait()
	p.events.close(ctx)
	if err := p.store.Close(); err != nil {
		return fmt.Errorf("closing store %s: %w", p.place, err)
	}
	return nil
}

var _ caddy.Destructor = (*pooled)(nil)
