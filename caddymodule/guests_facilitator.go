package caddymodule

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/tracing"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer/cdp"
)

// HTTPFacilitator is an x402 facilitator over HTTP.
type HTTPFacilitator struct {
	// URL of the facilitator. Default: {env.PURSER_FACILITATOR_URL}; without one there is
	// no facilitator, and payments that purser would settle itself are refused.
	URL string `json:"url,omitempty"`
	// Key is a reference to the facilitator's API key. Default: {env.PURSER_FACILITATOR_KEY}.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of the key. Default: {env.PURSER_FACILITATOR_KEY_FILE}.
	KeyFile string `json:"key_file,omitempty"`
	// Auth is the kind of tokens that calls carry: key, which is the API key as it is, or cdp, which is
	// made of CDP_API_KEY_ID and CDP_API_KEY_SECRET for each call. Default:
	// {env.PURSER_FACILITATOR_AUTH}, else cdp at api.cdp.coinbase.com and key elsewhere.
	Auth string `json:"auth,omitempty"`
	// Timeout bounds a settlement, such as "90s". Default: 90 s.
	Timeout string `json:"timeout,omitempty"`
	// MaxFailures is the number of a key's failed calls in a row before its payments that need the
	// facilitator are refused for a while, or off. Default: {env.PURSER_FACILITATOR_MAX_FAILURES}, else 5.
	MaxFailures string `json:"max_failures,omitempty"`

	url, key string
	cdp      *cdp.Credentials // nil: calls carry the key, if there is one
	timeout  time.Duration
	failures int
}

// CaddyModule returns the Caddy module information.
func (*HTTPFacilitator) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: facilitatorNamespace + ".http", New: func() caddy.Module { return new(HTTPFacilitator) }}
}

var facilitatorKeyOption = setting.New("facilitator http key", "PURSER_FACILITATOR_KEY", "")

// Provision resolves and checks the options.
func (f *HTTPFacilitator) Provision(caddy.Context) (err error) {
	if f.key, err = facilitatorKeyOption.Secret(f.Key, f.KeyFile); err != nil {
		return err
	}
	err = cmp.Or(
		setting.Set(&f.url, setting.New("facilitator http url", "PURSER_FACILITATOR_URL", "").Value, f.URL),
		setting.Set(&f.timeout, setting.New("facilitator http timeout", "PURSER_FACILITATOR_TIMEOUT", "").Duration, f.Timeout),
		setting.Set(&f.failures, setting.New("facilitator http max_failures", "PURSER_FACILITATOR_MAX_FAILURES", "").Most, f.MaxFailures),
	)
	if err == nil {
		err = f.authorize()
	}
	if err == nil {
		_, err = f.Facilitator(slog.New(slog.DiscardHandler))
	}
	return err
}

// authorize resolves Auth.
func (f *HTTPFacilitator) authorize() error {
	const ofCDP, ofKey = "cdp", "key"
	auth := setting.New("facilitator http auth", "PURSER_FACILITATOR_AUTH", ofKey)
	if u, err := url.Parse(f.url); err == nil && u.Hostname() == cdp.FacilitatorHost {
		auth.Unset = ofCDP
	}
	kind, err := auth.Value(f.Auth)
	switch {
	case err != nil || kind == ofKey || f.url == "":
		return err
	case kind != ofCDP:
		return auth.Errorf("%q is neither %s nor %s", kind, ofKey, ofCDP)
	case f.key != "":
		return facilitatorKeyOption.Errorf("is set, and calls carry tokens of CDP (%s): keep one", auth)
	}
	if f.cdp, err = cdpCredentials("", "", "", ""); err != nil {
		return fmt.Errorf("%w, and the facilitator is CDP's", err)
	}
	return nil
}

// UnmarshalCaddyfile reads:
//
//	facilitator http {
//	    url      <url>
//	    key      <reference>
//	    key_file <file>
//	    auth     key|cdp
//	    timeout  <duration>
//	    max_failures <number>|off
//	}
func (f *HTTPFacilitator) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := parseModule(d, f, nil)
	return orWrapped(d, err, facilitatorKeyOption.IsReference(f.Key))
}

// Facilitator returns the client, or nil without a URL.
func (f *HTTPFacilitator) Facilitator(log *slog.Logger) (pay.Facilitator, error) {
	if f.url == "" {
		return nil, nil
	}
	o := facilitator.Options{URL: f.url, Key: f.key, Timeout: f.timeout, MaxFailures: f.failures, Propagate: tracing.Propagate, Logger: log}
	if f.cdp != nil {
		o.Authorize = f.cdp.Bearer
	}
	return facilitator.New(o)
}

var (
	_ FacilitatorModule     = (*HTTPFacilitator)(nil)
	_ caddy.Provisioner     = (*HTTPFacilitator)(nil)
	_ caddyfile.Unmarshaler = (*HTTPFacilitator)(nil)
)
