package guard

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Reach says which hosts may be connected to, by the names or addresses that clients ask for. The
// addresses of a name that may be are judged all the same.
type Reach struct {
	// Allow lists all of them. Empty: all that Deny lacks.
	Allow Hosts
	// Deny lists hosts that may not be connected to in any case.
	Deny Hosts
	// Report is told of each host that is outside, which may then be connected to all the same; nil:
	// such a host is refused.
	Report func(host string)
}

// refuses judges a host, a name or an address in normal form.
func (r Reach) refuses(host string) bool {
	if !r.Deny.Contains(host) && (r.Allow.empty() || r.Allow.Contains(host)) {
		return false
	}
	if r.Report != nil {
		r.Report(host)
		return false
	}
	return true
}

// maxReported bounds the hosts of which it is known that they were reported.
const maxReported = 4096

// Once returns a [Reach].Report that passes each host on once, as long as there are not too many.
func Once(report func(host string)) func(host string) {
	told, _ := lru.New[string, struct{}](maxReported) // fails for no such size
	return func(host string) {
		if known, _ := told.ContainsOrAdd(host, struct{}{}); !known {
			report(host)
		}
	}
}

// ParseResolver returns a resolver that asks one DNS server: an address, with a port unless it is 53.
func ParseResolver(at string) (*net.Resolver, error) {
	server, err := netip.ParseAddrPort(at)
	if ip, plain := netip.ParseAddr(at); plain == nil {
		server, err = netip.AddrPortFrom(ip, 53), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no address such as 10.0.0.53 or 10.0.0.53:5353", at)
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.String())
	}}, nil
}
