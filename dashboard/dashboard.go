// Package dashboard serves purser's pages for people (docs/design/surfaces.md). They show spend, keys,
// wallets, limits and the plan, and change keys and wallets. The server makes them with
// html/template. A small script copies texts, and htmx polls for news.
//
// Package session does sign-in and sessions. Package pay makes all decisions and changes; this
// package only presents them. Visitors see only their own organization: an id of another
// organization is answered like an unknown id. Operators see all (see books.Scope).
package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Gate admits only visitors with a session, and shows its notices with pages; [session.Gate]
// implements it.
type Gate interface {
	Wrap(next http.Handler, pages session.Pages) http.Handler
}

// Options configures the pages. Books, Payer, Gate and Logger are required.
type Options struct {
	Books *books.Books
	Payer *pay.Payer // for limits in force and balances
	Gate  Gate
	// PublicURL is purser's address for people. Commands to copy contain it. Default: the address
	// of the request.
	PublicURL string
	// OperatorKeys makes the wallets of keys that an operator makes.
	OperatorKeys books.OperatorKeys
	// Issuer is the identity provider that signs people in, "" without one.
	Issuer string
	// ApprovalLinks checks the links that answer one approval without a session. Nil: there are none.
	ApprovalLinks interface {
		Check(ctx context.Context, approvalID, token string) error
	}
	// UpgradeURL is a page that sells larger plans. Default: none; pages then say that the operator
	// changes plans.
	UpgradeURL string
	// Explorer returns the URL of a page about a transaction, or "". Default: the explorer of Base
	// and of its test network.
	Explorer func(network, transaction string) string
	// PlayMoney reports that the wallets are the sandbox's. Pages then warn against sending real
	// money.
	PlayMoney bool
	// Example is the URL of a paid API in commands to copy. Default: one that does not exist.
	Example string
	// LowBalance is the balance below which pages call a wallet low, in the smallest unit; nil: none is.
	LowBalance *money.Amount
	// Troubles lists what is wrong with purser, for the bar on the pages of those who see all. Nil: nothing is.
	Troubles func(ctx context.Context) []trouble.Trouble
	Version  string
	Clock    pay.Clock // default: time.Now
	Logger   *slog.Logger
}

// dashboard serves the pages. It is safe for concurrent use and holds nothing to close.
type dashboard struct {
	Options
	assets   assets
	pages    pages
	once     onceShown
	orders   orders
	deposits depositsKept
	throttle throttle
	origin   string // of PublicURL; "" without one
}

// New returns the handler of /dashboard and all paths below it, with sign-in. Errors name the
// setting at fault.
func New(o Options) (http.Handler, error) {
	if o.Explorer == nil {
		o.Explorer = baseScan
	}
	o.Example = cmp.Or(o.Example, "https://api.example.com/report")
	if o.Clock == nil {
		o.Clock = time.Now
	}
	files := loadAssets()
	d := &dashboard{Options: o, assets: files, pages: loadPages(files), throttle: newThrottle(), once: onceShown{waits: map[onceFor]onceSecret{}}, orders: newOrders(), deposits: newDepositsKept()}
	var err error
	if d.origin, err = originOf(o.PublicURL); err != nil {
		return nil, fmt.Errorf("PURSER_PUBLIC_URL: %w", err)
	}
	if _, err = originOf(o.UpgradeURL); err != nil {
		return nil, fmt.Errorf("PURSER_UPGRADE_URL: %w", err)
	}
	zip, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.MinSize(minZip))
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return zip(o.Gate.Wrap(d.routes(), notices{d})), nil
}

// routes returns the handler of all paths. Unknown paths and wrong methods get 404.
func (d *dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+session.Assets+"{name}", d.assets)
	if d.ApprovalLinks != nil {
		mux.HandleFunc("GET "+session.ApprovalLink+"{id}", d.approvalLink)
		mux.HandleFunc("POST "+session.ApprovalLink+"{id}", d.approvalLink)
	}
	for pattern, v := range d.views() {
		mux.Handle(pattern, d.page(d.guarded(pattern, v)))
	}
	return mux
}

// views returns the routes that need a visitor.
func (d *dashboard) views() map[string]view {
	return map[string]view{
		"/dashboard/": func(*http.Request, visit) (answer, error) { return answer{}, errNotFound },
		"/dashboard":  func(*http.Request, visit) (answer, error) { return answer{redirect: session.Home}, nil },

		"GET /dashboard/{$}":                         d.overview, // in turn, behind the chain
		"GET /dashboard/live":                        d.live,
		"GET /dashboard/pause":                       d.ofEverything(d.askPause),
		"POST /dashboard/pause":                      d.ofEverything(d.pauseAll),
		"POST /dashboard/resume":                     d.ofEverything(d.resumeAll),
		"GET /dashboard/keys":                        d.inTurn(d.keys),
		"POST /dashboard/keys":                       d.createKey,
		"POST /dashboard/keys/link":                  d.linkKey,
		"GET /dashboard/keys/{id}":                   d.inTurn(d.ofKey(d.key)),
		"POST /dashboard/keys/{id}/reveal":           d.ofKey(d.revealKey),
		"POST /dashboard/keys/{id}/pause":            d.stopKey(pay.StopPause, saidKeyPaused),
		"POST /dashboard/keys/{id}/resume":           d.stopKey(pay.StopResume, saidKeyResumed),
		"GET /dashboard/keys/{id}/limits":            d.ofKey(d.limitsForm),
		"POST /dashboard/keys/{id}/limits":           d.inTurn(d.ofKey(d.changeLimits)),
		"POST /dashboard/keys/{id}/end-raise":        d.ofKey(d.endRaise), // one that lowers needs more: see endRaise
		"GET /dashboard/keys/{id}/reissue":           d.ofKey(d.askReissueKey),
		"POST /dashboard/keys/{id}/reissue":          d.ofKey(d.reissueKey),
		"POST /dashboard/keys/{id}/end-overlap":      d.stopKey(pay.StopOverlap, saidOverlapEnded),
		"GET /dashboard/keys/{id}/revoke":            d.ofKey(d.askRevokeKey),
		"POST /dashboard/keys/{id}/revoke":           d.ofKey(d.revokeKey),
		"GET /dashboard/approvals":                   d.inTurn(d.approvals),
		"GET /dashboard/approvals/{id}":              d.ofApproval(d.approval),
		"POST /dashboard/approvals/{id}":             d.ofApproval(d.answerApproval),
		"GET /dashboard/audit":                       d.inTurn(d.audit),
		"GET /dashboard/wallets":                     d.inTurn(d.wallets),
		"POST /dashboard/wallets":                    d.createWallet,
		"GET /dashboard/wallets/{id}":                d.ofWallet(d.wallet),
		"GET /dashboard/wallets/{id}/balance":        d.ofWallet(d.balance),
		"GET /dashboard/wallets/{id}/deposits":       d.ofWallet(d.depositsPart),
		"GET /dashboard/wallets/{id}/withdraw":       d.ofWallet(d.withdrawForm),
		"POST /dashboard/wallets/{id}/withdraw":      d.ofWallet(d.orderWithdrawal),
		"POST /dashboard/wallets/{id}/withdraw/send": d.ofWallet(d.sendWithdrawal),
		"GET /dashboard/wallets/{id}/withdrawn":      d.ofWallet(d.withdrawn),
		"GET /dashboard/wallets/{id}/delete":         d.ofWallet(d.askDeleteWallet),
		"POST /dashboard/wallets/{id}/delete":        d.ofWallet(d.deleteWallet),
		"GET /dashboard/spend":                       d.inTurn(d.spend),
		"GET /dashboard/spend.csv":                   d.exportSpend,
		"GET /dashboard/payments":                    d.inTurn(d.payments),
		"GET /dashboard/payments.csv":                d.exportPayments,
		"GET /dashboard/declined":                    d.inTurn(d.declined),
		"GET /dashboard/declined.csv":                d.exportDeclined,
		"GET /dashboard/payments/{id}":               d.inTurn(d.payment),
		"GET /dashboard/settings":                    d.inTurn(d.settings),
	}
}

// originOf returns scheme and host of an absolute http or https URL, and "" for "".
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

// address returns the origin for commands to copy. The Host header comes from the browser and ends
// up in a visitor's shell. It is used only when it has the characters of a host.
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

// baseScan returns the page about a transaction on the explorer of Base or its test network. It
// returns "" for other networks.
func baseScan(network, transaction string) string {
	switch network {
	case "base":
		return "https://basescan.org/tx/" + transaction
	case "base-sepolia":
		return "https://sepolia.basescan.org/tx/" + transaction
	}
	return ""
}
