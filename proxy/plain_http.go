package proxy

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/purserpay/purser/internal/guard"
)

// plainRule says which hosts may be paid over plain http. Any machine on the path could forge the
// challenge there, and read the payload.
type plainRule struct {
	hosts map[string]bool // lower case, "name" or "name:port"
	may   func(netip.Addr) bool
}

func newPlainRule(hosts []string, may func(netip.Addr) bool) (plainRule, error) {
	if may == nil { // traffic stays in the operator's networks
		may = func(a netip.Addr) bool { return a.IsLoopback() || a.IsPrivate() }
	}
	rule := plainRule{hosts: make(map[string]bool, len(hosts)), may: may}
	for _, entry := range hosts {
		host, port := entry, ""
		if h, p, err := net.SplitHostPort(entry); err == nil {
			host, port = h, ":"+p
		}
		host, err := guard.NormalHost(host)
		if err != nil {
			return plainRule{}, fmt.Errorf("allow_http %q: %w", entry, err)
		}
		rule.hosts[host+port] = true
	}
	return rule, nil
}

// decided reports whether the address does not matter.
func (r plainRule) decided(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, "https") {
		return true
	}
	host, err := guard.NormalHost(u.Hostname())
	if err != nil {
		return false
	}
	return r.hosts[host] || r.hosts[host+":"+cmp.Or(u.Port(), "80")]
}

// allows reports whether a URL may be paid whose host answered from this address.
func (r plainRule) allows(u *url.URL, remote net.Addr) bool {
	if _, unix := remote.(*net.UnixAddr); unix || r.decided(u) {
		return true
	}
	if remote == nil {
		return false
	}
	addr, err := netip.ParseAddrPort(remote.String())
	return err == nil && r.may(addr.Addr().Unmap())
}
