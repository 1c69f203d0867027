package caddymodule

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/proxy"
)

// drainWith has a server, when the process ends, treat requests inside intercepted
// connections as its own: connections without one are closed at once, and those with one are
// waited for as long as the grace period lasts. The connections may have been opened under
// an earlier configuration.
func (a *App) drainWith(s *caddyhttp.Server) {
	s.RegisterOnShutdown(func() {
		if !caddy.Exiting() { // clients keep their connections over a reload
			return
		}
		for _, f := range a.forwards() {
			f.Retire()
		}
	})
	s.RegisterOnStop(func(ctx context.Context) error {
		if !caddy.Exiting() {
			return nil
		}
		var errs []error
		for _, f := range a.forwards() {
			errs = append(errs, f.Drain(ctx))
		}
		return errors.Join(errs...)
	})
}

// forwards are the proxies of all configurations that use the app's store.
func (a *App) forwards() []*proxy.Forward {
	run := a.live.Load()
	if run == nil { // nobody has come yet
		return nil
	}
	run.home.mu.Lock()
	defer run.home.mu.Unlock()
	var all []*proxy.Forward
	for _, t := range run.home.tenants {
		for _, f := range t.forwards {
			all = append(all, f)
		}
	}
	return all
}
