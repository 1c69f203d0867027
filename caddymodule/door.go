package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// door is a handler that serves through the app.
type door interface {
	// listen returns the addresses of the server that the handler belongs to, if it is known.
	listen() []string
	// isAt reports whether that server is the one of an address or a name. Each is if there is none.
	isAt(site string) bool
	// wrapped reports whether that server's connections come through the listener wrapper purser.
	wrapped() bool
	// secure reports whether that server speaks TLS.
	secure() bool
	// open makes what the door serves with. It adds the parts that must end with the configuration
	// to the tenant's closers.
	open(t *tenant) error
}

// doorway is the part that all doors have in common.
type doorway struct {
	app    *App
	server *caddyhttp.Server // nil when it is not known
}

// attach makes a handler, which is being provisioned, a door of the app. The app need not be configured: without
// configuration it has its defaults.
func (w *doorway) attach(ctx caddy.Context, d door) error {
	app, err := ctx.App("purser")
	if err != nil {
		return err
	}
	a, ok := app.(*App)
	if !ok {
		return fmt.Errorf("purser: the app is a %T", app)
	}
	w.app, w.server = a, siteOf(ctx)
	a.doors = append(a.doors, d)
	if w.server != nil {
		w.server.RegisterOnShutdown(func() {
			if caddy.Exiting() { // the server waits for its requests
				a.stopWaiting()
			}
		})
		veil(w.server)
		w.server.RegisterConnContext(conns.InDoor)
		if err := conns.CheckWrappers(w.server.ListenerWrappersRaw); err != nil {
			return err
		}
	}
	return nil
}

// secure implements door. Caddy decides it before it starts the site.
func (w *doorway) secure() bool { return w.server != nil && len(w.server.TLSConnPolicies) > 0 }

func (w *doorway) listen() []string {
	if w.server == nil {
		return nil
	}
	return w.server.Listen
}

// isAt implements door.
func (w *doorway) isAt(site string) bool {
	return site == "" || w.server != nil && (w.server.Name() == site || slices.ContainsFunc(w.server.Listen, func(l string) bool { return l == site || strings.TrimPrefix(l, "tcp/") == site }))
}

// wrapped implements door.
func (w *doorway) wrapped() bool {
	return w.server == nil || conns.Wrapped(w.server.ListenerWrappersRaw)
}

// loopback reports whether the door is for programs of this machine only.
func (w *doorway) loopback() bool { return exposure.OnlyLoopback(w.listen()) }

// enter counts a request in. It fails while the store cannot be opened, or is closed already; the log is told.
func (w *doorway) enter() (*tenant, error) {
	t, err := w.app.enter()
	if err != nil && !errors.Is(err, errNoStore) { // the log has that one already
		w.app.log.Error("request not served", "error", err)
	}
	return t, err
}

// unreadTime bounds the wait for the rest of a body that is not read.
const unreadTime = 2 * time.Second

// writeError answers with a JSON error. Our handlers answer errors themselves: one that
// is returned to Caddy is logged together with the request's headers, secrets included.
func writeError(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	// The server waits for what is left of the request's body before it sends the answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
	w.WriteHeader(status)
	_ = plainjson.Encoder(w).Encode(map[string]string{"error": text})
}

// refuse answers a request of an agent at a door that relays, for an error of enter.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	resp := proxy.OwnResponse(r, http.StatusServiceUnavailable, declines.Of(pay.CodeUnavailable).Word, cmp.Or(unavailable(err), "Service unavailable")) //nolint:bodyclose // a body in memory
	resp.Header.Set("Retry-After", retryAfter)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
	proxy.WriteResponse(w, resp)
}

// retryAfter is the time in seconds after which a request may succeed that was refused for an error of enter.
const retryAfter = "5"

// answering turns Caddy's next handler into one that answers its errors itself.
func answering(next caddyhttp.Handler, failed func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := next.ServeHTTP(w, r)
		if err == nil {
			return
		}
		failed(err)
		status := caddyhttp.Error(http.StatusInternalServerError, err).StatusCode
		writeError(w, status, http.StatusText(status))
	})
}
