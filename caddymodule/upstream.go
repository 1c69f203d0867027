package caddymodule

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// Upstream is the handler of the sidecar door: it reverse-proxies one paid API, with
// Caddy's reverse proxy and the transport purser, so that a program only needs another base
// URL. It ends the route.
type Upstream struct {
	// To is the URL of the paid API; a path in it comes before the paths of requests.
	// Default: {env.PURSER_UPSTREAM}; without one every request is answered with 503.
	To string `json:"to,omitempty"`
	// Transport has the options of the transport purser.
	Transport *Transport `json:"transport,omitempty"`

	doorway
	to    *url.URL              // nil: not configured
	proxy *reverseproxy.Handler // nil as well then
}

// CaddyModule returns the Caddy module information.
func (*Upstream) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_upstream", New: func() caddy.Module { return new(Upstream) }}
}

var toOption = setting.New("purser_upstream to", "PURSER_UPSTREAM", "")

// Provision sets up the reverse proxy.
func (h *Upstream) Provision(ctx caddy.Context) (err error) {
	if err = h.attach(ctx, h); err != nil {
		return err
	}
	if h.to, err = h.target(); err != nil || h.to == nil {
		if err == nil && h.Transport != nil { // they are checked all the same
			err = h.Transport.resolveOptions()
		}
		return err
	}
	if h.Transport == nil {
		h.Transport = newTransport()
	}
	if h.Transport.HTTPTransport == nil { // null in JSON
		h.Transport.HTTPTransport = new(reverseproxy.HTTPTransport)
	}
	if h.to.Scheme == "https" && !h.Transport.TLSEnabled() {
		if err := h.Transport.EnableTLS(new(reverseproxy.TLSConfig)); err != nil {
			return toOption.Errorf("%w", err)
		}
	}
	if err := h.Transport.Provision(ctx); err != nil {
		return err
	}
	if h.to.Scheme == "http" && h.Transport.TLSEnabled() {
		return toOption.Errorf("is an http:// URL, but options of TLS are set")
	}
	h.proxy = &reverseproxy.Handler{
		Transport: h.Transport,
		Upstreams: reverseproxy.UpstreamPool{{Dial: net.JoinHostPort(h.to.Hostname(), guard.PortOf(h.to))}},
	}
	h.Transport.host = h.to.Host
	return h.proxy.Provision(ctx)
}

// target is the upstream's URL, nil if there is none.
func (h *Upstream) target() (*url.URL, error) {
	v, err := toOption.Value(h.To)
	if err != nil || v == "" {
		return nil, err
	}
	// Errors do not repeat the value, which may hold a password.
	u, err := url.Parse(v)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || policy.CheckHost(u) != nil || strings.ContainsAny(u.Host, "{}"):
		return nil, toOption.Errorf("not an absolute http or https URL such as https://api.example.com")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, toOption.Errorf("a URL with credentials, a query or a fragment cannot be used")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, h.checkLoop(u)
}

// checkLoop refuses an upstream that is this very site.
func (h *Upstream) checkLoop(u *url.URL) error {
	listeners, err := addrPorts(h.listen())
	if err != nil {
		return err
	}
	if guard.OwnHost("", listeners...)(net.JoinHostPort(strings.ToLower(u.Hostname()), guard.PortOf(u))) {
		return toOption.Errorf("leads back to the site that it is for")
	}
	return nil
}

// open has nothing to do: the transport is a door by itself.
func (h *Upstream) open(*tenant) error { return nil }

// Cleanup closes what is left of upgraded connections, and idle ones.
func (h *Upstream) Cleanup() error {
	if h.proxy == nil {
		return nil
	}
	return errors.Join(h.proxy.Cleanup(), h.Transport.Cleanup())
}

// ServeHTTP answers every request.
func (h *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if h.proxy == nil {
		writeError(w, http.StatusServiceUnavailable, "No upstream is configured: set "+toOption.Variable+" to the URL of the paid API")
		return nil
	}
	if r.URL.IsAbs() || r.Method == http.MethodConnect && r.ProtoMajor == 1 {
		writeError(w, http.StatusBadRequest, "This is one API and no proxy: request it by its paths")
		return nil
	}
	t, err := h.enter()
	if err != nil {
		refuse(w, r, err)
		return nil
	}
	defer t.leave()
	r, over := conns.Lasting(r)
	defer over()
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	x := h.Transport.exchange(r, vars, t, received(r))
	if x.call != nil { // there is one upstream, by whatever name and at whichever node its client asks for it
		x.call.URL = nil
	}
	h.serve(w, r, x)
	return nil
}

// serve relays a request and ends its exchange once the answer is written out.
func (h *Upstream) serve(w http.ResponseWriter, r *http.Request, x *exchange) {
	x.own = true
	w = conns.Ending(w, r, x.paid)
	answered := false
	// The reverse proxy panics with http.ErrAbortHandler when an answer is cut short.
	defer func() { x.end(answered) }()
	if err := h.proxy.ServeHTTP(w, proxy.Below(h.to, r), nil); err != nil {
		x.end(false) // before the client is told
		h.fail(w, r, x, err)
		return
	}
	// An answer that is still in a buffer has not been written out.
	if answered = x.answered.Load() && http.NewResponseController(w).Flush() == nil; answered {
		x.call.Written(w, r)
	}
}

// fail answers for an upstream that did not.
func (h *Upstream) fail(w http.ResponseWriter, r *http.Request, x *exchange, err error) {
	var lost *proxy.SendError
	if !errors.As(err, &lost) && x.paid() { // an answer came that could not be handed on
		err = errors.Join(err, &proxy.SendError{Payment: x.call.Payment()})
	}
	resp := proxy.ErrorResponse(r, err)
	defer func() { _ = resp.Body.Close() }()
	reason := resp.Header.Get(proxy.HeaderError)
	metrics.Process.Refused.WithLabelValues(reason).Inc()
	ctx := r.Context()
	if errors.As(err, &lost) {
		ctx = pay.WithPayment(ctx, lost.Payment.ID)
	}
	h.Transport.log.InfoContext(ctx, "request failed", "method", r.Method, "host", h.to.Host, "reason", reason, "error", err)
	proxy.WriteResponse(w, resp)
}

// UnmarshalCaddyfile reads:
//
//	purser_upstream [<matcher>] {
//	    to <url>
//	    <options of transport purser>
//	}
func (h *Upstream) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	t := newTransport()
	if err := t.parse(d, options.Fields(h)); err != nil {
		return err
	}
	if !reflect.DeepEqual(t, newTransport()) {
		h.Transport = t
	}
	return nil
}

var (
	_ caddy.Provisioner           = (*Upstream)(nil)
	_ caddy.CleanerUpper          = (*Upstream)(nil)
	_ caddyhttp.MiddlewareHandler = (*Upstream)(nil)
	_ caddyfile.Unmarshaler       = (*Upstream)(nil)
	_ door                        = (*Upstream)(nil)
)
