package caddymodule

import (
	"cmp"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/forward"
)

// Proxy is the handler of the paying forward proxy. It serves CONNECT and requests for
// other hosts, and leaves everything else to the next handler.
type Proxy struct {
	// AllowHTTP lists hosts that are paid over plain http, where a machine on the path can forge
	// what is asked for. Default: none but addresses that are private and allowed.
	AllowHTTP []string `json:"allow_http,omitempty"`
	ReachOptions
	// AllowAddresses are CIDRs that may be dialled although they are private. Each may
	// hold several, separated by commas. Default: {env.PURSER_ALLOW_ADDRESSES}, else none.
	AllowAddresses []string `json:"allow_addresses,omitempty"`
	// Ports that may be dialled, such as "80,443,1024-65535", which is the default.
	Ports string `json:"ports,omitempty" form:"list"`
	// MaxReplay is the part of a request body that is kept in memory at most, to be sent again with a
	// payment, such as "1MiB". Default: 1 MiB.
	MaxReplay string `json:"max_replay,omitempty"`
	// MaxSpool is the longest request body, such as "64MiB", that is kept in a file to be sent
	// again with a payment, or off; larger requests are not paid. Default: 64 MiB.
	MaxSpool string `json:"max_spool,omitempty"`
	// SpoolDir is the folder for those files. Default: the system's for temporary files.
	SpoolDir string `json:"spool_dir,omitempty"`
	// ChallengeHeaders are further response headers that carry challenges.
	ChallengeHeaders []string `json:"challenge_header,omitempty"`
	// Resolve gives names fixed addresses instead of asking DNS.
	Resolve map[string]string `json:"resolve,omitempty"`

	// Intercept are the hosts whose HTTPS is opened, so that it can be paid for: names,
	// "*.example.com", "*" for all, or "off". Each may hold several, separated by commas.
	// Programs must trust the root that GET /ca.crt answers. Default:
	// {env.PURSER_INTERCEPT}, else *.
	Intercept []string `json:"intercept,omitempty"`
	// Tunnel are hosts that are not intercepted although they are on that list.
	Tunnel []string `json:"tunnel,omitempty"`
	// Routes take requests inside intercepted connections before they are paid for: in a Caddyfile, a block with
	// directives of a site, be it respond, header, log_append or that of a plugin. A request that they answer is neither
	// relayed nor paid for. Default: none.
	Routes caddyhttp.RouteList `json:"routes,omitempty"`
	// Trust are PEM files with roots that upstreams are verified against, beside the
	// system's.
	Trust []string `json:"trust,omitempty"`

	// MaxFailures is the largest number of payments in a row to one host that bring no answer, an error or
	// another 402, before a key's new payments to that host are declined for a while, or off.
	// Default: {env.PURSER_PROXY_MAX_FAILURES}, else 5.
	MaxFailures string `json:"max_failures,omitempty"`
	// MaxTunnels is the largest number of open tunnels (CONNECT, WebSocket). Default:
	// {env.PURSER_PROXY_MAX_TUNNELS}, else 4096.
	MaxTunnels string `json:"max_tunnels,omitempty"`
	// MaxKeyTunnels is the largest number of open tunnels of one key. Default:
	// {env.PURSER_PROXY_MAX_KEY_TUNNELS}, else a quarter.
	MaxKeyTunnels string `json:"max_key_tunnels,omitempty"`
	// MaxPeerTunnels is the largest number of open tunnels of one client address. Default:
	// {env.PURSER_PROXY_MAX_PEER_TUNNELS}, else a half.
	MaxPeerTunnels string `json:"max_peer_tunnels,omitempty"`
	// MaxKeyRequests is the largest number of requests of one key that are relayed at once. Default:
	// {env.PURSER_PROXY_MAX_KEY_REQUESTS}, else 2048.
	MaxKeyRequests string `json:"max_key_requests,omitempty"`

	doorway
	reach        reach
	allow        []netip.Prefix
	ports        []guard.PortRange
	maxReplay    int64
	maxSpool     int64
	spoolDir     string
	failures     int
	tunnels      struct{ all, key, peer int }
	requests     int // of a key
	resolve      map[string]netip.Addr
	interception *forward.Interception // nil: off; its certificates come when the proxy opens
	inside       func(http.ResponseWriter, *http.Request, http.Handler)
	roots        *x509.CertPool // nil: the system's
	authority    *authority     // nil while interception is off
	forward      *forward.Proxy
}

// CaddyModule returns the Caddy module information.
func (*Proxy) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_proxy", New: func() caddy.Module { return new(Proxy) }}
}

// Provision resolves the options and attaches the handler to the app.
func (h *Proxy) Provision(ctx caddy.Context) error {
	err := cmp.Or(
		h.resolveAddresses(),
		setting.Set(&h.ports, setting.New("purser_proxy ports", "PURSER_PROXY_PORTS", "").Ports, h.Ports),
		setting.Set(&h.maxReplay, setting.New("purser_proxy max_replay", "PURSER_PROXY_MAX_REPLAY", "").Size, h.MaxReplay),
		setting.Set(&h.maxSpool, setting.New("purser_proxy max_spool", "PURSER_PROXY_MAX_SPOOL", "").SizeOrOff, h.MaxSpool),
		setting.Set(&h.spoolDir, setting.New("purser_proxy spool_dir", "PURSER_PROXY_SPOOL_DIR", "").Value, h.SpoolDir),
		setting.Set(&h.failures, setting.New("purser_proxy max_failures", "PURSER_PROXY_MAX_FAILURES", "").Most, h.MaxFailures),
		setting.Set(&h.tunnels.all, setting.New("purser_proxy max_tunnels", "PURSER_PROXY_MAX_TUNNELS", "").Bounded, h.MaxTunnels),
		setting.Set(&h.tunnels.key, setting.New("purser_proxy max_key_tunnels", "PURSER_PROXY_MAX_KEY_TUNNELS", "").Bounded,
			h.MaxKeyTunnels),
		setting.Set(&h.tunnels.peer, setting.New("purser_proxy max_peer_tunnels", "PURSER_PROXY_MAX_PEER_TUNNELS", "").Bounded,
			h.MaxPeerTunnels),
		setting.Set(&h.requests, setting.New("purser_proxy max_key_requests", "PURSER_PROXY_MAX_KEY_REQUESTS", "").Bounded,
			h.MaxKeyRequests),
		setting.Set(&h.AllowHTTP, setting.Named("purser_proxy allow_http").All, h.AllowHTTP),
		setting.Set(&h.ChallengeHeaders, setting.Named("purser_proxy challenge_header").All, h.ChallengeHeaders),
		h.resolveInterception(), h.resolveTrust(), h.attach(ctx, h), h.provisionInside(ctx),
	)
	if err == nil {
		err = setting.Set(&h.reach, h.resolveReach, h.roots)
	}
	if err == nil && h.server != nil {
		unlearn(h.server, "h2", "h2c", "h3") // Caddy offers by ALPN what is left, and CONNECT by HTTP/2 would get a 505
		h.app.drainWith(h.server)
	}
	return err
}

func (h *Proxy) resolveAddresses() error {
	allow := setting.New("purser_proxy allow_addresses", "PURSER_ALLOW_ADDRESSES", "")
	given := h.AllowAddresses
	if len(given) == 0 {
		given = []string{""} // the variable
	}
	for _, g := range given {
		cidrs, err := allow.List(g)
		if err != nil {
			return err
		}
		prefixes, err := guard.ParsePrefixes(cidrs...)
		if err != nil {
			return allow.Errorf("%w", err)
		}
		h.allow = append(h.allow, prefixes...)
	}
	h.resolve = map[string]netip.Addr{}
	for name, to := range h.Resolve {
		resolve := setting.Named("purser_proxy resolve")
		if err := cmp.Or(setting.Set(&name, resolve.Value, name), setting.Set(&to, resolve.Value, to)); err != nil {
			return err
		}
		ip, err := netip.ParseAddr(to)
		if err != nil {
			return resolve.Errorf("%q is not an IP address", to)
		}
		h.resolve[name] = ip
	}
	return nil
}

func (h *Proxy) open(t *tenant) error {
	listening, err := h.app.ownListeners(h.reach.sites)
	if err != nil {
		return err
	}
	own, err := h.ownHost()
	if err != nil {
		return err
	}
	s := h.app.settings
	dial := h.reach.options(func(host string) {
		h.app.log.Warn("host is outside allow_hosts and deny_hosts, and report_only lets it pass", "host", host)
	})
	dial.Rules = guard.Rules{Allow: h.allow, AllowLoopback: h.loopback(), Own: listening, Ports: h.ports}
	dial.Resolve = h.resolve
	o := forward.Options{
		Payer: t.payer, Dialer: guard.NewDialer(dial), HideVia: h.reach.hideVia,
		PayOptions: proxy.PayOptions{
			MaxReplay: h.maxReplay, MaxSpool: h.maxSpool, SpoolDir: h.spoolDir, Protocols: protocol.Spoken(h.ChallengeHeaders...), AllowHTTP: h.AllowHTTP,
			Observer:    metrics.Door{Door: policy.DoorProxy, Heard: t.declined, Version: Version()},
			MaxFailures: h.failures, Admission: s.bounds("proxy"),
		},
		MaxTunnels: h.tunnels.all, MaxKeyTunnels: h.tunnels.key, MaxPeerTunnels: h.tunnels.peer, MaxKeyRequests: h.requests,
		Inside: h.inside, Own: own, Guests: forward.NoGuests, Logger: h.app.log.With("part", "proxy"),
	}
	if h.loopback() && !exposure.Elsewhere(s.publicURL) {
		o.Guests = forward.GuestsHere
	}
	if s.standin {
		o.StandIn = s.key
	}
	if err := h.intercept(t, &o); err != nil {
		return err
	}
	if h.forward, err = forward.New(o); err != nil {
		return err
	}
	t.forwards = append(t.forwards, h.forward)
	t.closers = append(t.closers, h.forward.Close)
	return nil
}

// ownHost recognizes this site in absolute-form requests.
func (h *Proxy) ownHost() (func(host string) bool, error) {
	listeners, err := addrPorts(h.listen())
	if err != nil {
		return nil, err
	}
	return guard.OwnHost(h.app.settings.publicURL, listeners...), nil
}

// ServeHTTP serves proxy traffic and passes the rest on.
func (h *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	t, err := h.enter()
	switch {
	case errors.Is(err, errNoStore) && r.Method != http.MethodConnect && !r.URL.IsAbs(): // it is for this site
		return next.ServeHTTP(w, r)
	case err != nil:
		refuse(w, r, err)
		return nil
	}
	defer t.leave()
	rest := answering(next, func(err error) {
		h.app.log.Error("handler behind the proxy failed", "method", r.Method, "error", err)
	})
	if h.authority != nil {
		rest = h.authority.publish(rest)
	}
	rest = forward.PAC(rest)
	h.forward.ServeHTTP(w, tracing.Request(r), rest)
	return nil
}

// parse reads:
//
//	purser_proxy [<matcher>] {
//	    <option> <value>
//	    resolve <name> <ip>
//	    routes {
//	        <directives of a site>
//	    }
//	}
//
// Options have the names that the fields have in JSON. Options that take a host, a CIDR, a header or a
// PEM file can be repeated, and resolve.
func (h *Proxy) parse(d *caddyfile.Dispenser, routes func() error) error {
	return parseModule(d, h, map[string]func() error{"routes": routes, "resolve": func() error {
		var host, ip string
		if !d.AllArgs(&host, &ip) || strings.TrimSpace(host) == "" || strings.TrimSpace(ip) == "" {
			return d.ArgErr()
		}
		if _, given := h.Resolve[host]; given {
			return twice(d, "resolve "+host, d.GetContext("resolve "+host))
		}
		d.SetContext("resolve "+host, d.Token())
		if h.Resolve == nil {
			h.Resolve = map[string]string{}
		}
		h.Resolve[host] = ip
		return nil
	}})
}

var (
	_ caddy.Provisioner           = (*Proxy)(nil)
	_ caddyhttp.MiddlewareHandler = (*Proxy)(nil)
	_ door                        = (*Proxy)(nil)
)
