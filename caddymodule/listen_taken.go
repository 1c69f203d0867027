package caddymodule

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/internal/routes"
)

// sitesFree is nil unless another program listens where a site is to. Caddy opens its listeners so
// that several programs can have the same port (SO_REUSEPORT), and the system deals connections
// out among them: with two pursers that have books of their own, a repeat could come to the one
// that knows nothing of the first payment, and Prometheus would read the figures of either.
//
// The sites may listen already, because Caddy starts apps in any order. A configuration can be validated
// beside the purser that runs it.
func (a *App) sitesFree() error {
	sites, err := addrPorts(append(a.listens(), a.metricsSites()...))
	if err != nil {
		return fmt.Errorf("purser: %w", err)
	}
	taken, err := ports.ListenedByOthers(sites)
	if err != nil { // this system does not tell: see whether the ports can be had, unless Caddy has them
		own := ownPorts()
		taken = slices.DeleteFunc(sites, func(where netip.AddrPort) bool {
			return own[where.Port()] || listenedOn(where) || !ports.Occupied(a.ctx, "tcp", where.String())
		})
	}
	if len(taken) > 0 {
		return fmt.Errorf("purser: another program listens on %s already, maybe another purser: end it, or give this one other ports (PURSER_PORT, PURSER_UPSTREAM_PORT, PURSER_METRICS_PORT)", taken[0])
	}
	return nil
}

// metricsSites are the addresses of the sites that tell Prometheus of this process.
func (a *App) metricsSites() (all []string) {
	app, err := a.ctx.AppIfConfigured("http")
	if err != nil {
		return nil
	}
	for _, s := range app.(*caddyhttp.App).Servers {
		if there, _ := routes.Have(s.Routes, "http.handlers.metrics"); there {
			all = append(all, s.Listen...)
		}
	}
	return all
}

// ownPorts are the ports of all sites of the configuration that serves now.
func ownPorts() map[uint16]bool {
	own := map[uint16]bool{}
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return own
	}
	for _, s := range app.(*caddyhttp.App).Servers {
		listeners, _ := addrPorts(s.Listen) // they are listened on, so they have ports
		for _, l := range listeners {
			own[l.Port()] = true
		}
	}
	return own
}
