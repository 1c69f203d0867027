package caddymodule

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/ports"
)

// sitesFree is nil unless another program listens where a site is to. Caddy opens its listeners so
// that several programs can have the same port (SO_REUSEPORT), and the system deals connections
// out among them: with two pursers that have books of their own, a repeat could come to the one
// that knows nothing of the first payment.
//
// It is found out while modules are provisioned, when none listens yet, and told when they are
// started: a configuration may be validated beside the purser that runs it. Only the first
// configuration of a process is looked at; those after it share listeners with the one before.
func sitesFree(ctx context.Context, s *caddyhttp.Server) error {
	if s == nil || caddy.ActiveContext().Context != nil {
		return nil
	}
	for _, listen := range s.Listen {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || address.IsUnixNetwork() || address.IsFdNetwork() {
			continue
		}
		for i := range address.PortRangeSize() {
			if where := address.JoinHostPort(i); ports.Occupied(ctx, address.Network, where) {
				return fmt.Errorf("purser: another program listens on %s already, maybe another purser: end it, or give this one other ports (PURSER_PORT, PURSER_UPSTREAM_PORT)", where)
			}
		}
	}
	return nil
}
