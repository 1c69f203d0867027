package caddymodule

// No Caddy here: it resolves the options about what a proxy reaches, and how, apart from what is paid.

import (
	"cmp"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/guard"
)

// ReachOptions say what a proxy connects to, and how.
type ReachOptions struct {
	// AllowHosts, when set, are the only hosts that clients reach, paid or not: names, addresses,
	// "*.example.com". Each may hold several, separated by commas or spaces. Default: all.
	AllowHosts []string `json:"allow_hosts,omitempty"`
	// DenyHosts are not reached in any case.
	DenyHosts []string `json:"deny_hosts,omitempty"`
	// ReportOnly, when "on", logs the hosts that these lists would refuse, once each, and
	// refuses none. Default: off.
	ReportOnly string `json:"report_only,omitempty"`

	// OwnSites, when "on", lets clients reach sites of the same Caddy, but for those with a door of purser's. Default: off.
	OwnSites string `json:"own_sites,omitempty"`

	// UpstreamProxy is a reference to the URL of a proxy that leads to the outside, such as
	// "http://proxy.example.com:3128", https or socks5, with its login if it wants one. It must take CONNECT to
	// all ports that are used. It looks names up, so that purser judges no address of a name behind it.
	// Default: {env.PURSER_UPSTREAM_PROXY}, else none.
	UpstreamProxy string `json:"upstream_proxy,omitempty"`
	// NoProxy are the hosts that are reached without it, in the form of NO_PROXY. Loopback always is.
	// Default: {env.PURSER_NO_PROXY}, else none.
	NoProxy string `json:"no_proxy,omitempty" form:"list"`
	// Via, when "off", keeps purser's name out of the Via headers of requests and answers. A loop of
	// proxies is not noticed then. Default: on.
	Via string `json:"via,omitempty"`
	// DialTimeout is the time for a connection to an upstream, such as 10s. Default: 10 s.
	DialTimeout string `json:"dial_timeout,omitempty"`
	// Resolver is the DNS server that looks upstreams up, such as "10.0.0.53" or "10.0.0.53:5353".
	// Default: the system's.
	Resolver string `json:"resolver,omitempty"`
}

// reach holds the resolved ReachOptions.
type reach struct {
	hosts    guard.Reach
	report   bool
	sites    bool // of this Caddy
	parent   *guard.Parent
	hideVia  bool
	timeout  time.Duration
	resolver *net.Resolver
}

// resolveReach checks the options. roots verify an upstream proxy; nil: the system's.
func (o ReachOptions) resolveReach(roots *x509.CertPool) (r reach, err error) {
	on := func(name, unset string) func(string) (bool, error) {
		return func(given string) (bool, error) {
			return option{name: "purser_proxy " + name, unset: unset}.is(given, "on")
		}
	}
	via := true
	err = cmp.Or(
		set(&r.hosts.Allow, option{name: "purser_proxy allow_hosts"}.hosts, o.AllowHosts),
		set(&r.hosts.Deny, option{name: "purser_proxy deny_hosts"}.hosts, o.DenyHosts),
		set(&r.report, on("report_only", off), o.ReportOnly),
		set(&r.sites, on("own_sites", off), o.OwnSites),
		set(&via, on("via", "on"), o.Via),
		set(&r.timeout, option{name: "purser_proxy dial_timeout"}.duration, o.DialTimeout),
		set(&r.resolver, option{name: "purser_proxy resolver"}.resolver, o.Resolver),
	)
	if err != nil {
		return r, err
	}
	r.hideVia = !via
	upstream, without := option{"purser_proxy upstream_proxy", "PURSER_UPSTREAM_PROXY", ""}, option{"purser_proxy no_proxy", "PURSER_NO_PROXY", ""}
	var proxyURL string
	var direct []string
	if err := cmp.Or(set(&proxyURL, upstream.value, o.UpstreamProxy), set(&direct, without.list, o.NoProxy)); err != nil || proxyURL == "" {
		return r, err
	}
	if strings.Contains(proxyURL, "@") { // it has a login
		if err := upstream.isReference(o.UpstreamProxy); err != nil {
			return r, err
		}
	}
	if r.parent, err = guard.ParseParent(proxyURL, strings.Join(direct, ","), roots); err != nil {
		err = upstream.errorf("%w", err)
	}
	return r, err
}

// options returns the options of a dialer. log tells of hosts that would be refused.
func (r reach) options(log func(host string)) guard.Options {
	hosts := r.hosts
	if r.report {
		hosts.Report = guard.Once(log)
	}
	return guard.Options{Reach: hosts, Parent: r.parent, Timeout: r.timeout, Resolver: r.resolver}
}

// hosts is an option that is a list of hosts.
func (o option) hosts(given []string) (guard.Hosts, error) {
	entries, err := o.all(given)
	if err != nil {
		return guard.Hosts{}, err
	}
	hosts, err := guard.ParseHosts(entries...)
	if err != nil {
		return guard.Hosts{}, o.errorf("%w", err)
	}
	return hosts, nil
}

// resolver is an option that is a DNS server; nil if it is not set.
func (o option) resolver(given string) (*net.Resolver, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return nil, err
	}
	r, err := guard.ParseResolver(v)
	if err != nil {
		err = o.errorf("%w", err)
	}
	return r, err
}
