package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/internal/setting"
)

// insideRoute names the route of the requests inside, among the named routes of their server.
const insideRoute = "purser_proxy routes"

// provisionInside makes the server that intercepted requests go through: the routes of the proxy, then the
// proxy itself. It has the name, the access logs and the named routes of the site's own server, and
// counts for its metrics. Requests of a site without any of these need no such server.
func (h *Proxy) provisionInside(ctx caddy.Context) error {
	if h.interception == nil && len(h.Routes) > 0 {
		return setting.New("purser_proxy intercept", "PURSER_INTERCEPT", "").Errorf("is off, so no request would come to the routes")
	}
	if h.interception == nil || h.server == nil {
		return nil
	}
	var metrics *caddyhttp.Metrics
	if app, ok := ctx.Modules()[0].(*caddyhttp.App); ok {
		metrics = app.Metrics
	}
	if len(h.Routes) == 0 && h.server.Logs == nil && metrics == nil {
		return nil
	}
	routes := append(slices.Clone(h.Routes), caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{paying{}}})
	if err := cmp.Or(routes.ProvisionMatchers(ctx), routes.ProvisionHandlers(ctx, metrics)); err != nil {
		return fmt.Errorf("purser_proxy routes: %w", err)
	}
	entry := &caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{inside{routes.Compile(nil)}}}
	if err := entry.ProvisionHandlers(ctx, nil); err != nil {
		return err
	}
	name := h.server.Name()
	// Streams may be slow: without bounds of its own, Caddy ends a body that pauses for a minute.
	site := insideSite{&caddyhttp.App{Servers: map[string]*caddyhttp.Server{name: {
		AutoHTTPS: &caddyhttp.AutoHTTPSConfig{Disabled: true}, Protocols: []string{"h1"}, Logs: h.server.Logs, ReadIdleTimeout: -1, WriteIdleTimeout: -1,
		Routes: caddyhttp.RouteList{{HandlersRaw: []json.RawMessage{caddyconfig.JSON(map[string]string{"handler": "invoke", "name": insideRoute}, nil)}}},
	}}}}
	loaded, err := ctx.LoadModuleByID(string(site.CaddyModule().ID), caddyconfig.JSON(site, nil))
	if err != nil {
		return fmt.Errorf("purser_proxy routes: %w", err)
	}
	server := loaded.(*httpNamesake).HTTP.Servers[name]
	server.NamedRoutes = map[string]*caddyhttp.Route{insideRoute: entry}
	maps.Copy(server.NamedRoutes, h.server.NamedRoutes)
	veil := &logs.Veil{Answers: server.Logs != nil, Credentials: server.Logs != nil && server.Logs.ShouldLogCredentials, Dropped: true}
	covered := veil.Cover(server)
	h.inside = func(w http.ResponseWriter, r *http.Request, pay http.Handler) {
		covered.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), payingKey{}, pay)))
	}
	return nil
}

// insideSite is the module of the server of the requests inside, for [Proxy] only.
type insideSite struct {
	HTTP *caddyhttp.App `json:"http"`
}

// CaddyModule returns the Caddy module information.
func (insideSite) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "purser.inside", New: func() caddy.Module { return new(httpNamesake) }}
}

// httpNamesake logs under the name of the app http, where the logs of a site look for its requests. It is no app
// itself, because Caddy would start it in the place of that app.
type httpNamesake struct{ insideSite }

// CaddyModule returns the module information that logs go by.
func (*httpNamesake) CaddyModule() caddy.ModuleInfo { return caddyhttp.App{}.CaddyModule() }

// Provision implements caddy.Provisioner.
func (s *httpNamesake) Provision(ctx caddy.Context) error { return s.HTTP.Provision(ctx) }

// inside is the entry to the routes of the requests inside.
type inside struct{ routes caddyhttp.Handler }

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h inside) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	logs.Lift(r)
	w.Header().Del("Server") // the upstream's is relayed
	return h.routes.ServeHTTP(w, r)
}

type payingKey struct{}

// paying is the end of the routes: the proxy relays the request, and pays for it.
type paying struct{}

// CaddyModule returns the module that metrics name.
func (paying) CaddyModule() caddy.ModuleInfo { return new(Proxy).CaddyModule() }

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (paying) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	r.Context().Value(payingKey{}).(http.Handler).ServeHTTP(w, r)
	return nil
}

// parseProxy reads the directive, and in it the routes, which hold directives of a site.
func parseProxy(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	p := new(Proxy)
	return p, p.parse(h.Dispenser, func() error {
		if p.Routes != nil {
			return options.ErrTwice
		}
		if h.CountRemainingArgs() > 0 {
			return h.ArgErr()
		}
		sub, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(h.NewFromNextSegment()))
		if err != nil {
			return err
		}
		if p.Routes = sub.(*caddyhttp.Subroute).Routes; len(p.Routes) == 0 {
			return h.Err("routes has no directive")
		}
		return nil
	})
}
