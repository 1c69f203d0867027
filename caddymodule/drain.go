package caddymodule

import (
	"context"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/proxy/forward"
)

// drainWith ends the tunnels of a server with the server, because a server that shuts down does
// not know of connections that it has given away.
//
// After a reload, intercepted connections end with their last request. Blind tunnels end with the
// grace period. Neither is waited for. When the process ends, requests inside intercepted
// connections are waited for as long as the grace period lasts, whichever configuration opened
// them.
func (a *App) drainWith(s *caddyhttp.Server) {
	s.RegisterOnShutdown(func() {
		if caddy.Exiting() {
			for _, f := range a.forwards() {
				f.Retire(time.Time{})
			}
		}
	})
	s.RegisterOnStop(func(ctx context.Context) error {
		if !caddy.Exiting() {
			if run := a.live.Load(); run != nil {
				until, _ := ctx.Deadline() // zero without a grace period
				for _, f := range run.tenant.forwards {
					f.Retire(until)
				}
			}
			return nil
		}
		var errs []error
		for _, f := range a.forwards() {
			errs = append(errs, f.Drain(ctx))
		}
		return errors.Join(errs...)
	})
}

// forwards returns the proxies of all configurations that use the app's store.
func (a *App) forwards() []*forward.Proxy {
	run := a.live.Load()
	if run == nil { // the first request opens the store
		return nil
	}
	run.home.mu.Lock()
	defer run.home.mu.Unlock()
	var all []*forward.Proxy
	for _, t := range run.home.tenants {
		all = append(all, t.forwards...)
	}
	return all
}
