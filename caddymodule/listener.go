package caddymodule

import (
	"cmp"
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
)

// Listener is a listener wrapper for the sites of purser's doors. It bounds open connections, see
// [conns.Set], and reads what clients send ahead. Sites with TLS have it before the wrapper tls.
type Listener struct {
	// MaxConnections is the largest number of connections of a site, or off. Default:
	// {env.PURSER_MAX_CONNECTIONS}, else 8192.
	MaxConnections string `json:"max_connections,omitempty"`
	// MaxPeerConnections is the largest number of connections of one client address, or off. Default:
	// {env.PURSER_MAX_PEER_CONNECTIONS}, else 4096.
	MaxPeerConnections string `json:"max_peer_connections,omitempty"`

	set *conns.Set
}

// CaddyModule returns the Caddy module information.
func (*Listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.purser", New: func() caddy.Module { return new(Listener) }}
}

// Provision resolves the limits and asks the server to tell what its connections do.
func (l *Listener) Provision(ctx caddy.Context) error {
	var all, peer *int
	err := cmp.Or(
		setting.Set(&all, setting.New("listener purser max_connections", "PURSER_MAX_CONNECTIONS", "8192").Count, l.MaxConnections),
		setting.Set(&peer, setting.New("listener purser max_peer_connections", "PURSER_MAX_PEER_CONNECTIONS", "4096").Count,
			l.MaxPeerConnections),
	)
	if err != nil {
		return err
	}
	l.set = conns.NewSet(conns.Limits{Max: *all, MaxPeer: *peer, Dropped: metrics.Process.Dropped.Inc})
	if s := siteOf(ctx); s != nil {
		s.RegisterConnState(l.set.State)
	}
	return nil
}

// WrapListener implements caddy.ListenerWrapper.
func (l *Listener) WrapListener(inner net.Listener) net.Listener { return l.set.Listen(inner) }

// UnmarshalCaddyfile reads:
//
//	purser {
//	    max_connections      <number>|off
//	    max_peer_connections <number>|off
//	}
func (l *Listener) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseModule(d, l, nil)
}

var (
	_ caddy.Provisioner     = (*Listener)(nil)
	_ caddy.ListenerWrapper = (*Listener)(nil)
	_ caddyfile.Unmarshaler = (*Listener)(nil)
)
