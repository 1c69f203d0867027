package caddymodule

import (
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/payapi"
)

// API is the handler of purser's REST API. It ends the route: what it does not know is
// answered with a 404 in JSON.
type API struct {
	// KeyRate is the largest number of keys that one client address may create per minute; negative is no bound.
	// Default: 60.
	KeyRate int `json:"key_rate,omitempty"`

	app    *App
	server *caddyhttp.Server
	api    *payapi.API
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_api", New: func() caddy.Module { return new(API) }}
}

// Provision attaches the handler to the app.
func (h *API) Provision(ctx caddy.Context) (err error) {
	h.server = siteOf(ctx)
	h.app, err = attach(ctx, h)
	return err
}

func (h *API) site() *caddyhttp.Server { return h.server }

func (h *API) open(t *tenant) (err error) {
	s := h.app.settings
	h.api, err = payapi.New(payapi.Options{
		Payer: t.payer, Books: t.books, Version: Version(), PublicURL: s.publicURL, UpgradeURL: s.upgradeURL,
		InternalSecret: s.internalSecret, AllowedOrigins: s.origins, DefaultSettlement: s.settlement,
		Logger: h.app.log.With("part", "api"), KeyRate: h.KeyRate, Admission: s.bounds("api"),
		RegistrationClosed: s.registrationClosed,
		LoopbackOnly:       h.server != nil && loopbackOnly(h.server.Listen),
	})
	return err
}

// ServeHTTP answers every request.
func (h *API) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	t, err := h.app.enter()
	if err != nil {
		h.app.log.Error("request not served", "error", err)
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, payapi.UnavailableText(r))
		return nil
	}
	defer t.leave()
	countAnswer(h.api, w, traced(r))
	return nil
}

// UnmarshalCaddyfile reads:
//
//	purser_api [<matcher>] {
//	    key_rate <number>
//	}
func (h *API) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	var rate string
	if err := parseOptions(d, map[string]*string{"key_rate": &rate}); err != nil || rate == "" {
		return err
	}
	n, err := strconv.Atoi(rate)
	if err != nil || n == 0 {
		return d.Errf("key_rate: %q is not a number of keys per minute", rate)
	}
	h.KeyRate = n
	return nil
}

func parseAPI(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	api := new(API)
	return api, api.UnmarshalCaddyfile(h.Dispenser)
}

var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
	_ caddyfile.Unmarshaler       = (*API)(nil)
	_ door                        = (*API)(nil)
)
