package caddymodule

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// counter writes a line to the file that a variable names whenever it is provisioned.
type counter struct{}

func (counter) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

func (counter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_test_count", New: func() caddy.Module { return new(counter) }}
}

func (counter) Provision(caddy.Context) error {
	f, err := os.OpenFile(os.Getenv("PURSER_TEST_COUNT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("provisioned\n")
	return errors.Join(err, f.Close())
}

// A start makes a configuration once, in the program purser and in a Caddy of one's own.
func TestRunProvisionsOnce(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"purser", "caddy"} {
		w := newWorkplace(t)
		w.write(t, "Caddyfile", strings.Replace(shipped(t), "\t\tpurser_api\n", "\t\tpurser_test_count\n\t\tpurser_api\n", 1))
		c := w.prepare(t, "run")
		if program == "caddy" {
			c = w.caddy(t, nil, "run", "--envfile", "purser.env")
		}
		counts := filepath.Join(w.dir, "counts")
		c.Env = append(c.Env, "PURSER_TEST_COUNT="+counts)
		w.start(t, c)
		if text, err := os.ReadFile(counts); err != nil || string(text) != "provisioned\n" {
			t.Errorf("%s: %v, %q", program, err, text)
		}
	}
}

func init() {
	for name, m := range map[string]interface {
		caddy.Module
		caddyhttp.MiddlewareHandler
	}{"purser_test_watch": watcher{}, "purser_test_detach": detacher{}, "purser_test_early": early{}, "purser_test_count": counter{}} {
		caddy.RegisterModule(m)
		httpcaddyfile.RegisterHandlerDirective(name, func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return m, nil })
		httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "reverse_proxy")
	}
}
