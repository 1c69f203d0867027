// Package peer tells clients apart by their addresses.
package peer

import "net/netip"

// Of is the network of a client's "address:port"; the zero address if it has none, as on a
// Unix socket.
func Of(remote string) netip.Addr {
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return Network(p.Addr())
}

// Network is what one client has all of: an IPv4 address, or the /64 around an IPv6 one.
func Network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	p, _ := addr.Prefix(64) // fails for other widths only
	return p.Addr()
}
