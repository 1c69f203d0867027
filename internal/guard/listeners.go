package guard

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
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

// OwnHost returns a function that recognizes the host of a URL, "host" or "host:port" in lower case, as that of a public
// URL, which may be empty, or of listeners.
func OwnHost(publicURL string, listeners ...netip.AddrPort) func(host string) bool {
	listening := OwnListeners(listeners...)
	var public string
	if u, err := url.Parse(publicURL); err == nil {
		public = strings.ToLower(u.Host)
	}
	return func(host string) bool {
		if public != "" && host == public {
			return true
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), "80"
		}
		if name == "localhost" {
			name = "127.0.0.1"
		}
		addr, err := netip.ParseAddrPort(net.JoinHostPort(name, port))
		return err == nil && listening(addr)
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

// PortOf returns the port of an http or https URL, which may go without saying.
func PortOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
