package caddymodule

// No Caddy here: it resolves the options about what a proxy reaches, and how, apart from what is paid.

import (
	"cmp"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/setting"
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
			return setting.New("purser_proxy "+name, "", unset).Is(given, "on")
		}
	}
	via := true
	err = cmp.Or(
		setting.Set(&r.hosts.Allow, setting.Named("purser_proxy allow_hosts").Hosts, o.AllowHosts),
		setting.Set(&r.hosts.Deny, setting.Named("purser_proxy deny_hosts").Hosts, o.DenyHosts),
		setting.Set(&r.report, on("report_only", setting.Off), o.ReportOnly),
		setting.Set(&r.sites, on("own_sites", setting.Off), o.OwnSites),
		setting.Set(&via, on("via", "on"), o.Via),
		setting.Set(&r.timeout, setting.Named("purser_proxy dial_timeout").Duration, o.DialTimeout),
		setting.Set(&r.resolver, setting.Named("purser_proxy resolver").Resolver, o.Resolver),
	)
	if err != nil {
		return r, err
	}
	r.hideVia = !via
	upstream, without := setting.New("purser_proxy upstream_proxy", "PURSER_UPSTREAM_PROXY", ""), setting.New("purser_proxy no_proxy", "PURSER_NO_PROXY", "")
	var proxyURL string
	var direct []string
	if err := cmp.Or(setting.Set(&proxyURL, upstream.Value, o.UpstreamProxy), setting.Set(&direct, without.List, o.NoProxy)); err != nil || proxyURL == "" {
		return r, err
	}
	if strings.Contains(proxyURL, "@") { // it has a login
		if err := upstream.IsReference(o.UpstreamProxy); err != nil {
			return r, err
		}
	}
	if r.parent, err = guard.ParseParent(proxyURL, strings.Join(direct, ","), roots); err != nil {
		err = upstream.Errorf("%w", err)
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
