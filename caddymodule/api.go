package caddymodule

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/policy"
)

// API is the handler of purser's REST API. It ends the route: what it does not know is
// answered with a 404 in JSON.
type API struct {
	// KeyRate is the largest number of keys that one client address may create per minute, or off.
	// Default: 60.
	KeyRate string `json:"key_rate,omitempty"`

	doorway
	keyRate int
	api     *payapi.API
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.purser_api", New: func() caddy.Module { return new(API) }}
}

// Provision resolves the options and attaches the handler to the app.
func (h *API) Provision(ctx caddy.Context) error {
	rate := h.KeyRate
	if n, err := strconv.Atoi(rate); err == nil && n < 0 { // an earlier form
		rate = setting.Off
	}
	return cmp.Or(setting.Set(&h.keyRate, setting.Named("purser_api key_rate").Most, rate), h.attach(ctx, h))
}

func (h *API) open(t *tenant) (err error) {
	s := h.app.settings
	h.api, err = payapi.New(payapi.Options{
		Payer: t.payer, Books: t.books, Troubles: t.troubles.Recent, Version: Version(), PublicURL: s.publicURL, UpgradeURL: s.upgradeURL,
		InternalSecret: s.internalSecret, AllowedOrigins: s.origins, DefaultSettlement: s.settlement,
		Logger: h.app.log.With("part", "api"), KeyRate: h.keyRate, Admission: s.bounds("api"),
		Declined:           func(d pay.Decline) { t.declined(policy.DoorAPI, d) },
		RegistrationClosed: s.registrationClosed, LoopbackOnly: h.loopback(),
	})
	return err
}

// ServeHTTP answers every request.
func (h *API) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	t, err := h.enter()
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
		payapi.WriteUnavailable(w, r, Version(), unavailable(err))
		return nil
	}
	defer t.leave()
	metrics.CountAnswer(h.api, w, tracing.Request(r))
	return nil
}

// UnmarshalCaddyfile reads:
//
//	purser_api [<matcher>] {
//	    key_rate <number>|off
//	}
func (h *API) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parseModule(d, h, nil) }

var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
	_ caddyfile.Unmarshaler       = (*API)(nil)
	_ door                        = (*API)(nil)
)
