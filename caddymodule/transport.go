package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/browser"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/internal/routes"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/forward"
)

// Transport is a transport of reverse_proxy that pays. Requests go out as through Caddy's
// own http transport; when the answer is an x402 challenge, the payment is made and the
// request is sent once more with it. However often Caddy tries, one request is paid once.
//
// After a request whose payment has left and brought no answer, the variables
// {http.vars.purser.payment} and {http.vars.purser.reason} tell handle_errors which payment
// it was and what is known of it. The latter also says why a 402 was not paid, and why there is no
// answer, such as upstream-tls.
//
// Every client of the site spends: on a listener that is not bound to loopback, an explicit
// budget is required. Pages in a browser do not spend unless their origin is
// allowed. So requests are not paid that such a page may have made, nor those whose Host a
// page may have made to lead here (DNS rebinding): any name but localhost, names that cannot
// be registered (of one label, or below .internal, .local, .home.arpa or .test), the public
// URL's, those of allowed origins, and those that host matchers of the server have. Sites on
// loopback go by none but loopback and the configured ones. Over plain http to more than
// loopback, a browser is known by no more than Origin, Referer and User-Agent: a program
// that calls itself one is not paid for there either, and a browser that calls itself
// something else is taken for a program.
//
// A payment counts as answered once reverse_proxy has written the answer out. A handler in
// front of it that collects answers before it passes them on, such as templates, looks like
// the client: if the real one leaves while it does, its repeat is a new payment. Use
// purser_upstream, which has no such handler behind it, or none in front.
type Transport struct {
	// HTTPTransport reaches the upstream: the options of Caddy's http transport. Other than there,
	// proxies are not taken from the environment.
	*reverseproxy.HTTPTransport `json:"http,omitempty"`

	DoorOptions

	doorway
	log  *slog.Logger
	door payingDoor
	name string // of the variable that keeps the exchange of a request
	host string // Host header of what is sent, without headers that tell of this machine; empty: as Caddy sets it

	// Set when the app opens.
	keyID  string
	secret string // of that key: it must not reach the upstream
	logins *proxy.Logins
	guard  *browser.Guard
	hosts  []caddyhttp.MatchHost // names that the configuration has for the server
	paying *proxy.Transport

	detached sync.Once
}

// CaddyModule returns the Caddy module information.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.purser",
		New: func() caddy.Module { return newTransport() },
	}
}

func newTransport() *Transport { return &Transport{HTTPTransport: new(reverseproxy.HTTPTransport)} }

// Provision sets the http transport up and attaches the door to the app.
func (h *Transport) Provision(ctx caddy.Context) (err error) {
	if h.HTTPTransport == nil { // null in JSON
		h.HTTPTransport = new(reverseproxy.HTTPTransport)
	}
	if err = h.resolveOptions(); err != nil {
		return err
	}
	if err := h.HTTPTransport.Provision(ctx); err != nil {
		return err
	}
	if !h.viaProxy() {
		// A proxy that was not configured here would hide where requests really go, and a purser
		// that runs behind itself would ask itself.
		h.Transport.Proxy = nil
	}
	h.name = fmt.Sprintf("purser.exchange.%p", h)
	if err = cmp.Or(h.attach(ctx, h), h.hideKey()); err != nil {
		return err
	}
	h.log = h.app.log.With("part", "transport")
	return nil
}

// viaProxy reports whether requests go through another proxy.
func (h *Transport) viaProxy() bool { return len(h.NetworkProxyRaw) > 0 || h.ForwardProxyURL != "" }

func (h *Transport) open(t *tenant) error {
	key, secret, err := h.key(t.books)
	if err = cmp.Or(err, h.checkSpending(key)); err != nil {
		return err
	}
	h.keyID, h.secret, h.logins = key.ID, secret, proxy.NewLogins(t.payer, nil)
	h.hosts = routes.Hosts(h.server)
	s := h.app.settings
	if h.guard, err = browser.New(s.publicURL, s.origins); err != nil {
		return err
	}
	o := proxy.TransportOptions{
		PayOptions: h.payOptions(h.door, s.bounds("transport"), t.declined), Payer: t.payer, Next: dialled{h.HTTPTransport}, Door: policy.DoorTransport, Logger: h.log,
	}
	if h.viaProxy() { // its address says nothing of the upstream's
		o.MayPayPlain = func(netip.Addr) bool { return false }
	}
	h.paying, err = proxy.NewTransport(o)
	return err
}

// key is the key that pays, made known if need be, and its secret; none if requests bring theirs.
func (h *Transport) key(b *books.Books) (k pay.Key, secret string, err error) {
	switch {
	case h.door.keyFrom != "":
		return k, "", nil
	case h.door.secret != "":
		k, err = h.app.ensureKey(b, doorKeyOption, h.door.secret, "transport")
		return k, h.door.secret, err
	}
	return h.app.doorKey(h.app.ctx, b)
}

// ownSecret returns the secret of the transport's own key, "" if it has none.
func (h *Transport) ownSecret() string { return h.door.secret }

// RoundTrip sends a request to an upstream, paying for it if need be.
func (h *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	vars, ok := req.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok { // no client asked for it: a health check
		return h.HTTPTransport.RoundTrip(req)
	}
	req = tracing.Request(req)
	h.SetScheme(req)
	t, err := h.enter()
	if err != nil {
		return nil, caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	defer t.leave()
	x := h.exchange(req, vars, t, placeholders(req.Context()))
	if x.refused != nil {
		return x.refused.Response(req), nil
	}
	sent := h.cleaned(h.named(req), x)
	if x.declined != "" {
		return h.pass(sent, x)
	}
	x.attend(req.Context())
	resp, err := h.paying.RoundTrip(sent)
	if err != nil {
		x.failed(req, err)
		return nil, err
	}
	return x.answer(req, resp), nil
}

// exchange returns what a request has been through so far. Caddy shares vars, a request's
// variables, between all attempts at it.
func (h *Transport) exchange(req *http.Request, vars map[string]any, t *tenant, from asking) *exchange {
	if x, ok := vars[h.name].(*exchange); ok {
		return x
	}
	x := &exchange{tenant: t}
	unpaid := h.unpaid(req, from)
	x.spender, x.refused = h.spender(req.Context())
	t.payer.NoteUse(x.spender.keyID, policy.DoorTransport)
	if unpaid != "" && unpaid != declinedEarlyData { // which may repeat a request that was paid for
		x.declined = unpaid
	} else if x.refused == nil {
		x.call = proxy.NewCall(pay.Key{ID: x.spender.keyID}, x.spender.task, proxy.IdempotencyKey(req.Header))
		x.call.Unpaid = unpaid
		x.call.ReadKey = func(ctx context.Context) (pay.Key, error) { return h.keyOf(ctx, t, x.spender) }
		x.call.Ask(req.Header)
		x.call.Closing(from.header("Connection"))
		x.call.URL = func() string { return asked(req.Context(), from) }
		x.call.Client = x.call.URL
	}
	vars[h.name] = x
	return x
}

// keyOf reads the key that pays, as long as its secret works. Each secret of the exec key is known to purser itself.
func (h *Transport) keyOf(ctx context.Context, t *tenant, s spender) (pay.Key, error) {
	if h.door.keyFrom+h.door.secret+h.app.settings.key == "" {
		return t.books.Key(ctx, s.keyID)
	}
	return t.payer.Resolve(ctx, s.secret)
}

// cleaned is a request without what the upstream must not get, the key that pays. Its context has
// the call of the exchange, which may be nil.
func (h *Transport) cleaned(req *http.Request, x *exchange) *http.Request {
	ctx := req.Context()
	if x.call != nil {
		ctx = proxy.WithCall(ctx, x.call)
	}
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	forward.StripSecrets(out.Header, x.spender.secret)
	if h.door.keyFrom != "" {
		forward.StripEverywhere(out.Header, x.spender.secret)
	}
	if h.host != "" {
		out.Host = h.host
		forward.StripForwarded(out.Header)
	}
	return out
}

// Reasons why this door does not pay, beside those of package proxy.
const (
	declinedCrossSite = "cross-site" // a page of another site made the request
	declinedHost      = "host"       // a name that may have been made to lead here, in a browser perhaps
	declinedEarlyData = "early-data" // sent before the handshake was over, so an attacker may have sent it again
)

// unpaid says why a request must not be paid for, whatever it costs; "" if it may.
func (h *Transport) unpaid(req *http.Request, from asking) string {
	ctx := req.Context()
	if ctx.Done() == nil {
		h.detached.Do(func() {
			h.log.Error("requests are not paid because something in front of this transport detaches them from their " +
				"clients: a payment could not end with its client")
		})
		return proxy.DeclinedCallerUnknown
	}
	if req.TLS != nil && !req.TLS.HandshakeComplete || from.header("Early-Data") != "" {
		return declinedEarlyData
	}
	host := from.host()
	if h.guard.Foreign(host, from.header) {
		return declinedCrossSite
	}
	_, unix := ctx.Value(http.LocalAddrContextKey).(*net.UnixAddr) // which no browser reaches
	if !unix && !h.serves(ctx, host) {
		return declinedHost
	}
	return ""
}

// serves reports whether a Host header names the site, and not something that a page made
// to lead here.
func (h *Transport) serves(ctx context.Context, host string) bool {
	if h.guard.Serves(host) || !h.loopback() && browser.Unregistrable(host) {
		return true
	}
	r := (&http.Request{Host: host}).WithContext(ctx)
	return slices.ContainsFunc(h.hosts, func(m caddyhttp.MatchHost) bool { return m.Match(r) })
}

// pass sends a request that must not be paid for.
func (h *Transport) pass(req *http.Request, x *exchange) (*http.Response, error) {
	resp, err := h.paying.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusPaymentRequired || protocol.Spoken().Carries(req.Header) {
		return resp, err
	}
	why := proxy.Explain(x.declined)
	metrics.Door{Door: policy.DoorTransport, Heard: x.tenant.declined, Version: Version()}.Declined(pay.Decline{
		Reason: why.Reason, Detail: why.Detail, KeyID: x.spender.keyID, Task: x.spender.task, Host: pay.RecordedHost(req.URL.Scheme + "://" + req.URL.Host),
	})
	h.log.Info("402 not paid", "host", req.URL.Host, "reason", x.declined)
	why.Into(req, resp)
	caddyhttp.SetVar(req.Context(), reasonVar, x.declined)
	return resp, nil
}

// asking tells what the client asked with. The sent request may have other headers and another host.
type asking struct {
	host   func() string
	scheme func() string
	header func(name string) string
}

// placeholders reads what Caddy says of the client's request.
func placeholders(ctx context.Context) asking {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	from := func(name string) string {
		if !ok {
			return ""
		}
		v, _ := repl.GetString(name)
		return v
	}
	return asking{
		host:   func() string { return from("http.request.hostport") },
		scheme: func() string { return from("http.request.scheme") },
		header: func(name string) string { return from("http.request.header." + name) },
	}
}

// received reads the client's request itself, for a handler that has it. Placeholders say the same,
// and take 2 % of an unpaid request's CPU.
func received(r *http.Request) asking {
	return asking{
		host: func() string { return r.Host },
		scheme: func() string {
			if r.TLS != nil {
				return "https"
			}
			return "http"
		},
		header: func(name string) string { return strings.Join(r.Header.Values(name), ",") },
	}
}

// asked is the URL as the client asked for it. Its repeats are recognized by that, wherever
// the load balancer sends them.
func asked(ctx context.Context, from asking) string {
	original, ok := ctx.Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil {
		return ""
	}
	if original.URL.IsAbs() {
		return original.URL.String()
	}
	return from.scheme() + "://" + from.host() + original.URL.RequestURI()
}

// named is a request whose URL names the upstream, for policy and books, where Caddy writes
// something else: the client's address as well with the PROXY protocol, a path for a Unix
// socket.
func (h *Transport) named(req *http.Request) *http.Request {
	d, ok := reverseproxy.GetDialInfo(req.Context())
	if !ok {
		return req
	}
	host := req.URL.Host
	switch {
	case strings.HasPrefix(d.Network, "unix"):
		host = "localhost"
	case h.ProxyProtocolEnabled():
		host = d.Address
	}
	if host == req.URL.Host {
		return req
	}
	out := req.WithContext(context.WithValue(req.Context(), dialledKey{}, req.URL.Host))
	out.URL = withHost(req.URL, host)
	return out
}

type dialledKey struct{}

// dialled sends requests with the URLs that Caddy gave them.
type dialled struct{ *reverseproxy.HTTPTransport }

// RoundTrip sends a request. A dial that another connection has made needless outlives it, and
// reads the variables of the request, so it gets a copy: purser sets some afterwards.
func (d dialled) RoundTrip(req *http.Request) (*http.Response, error) {
	if vars, ok := req.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		req = req.WithContext(context.WithValue(req.Context(), caddyhttp.VarsCtxKey, maps.Clone(vars)))
	}
	if host, ok := req.Context().Value(dialledKey{}).(string); ok {
		out := *req
		out.URL = withHost(req.URL, host)
		req = &out
	}
	return d.HTTPTransport.RoundTrip(req)
}

func withHost(u *url.URL, host string) *url.URL {
	c := *u
	c.Host = host
	return &c
}

// UnmarshalCaddyfile reads:
//
//	transport purser {
//	    <option> <value>
//	    http {
//	        <options of transport http>
//	    }
//	}
//
// Options have the names that those of DoorOptions have in JSON. allow_http and challenge_header can be
// repeated.
func (h *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return h.parse(d, nil)
}

// parse reads the block of the transport, and in it other options.
func (h *Transport) parse(d *caddyfile.Dispenser, more map[string]options.Field) error {
	others := map[string]func() error{"http": func() error {
		if d.NextArg() {
			return d.ArgErr()
		}
		return h.HTTPTransport.UnmarshalCaddyfile(d.NewFromNextSegment())
	}}
	for name, field := range more {
		others[name] = func() error { return parseOption(d, field) }
	}
	err := parseModule(d, &h.DoorOptions, others)
	return orWrapped(d, err, doorKeyOption.IsReference(h.Key))
}

var (
	_ caddy.Provisioner                                = (*Transport)(nil)
	_ caddy.CleanerUpper                               = (*Transport)(nil)
	_ caddyfile.Unmarshaler                            = (*Transport)(nil)
	_ http.RoundTripper                                = (*Transport)(nil)
	_ door                                             = (*Transport)(nil)
	_ reverseproxy.TLSTransport                        = (*Transport)(nil)
	_ reverseproxy.H2CTransport                        = (*Transport)(nil)
	_ reverseproxy.ProxyProtocolTransport              = (*Transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*Transport)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*Transport)(nil)
)
