package caddymodule

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// clientGone is told by purser_test_watch that the server has noticed that a client left.
var clientGone = make(chan struct{}, 1)

// watcher is a handler in front of the one that is tested.
type watcher struct{}

func (watcher) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	context.AfterFunc(r.Context(), func() {
		select {
		case clientGone <- struct{}{}:
		default:
		}
	})
	return next.ServeHTTP(w, r)
}

func (watcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_test_watch", New: func() caddy.Module { return new(watcher) }}
}

// early makes requests look as if they came in a TLS 1.3 handshake (0-RTT), which Caddy
// allows for HTTP/3.
type early struct{}

func (early) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	r.TLS = &tls.ConnectionState{HandshakeComplete: false}
	return next.ServeHTTP(w, r)
}

// CaddyModule returns the Caddy module information.
func (early) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_test_early", New: func() caddy.Module { return new(early) }}
}

// detacher takes requests away from their clients, as a handler must not.
type detacher struct{}

func (detacher) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}

func (detacher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_test_detach", New: func() caddy.Module { return new(detacher) }}
}

func init() {
	for name, m := range map[string]interface {
		caddy.Module
		caddyhttp.MiddlewareHandler
	}{"purser_test_watch": watcher{}, "purser_test_detach": detacher{}, "purser_test_early": early{}} {
		caddy.RegisterModule(m)
		httpcaddyfile.RegisterHandlerDirective(name, func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return m, nil })
		httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "reverse_proxy")
	}
}
