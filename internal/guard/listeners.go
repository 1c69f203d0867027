package guard

import (
	"net"
	"net/netip"
	"slices"
)

// OwnListeners returns a function that recognizes the addresses of listeners, for [Options].Own. A
// listener that is bound to all addresses is reached through loopback and through every address
// that an interface has at that moment.
func OwnListeners(listeners ...netip.AddrPort) func(netip.AddrPort) bool {
	bound := slices.Clone(listeners)
	return func(addr netip.AddrPort) bool {
		ip := addr.Addr().Unmap()
		return slices.ContainsFunc(bound, func(l netip.AddrPort) bool {
			if l.Port() != addr.Port() {
				return false
			}
			own := l.Addr().Unmap()
			return own == ip || own.IsUnspecified() && isLocal(ip) || ip.IsUnspecified() && own.IsLoopback()
		})
	}
}

func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // rather refuse than loop
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(n.IP)
		return ok && own.Unmap() == ip
	})
}
