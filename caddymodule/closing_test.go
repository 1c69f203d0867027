package caddymodule

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// closingRoute names a route of all servers that run by load. No request goes through it.
const closingRoute = "test_closing"

// closing is the handler of that route. It knows when its server has closed its listeners.
type closing struct{ closed chan struct{} }

func (*closing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_closing", New: func() caddy.Module { return &closing{make(chan struct{})} }}
}

func (c *closing) Provision(ctx caddy.Context) error {
	siteOf(ctx).RegisterOnShutdown(sync.OnceFunc(func() { close(c.closed) }))
	return nil
}

func (*closing) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// withClosing gives each server of a configuration the route closingRoute.
func withClosing(config []byte) ([]byte, error) {
	var c map[string]any
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	apps, _ := c["apps"].(map[string]any)
	site, _ := apps["http"].(map[string]any)
	servers, _ := site["servers"].(map[string]any)
	for _, s := range servers {
		server := s.(map[string]any)
		named, _ := server["named_routes"].(map[string]any)
		if named == nil {
			named = map[string]any{}
		}
		named[closingRoute] = map[string]any{"handle": []any{map[string]any{"handler": closingRoute}}}
		server["named_routes"] = named
	}
	return json.Marshal(c)
}

// listening returns, for each server of the active configuration that load has started, the channel that is closed once
// it listens no more.
func listening() (closed []<-chan struct{}) {
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil
	}
	for _, s := range app.(*caddyhttp.App).Servers {
		if r := s.NamedRoutes[closingRoute]; r != nil {
			closed = append(closed, r.Handlers[0].(*closing).closed)
		}
	}
	return closed
}
