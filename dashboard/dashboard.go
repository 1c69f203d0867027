// Package dashboard is purser's pages for people (SPEC §1.6, DESIGN §5): what was spent and on what, keys, wallets, the
// plan. They are made on the server with html/template; one small script copies things and one library polls for news.
//
// Who somebody is, and everything about signing in, is package session's; what pages show and change is package pay's.
// Here is how it looks, in words and on the screen, and nothing that decides about money. Somebody sees their own
// organization only: an id of another one is answered like an id that does not exist.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/pay"
)

// Gate keeps those out who are not signed in; [session.Gate] is one.
type Gate interface {
	Wrap(next http.Handler) http.Handler
	ShowWith(p session.Pages)
}

// Options configure the pages. Payer and Gate are required.
type Options struct {
	Payer *pay.Payer
	Gate  Gate
	// Visitor is who a request that has passed the gate comes from. Default: session.From.
	Visitor func(context.Context) (session.Visitor, bool)
	// PublicURL is the address that people reach purser by, for commands to copy. Default: the one that was asked.
	PublicURL string
	// UpgradeURL is where a larger plan is to be had. Default: nowhere, pages then say who changes plans.
	UpgradeURL string
	// Explorer is the address of a page about a transaction, or "". Default: [BaseScan].
	Explorer func(network, transaction string) string
	// PlayMoney: the wallets are the sandbox's, and nobody must send anything real to them.
	PlayMoney bool
	// Example is the URL of a paid API for commands to copy. Default: one that does not exist.
	Example string
	Version string
	Clock   pay.Clock    // default: time.Now
	Logger  *slog.Logger // default: discarded
}

// dashboard serves the pages. It is safe for concurrent use and holds nothing to close.
type dashboard struct {
	Options
	assets assets
	pages  pages
	once   onceShown
	turns  turns
	origin string // of PublicURL; "" without one
}

// New makes the handler of /dashboard and everything below it, sign-in included. Its errors name the setting at fault.
func New(o Options) (http.Handler, error) {
	if o.Payer == nil || o.Gate == nil {
		return nil, errors.New("dashboard: a payer and a gate are required")
	}
	if o.Visitor == nil {
		o.Visitor = session.From
	}
	if o.Explorer == nil {
		o.Explorer = BaseScan
	}
	if o.Example == "" {
		o.Example = "https://api.example.com/report"
	}
	if o.Clock == nil {
		o.Clock = systemClock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &dashboard{Options: o, turns: newTurns()}
	d.once.now = o.Clock
	var err error
	if d.origin, err = originOf(o.PublicURL); err != nil {
		return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
	}
	if _, err = originOf(o.UpgradeURL); err != nil {
		return nil, fmt.Errorf("PURSER_UPGRADE_URL: %w", err)
	}
	if d.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if d.pages, err = loadPages(d.assets); err != nil {
		return nil, err
	}
	o.Gate.ShowWith(notices{d})
	return o.Gate.Wrap(d.routes()), nil
}

// routes is every address and what serves it. What no pattern names, a wrong method too, is not found.
func (d *dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+session.Assets+"{name}", d.assets)
	for pattern, v := range d.views() {
		mux.Handle(pattern, d.page(v))
	}
	mux.Handle("GET /dashboard/spend.csv", d.page(d.exportSpend))
	return mux
}

// views are the routes that need a visitor.
func (d *dashboard) views() map[string]view {
	return map[string]view{
		"/dashboard/": func(*http.Request, visit) (answer, error) { return answer{}, errNotFound },
		"/dashboard":  func(*http.Request, visit) (answer, error) { return answer{redirect: session.Home}, nil },

		"GET /dashboard/{$}":                  d.inTurn(d.overview),
		"GET /dashboard/live":                 d.inTurn(d.live),
		"GET /dashboard/keys":                 d.inTurn(d.keys),
		"POST /dashboard/keys":                d.createKey,
		"POST /dashboard/keys/link":           d.linkKey,
		"GET /dashboard/keys/{id}":            d.inTurn(d.key),
		"POST /dashboard/keys/{id}/reveal":    d.revealKey,
		"POST /dashboard/keys/{id}/pause":     d.stopKey(pay.StopPause, saidKeyPaused),
		"POST /dashboard/keys/{id}/resume":    d.stopKey(pay.StopResume, saidKeyResumed),
		"GET /dashboard/keys/{id}/revoke":     d.askRevokeKey,
		"POST /dashboard/keys/{id}/revoke":    d.revokeKey,
		"GET /dashboard/audit":                d.inTurn(d.audit),
		"GET /dashboard/wallets":              d.inTurn(d.wallets),
		"POST /dashboard/wallets":             d.createWallet,
		"GET /dashboard/wallets/{id}":         d.wallet,
		"GET /dashboard/wallets/{id}/balance": d.balance,
		"GET /dashboard/wallets/{id}/delete":  d.askDeleteWallet,
		"POST /dashboard/wallets/{id}/delete": d.deleteWallet,
		"GET /dashboard/spend":                d.inTurn(d.spend),
		"GET /dashboard/payments":             d.inTurn(d.payments),
		"GET /dashboard/payments/{id}":        d.inTurn(d.payment),
		"GET /dashboard/settings":             d.inTurn(d.settings),
	}
}

// originOf is scheme and host of a URL that must be absolute, http or https; "" of "".
func originOf(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", errors.New("not an absolute http or https URL")
	}
	return u.Scheme + "://" + u.Host, nil
}

// address is the origin that commands to copy name. What a browser says in Host ends up in somebody's shell, so only
// what a host can be is believed.
func (d *dashboard) address(r *http.Request) string {
	switch plain := strings.Trim(r.Host, hostAlphabet) == "" && r.Host != ""; {
	case d.origin != "":
		return d.origin
	case plain && r.TLS != nil:
		return "https://" + r.Host
	case plain:
		return "http://" + r.Host
	}
	return "http://127.0.0.1:8402"
}

const hostAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.:[]-"

// BaseScan is the page about a transaction at the explorer of Base and of its test network; "" for other networks.
func BaseScan(network, transaction string) string {
	switch network {
	case "base":
		return "https://basescan.org/tx/" + transaction
	case "base-sepolia":
		return "https://sepolia.basescan.org/tx/" + transaction
	}
	return ""
}
