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
// started: a configuration may be validated beside the purser that runs it. A configuration shares
// the listeners of the one that it replaces.
func sitesFree(ctx context.Context, s *caddyhttp.Server) error {
	if s == nil {
		return nil
	}
	own := ownPorts()
	for _, listen := range s.Listen {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || address.IsUnixNetwork() || address.IsFdNetwork() {
			continue
		}
		for i := range address.PortRangeSize() {
			where := address.JoinHostPort(i)
			shared := own != nil && (own[address.StartPort+i] || caddy.ListenerUsage(address.Network, where) > 0)
			if !shared && ports.Occupied(ctx, address.Network, where) {
				return fmt.Errorf("purser: another program listens on %s already, maybe another purser: end it, or give this one other ports (PURSER_PORT, PURSER_UPSTREAM_PORT)", where)
			}
		}
	}
	return nil
}

// ownPorts are the ports of the doors of the configuration that serves now, nil without one.
func ownPorts() map[uint]bool {
	if caddy.ActiveContext().Context == nil {
		return nil
	}
	own := map[uint]bool{}
	if t := serving(); t != nil {
		for _, d := range t.app.doors {
			listeners, _ := addrPorts(d.listen()) // they are listened on, so they have ports
			for _, l := range listeners {
				own[uint(l.Port())] = true
			}
		}
	}
	return own
}
