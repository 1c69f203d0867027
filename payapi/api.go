// Package payapi serves purser's REST API (docs/api.md) as an http.Handler. It holds the routes,
// authentication, reading of bodies, writing of answers, and the texts of all refusals.
//
// Package pay decides about payments. The server around this handler does listening, TLS, access
// logs and configuration. The dashboard is another handler.
package payapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
)

// Options configures the API. Payer and Books are required.
type Options struct {
	Payer *pay.Payer
	Books *books.Books
	// Version appears in GET /health.
	Version string
	// PublicURL is the deployment's address for its clients.
	PublicURL string
	// UpgradeURL appears in every 429. Default: /dashboard of PublicURL or, without that, of the
	// requested host.
	UpgradeURL string
	// InternalSecret allows privileged fields on POST /api-keys. Empty allows none.
	InternalSecret string
	// RegistrationClosed refuses POST /api-keys without the internal secret.
	RegistrationClosed bool
	// AllowedOrigins lists the origins whose pages may call the API from a browser.
	AllowedOrigins []string
	// DefaultSettlement is used by calls to /v1/pay that name none. Default: payer.
	DefaultSettlement pay.Settlement
	Logger            *slog.Logger
	Clock             pay.Clock // default time.Now
	// LoopbackOnly reports that the listener is bound to loopback. A request for another host name
	// then comes from a browser that was given a wrong address (DNS rebinding).
	LoopbackOnly bool
	// Protocols are the protocols whose challenges and receipts clients may hand in. Default: [protocol.Spoken].
	Protocols protocol.List
	// Declined hears of every payment that POST /v1/pay refused; may be nil.
	Declined func(pay.Decline)
	// KeyRate bounds the keys that one client address may create per minute. The address is that of
	// Request.RemoteAddr. Default: 60. Negative: no bound, for wallets neither.
	KeyRate int
	// Troubles lists what is wrong, for GET /health; nil: nothing is.
	Troubles func(ctx context.Context) []trouble.Trouble
	// Admission bounds the requests with a key that are worked on at once. Requests without a key
	// have a smaller, fixed bound.
	Admission admission.Options
}

const (
	defaultKeyRate = 60
	// Rows of deleted wallets are kept for ever, so a loop that makes and deletes wallets must be
	// slow. These bounds allow a script to use up the largest plan twice.
	walletsAtOnce, walletsPerMinute = 300, 60
)

// API serves the routes of docs/api.md. It is safe for concurrent use and holds nothing to close.
type API struct {
	payer      *pay.Payer
	books      *books.Books
	version    string
	publicURL  string // without a slash at the end
	upgradeURL string
	// internal holds the hash of the internal secret; nil when none is set.
	internal   *[sha256.Size]byte
	closed     bool // registration is closed to callers without that secret
	settlement pay.Settlement
	protocols  protocol.List
	log        *slog.Logger
	declined   func(pay.Decline) // may be nil
	troubles   func(ctx context.Context) []trouble.Trouble
	now        pay.Clock
	browsers   browsers
	keyRate    *perclient.Limiter[netip.Addr] // nil: no bound
	walletRate *perclient.Limiter[netip.Addr] // nil: no bound
	logins     *perclient.Logins
	gate       *admission.Gate // for requests with a key, by key
	strangers  *admission.Gate // for requests without one, by address
	bodies     atomic.Int64    // the room left for large bodies
	ofKeys     *admission.Shares
	ofOthers   *admission.Shares
	overloaded func()
	// openapi and docs serve the description of the API.
	openapi, docs handler
	routes        []route
}

// New returns an API, or an error about the options. Errors name the setting at fault and never
// repeat a secret.
func New(o Options) (*API, error) {
	if o.Payer == nil || o.Books == nil {
		return nil, errors.New("payapi: a payer and books are required")
	}
	a := &API{
		payer: o.Payer, books: o.Books, troubles: o.Troubles, version: o.Version, publicURL: strings.TrimRight(o.PublicURL, "/"),
		upgradeURL: o.UpgradeURL, closed: o.RegistrationClosed, protocols: o.Protocols, log: o.Logger, now: o.Clock, declined: o.Declined,
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.protocols == nil {
		a.protocols = protocol.Spoken()
	}
	if a.publicURL != "" && !absoluteURL(a.publicURL) {
		return nil, errors.New("PURSER_PUBLIC_URL is not an absolute http or https URL")
	}
	if a.upgradeURL != "" && !absoluteURL(a.upgradeURL) {
		return nil, errors.New("PURSER_UPGRADE_URL is not an absolute http or https URL")
	}
	if o.InternalSecret != "" {
		sum := sha256.Sum256([]byte(o.InternalSecret))
		a.internal = &sum
	}
	var err error
	if a.settlement, err = pay.ParseSettlement(string(o.DefaultSettlement), pay.SettlePayer); err != nil {
		return nil, fmt.Errorf("PURSER_SETTLEMENT: %w", err)
	}
	if a.browsers, err = newBrowsers(a.publicURL, o.AllowedOrigins, o.LoopbackOnly); err != nil {
		return nil, err
	}
	if o.KeyRate == 0 {
		o.KeyRate = defaultKeyRate
	}
	if o.KeyRate > 0 { // otherwise neither is bounded
		a.keyRate = perclient.NewLimiter[netip.Addr](o.KeyRate, o.KeyRate)
		a.walletRate = perclient.NewLimiter[netip.Addr](walletsAtOnce, walletsPerMinute)
	}
	a.logins, a.gate = perclient.NewLogins(failuresAtOnce, failuresPerMinute), admission.New(o.Admission)
	a.strangers = admission.New(admission.Options{Concurrent: anonymous, Wait: o.Admission.Wait, Refused: o.Admission.Refused})
	a.ofKeys, a.ofOthers = admission.NewShares(maxOfKey), admission.NewShares(maxOfStranger)
	a.bodies.Store(maxBodies)
	if a.overloaded = o.Admission.Refused; a.overloaded == nil {
		a.overloaded = func() {}
	}
	a.useReference()
	a.routes = []route{
		{http.MethodGet, "/", a.root},
		{http.MethodGet, "/health", a.health},
		{http.MethodGet, "/openapi.json", a.openapi},
		{http.MethodGet, "/docs", a.docs},
		{http.MethodPost, "/api-keys", a.createKey},
		{http.MethodGet, "/wallets/me", a.keyed(a.listWallets)},
		{http.MethodPost, "/wallets", a.keyed(a.createWallet)},
		{http.MethodDelete, "/wallets/{id}", a.keyed(a.deleteWallet)},
		{http.MethodPost, pathPay, a.placed(a.pay)},
		{http.MethodPost, "/v1/quote", a.keyed(a.quote)},
		{http.MethodGet, "/v1/limits", a.keyed(a.limits)},
		{http.MethodGet, "/v1/payments", a.keyed(a.listPayments)},
		{http.MethodGet, "/v1/payments/{id}", a.keyed(a.showPayment)},
		{http.MethodPost, "/v1/payments/{id}/receipt", a.keyed(a.postReceipt)},
		{http.MethodGet, "/v1/spend", a.keyed(a.spend)},
	}
	return a, nil
}

const pathPay = "/v1/pay"

// handler returns the answer to a request. Only ServeHTTP writes.
type handler func(*http.Request) (reply, error)

type route struct {
	method, path string
	serve        handler
}

// ServeHTTP answers every request with JSON; only /docs is a page. http.ServeMux is not used,
// because it redirects unclean paths and answers a wrong method with its own 405.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, over := conns.Lasting(r)
	defer over()
	body := &incoming{
		ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), deadline: http.NewResponseController(w).SetReadDeadline, room: &a.bodies,
	}
	defer body.release()
	r.Body = body
	a.browsers.share(w.Header(), r)
	rep := a.answer(r)
	if r.ContentLength != 0 {
		body.unwanted()
	}
	a.write(w, r, rep)
}

func (a *API) answer(r *http.Request) (rep reply) {
	defer func() {
		if v := recover(); v != nil {
			a.logPanic(r, v)
			rep = a.refuse(r, errInternal)
		}
	}()
	if err := a.browsers.check(r); err != nil {
		return a.refuse(r, err)
	}
	if a.browsers.preflight(r) {
		return reply{status: http.StatusNoContent}
	}
	serve := a.route(r)
	if serve == nil {
		return a.refuse(r, errNotFound)
	}
	rep, err := serve(r)
	if err != nil {
		return a.refuse(r, err)
	}
	return rep
}

// route returns the handler for a request, or nil, and sets the request's pattern and path value.
// HEAD is answered like GET. A slash written as %2F is no separator, because a filter in front of
// purser may not read it as one.
func (a *API) route(r *http.Request) handler {
	if strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") {
		return nil
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, rt := range a.routes {
		if rt.method != method {
			continue
		}
		if id, ok := rt.match(r.URL.Path); ok {
			r.SetPathValue("id", id)
			r.Pattern = rt.path
			return rt.serve
		}
	}
	return nil
}

// match compares a path with the route's, and returns the part in place of {id}.
func (rt route) match(path string) (id string, ok bool) {
	before, after, variable := strings.Cut(rt.path, "{id}")
	if !variable {
		return "", path == rt.path
	}
	if id, ok = strings.CutPrefix(path, before); !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// keyed resolves the API key before any other check. The request keeps its place until its answer
// is known. Writing the answer needs no place, because it may take as long as the client reads.
func (a *API) keyed(serve func(*http.Request, pay.Key) (reply, error)) handler {
	return a.placed(func(r *http.Request, key pay.Key, _ *place) (reply, error) { return serve(r, key) })
}

// placed is keyed for a request that may wait outside its place.
func (a *API) placed(serve func(*http.Request, pay.Key, *place) (reply, error)) handler {
	return func(r *http.Request) (reply, error) {
		key, err := a.authenticate(r)
		if err != nil {
			return reply{}, err
		}
		place, err := a.admit(r, a.gate, a.ofKeys, key.ID)
		if err != nil {
			if r.Pattern == pathPay && isBusy(err) {
				a.tellDeclined(pay.Request{Key: key}, err)
			}
			return reply{}, err
		}
		defer place.leave()
		return serve(r, key, place)
	}
}

// logPanic logs the stack of a panic. It writes out the value only for errors of the runtime: any
// other value may contain a key.
func (a *API) logPanic(r *http.Request, v any) {
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	a.log.Error("panic while answering", "method", r.Method, "route", r.Pattern, "panic", what, "stack", string(debug.Stack()))
}

// absoluteURL reports whether s is an absolute http or https URL with a host.
func absoluteURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
