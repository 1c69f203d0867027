package exposure

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Loopback reports whether only programs of this machine reach a listener's address, as Caddy writes
// it: host:port or network/host:port. It returns false where it cannot tell. Names other than localhost
// may stand for any address.
func Loopback(listen string) bool {
	network, rest, named := strings.Cut(listen, "/")
	if !named {
		network, rest = "tcp", listen
	}
	switch network = strings.ToLower(strings.TrimSpace(network)); {
	case strings.HasPrefix(network, "unix"):
		return true
	case network != "tcp" && network != "tcp4" && network != "tcp6":
		return false
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil {
		host = strings.Trim(rest, "[]")
	}
	return loopbackHost(host)
}

// OnlyLoopback reports whether there are listeners, and each is one of this machine.
func OnlyLoopback(listen []string) bool { return len(listen) > 0 && len(Beyond(listen)) == 0 }

// Beyond returns the listeners that programs of other machines may reach.
func Beyond(listen []string) (others []string) {
	for _, l := range listen {
		if !Loopback(l) {
			others = append(others, l)
		}
	}
	return others
}

// Elsewhere reports whether a public URL leads people of other machines here. Behind it is another
// proxy, so that a connection from loopback may be a stranger's.
func Elsewhere(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return publicURL != "" && (err != nil || !loopbackHost(u.Hostname()))
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
