package perclient

import "net/netip"

// Peer returns the network of a client's "address:port". It returns the zero address when there is
// none, as on a Unix socket.
func Peer(remote string) netip.Addr {
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return Network(p.Addr())
}

// Network returns the addresses that count as one client: an IPv4 address, or the /64 of an IPv6
// address.
func Network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	p, _ := addr.Prefix(64) // fails only for other widths
	return p.Addr()
}
