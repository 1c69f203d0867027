// Package adminapi serves the operator's API: keys, limits, wallets, payments and the state of
// a running purser. It knows the pay core, and neither Caddy nor the file of a database. Its
// exported types are the JSON of requests and answers. Next of a page is what after or before must be
// for the next page; it is empty on the last.
package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/keystore"
	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// AddressVariable names the variable with the address of the admin endpoint.
const AddressVariable = "PURSER_ADMIN"

// Purser is the part of a running purser that the operator's API works on: one configuration
// and its open store.
type Purser struct {
	Payer *pay.Payer
	Books *books.Books
	Store interface {
		World(ctx context.Context, network string) (string, error)
		SafeBlock(ctx context.Context, network string) (*pay.ChainBlock, error)
		WalletByAddress(ctx context.Context, address x402.Address) (pay.Wallet, error)
	}
	Place    string    // path of the database
	Since    time.Time // when it was opened
	Chain    pay.Chain // nil without an RPC
	Networks []x402.Network
	Keys     books.OperatorKeys
	Log      *slog.Logger

	Rotator        Rotator
	MasterKeyPlace string        // where the master key is, for people
	ProxyURL       func() string // the proxy's URL for programs on this machine, "" if it listens on no TCP address
	DashboardURL   func() string // the dashboard's URL for people, "" if no site has one
	DashboardLinks DashboardLinks
	Root           func() []byte   // the interception root in PEM, nil when nothing is intercepted
	Variables      func() []string // that the configuration refers to; may be nil
	Registration   func() *RegistrationStatus
	Declined       func(now time.Time) map[string]int              // 402s of the last hour that were not paid, by reason; nil: not counted
	Quotas         func(ctx context.Context) (*QuotaStatus, error) // nil if there are none
	Troubles       *trouble.Watch                                  // nil: none are looked for
	Notices        *notices.Sender                                 // never nil
	Outbox         pay.Outbox                                      // the store's
	Feed           *feed.Feed                                      // of what happens
	// Copy copies the database while it is in use, as a backup if there is a mark.
	ConfiguredKeys func() []ConfiguredKey
	Copy           func(ctx context.Context, mark *Mark) (Copy, error)
	BackupTaken    func(at time.Time) // told when a backup was handed out
	// OverTCP lets programs that reach the endpoint over TCP be the operator.
	OverTCP bool

	// Enter counts a request in, and fails once the configuration has ended. Leave counts it out.
	Enter func() error
	Leave func()
}

// Handler serves the operator's API.
type Handler struct {
	Version string
	Serving func() *Purser // the purser that serves now, nil before the start
	// Outage tells of a purser that runs without its store; nil if it has one. It counts while none serves.
	Outage func() *Outage
	Host   func() string // the name that the operator has given the endpoint, "" without one
	// Reload reads configuration and variables again. It is nil where that cannot be done.
	Reload func(Reload) (Reloaded, error)

	mu      sync.Mutex
	imports *keystore.Receiver // nil: see receiver
}

// Route is a path of the API, as http.ServeMux has them.
type Route struct {
	Pattern string
	Serve   serves
}

// Error is an answer with a status. It has no secrets.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error that is answered with a status.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Err: fmt.Errorf(format, args...)}
}

// serves answers a request, or returns an error that was not answered: see [Error].
type serves = func(http.ResponseWriter, *http.Request) error

type methods map[string]serves

// Routes returns the paths of the API.
func (h *Handler) Routes() []Route {
	var routes []Route
	for pattern, m := range map[string]methods{
		"/purser/status":                  {http.MethodGet: h.status},
		"/purser/reload":                  {http.MethodPost: h.reload},
		"/purser/exec":                    {http.MethodPost: h.ask((*Purser).exec)},
		"/purser/check":                   {http.MethodPost: h.copies((*Purser).check)},
		"/purser/backup":                  {http.MethodPost: h.copies((*Purser).backup)},
		"/purser/keys":                    {http.MethodGet: h.ask((*Purser).keys), http.MethodPost: tell(h, (*Purser).createKey)},
		"/purser/keys/{id}":               {http.MethodGet: h.ask((*Purser).key)},
		"/purser/keys/{id}/policy":        {http.MethodPut: tell(h, (*Purser).replacePolicy), http.MethodPatch: tell(h, (*Purser).patchPolicy)},
		"/purser/keys/{id}/wallets":       {http.MethodPost: tell(h, (*Purser).createWallet)},
		"/purser/keys/{id}/pause":         {http.MethodPost: tell(h, (*Purser).pauseKey)},
		"/purser/keys/{id}/resume":        {http.MethodPost: tell(h, (*Purser).resumeKey)},
		"/purser/keys/{id}/revoke":        {http.MethodPost: h.ask((*Purser).revokeKey)},
		"/purser/keys/{id}/end-overlap":   {http.MethodPost: h.ask((*Purser).endOverlap)},
		"/purser/keys/{id}/reissue":       {http.MethodPost: tell(h, (*Purser).reissueKey)},
		"/purser/approvals":               {http.MethodGet: h.ask((*Purser).approvals)},
		"/purser/approvals/{id}":          {http.MethodGet: h.ask((*Purser).showApproval), http.MethodPost: tell(h, (*Purser).answerApproval)},
		"/purser/webhooks":                {http.MethodGet: h.ask((*Purser).webhooks)},
		"/purser/webhooks/test":           {http.MethodPost: tell(h, (*Purser).testWebhooks)},
		"/purser/webhooks/{name}/replay":  {http.MethodPost: tell(h, (*Purser).replayWebhook)},
		"/purser/notices":                 {http.MethodGet: h.ask((*Purser).listNotices)},
		"/purser/pause":                   {http.MethodPost: tell(h, (*Purser).pauseAll)},
		"/purser/resume":                  {http.MethodPost: h.ask((*Purser).resumeAll)},
		"/purser/archive":                 {http.MethodGet: h.archive},
		"/purser/audit":                   {http.MethodGet: h.ask((*Purser).audit)},
		"/purser/wallets":                 {http.MethodGet: h.ask((*Purser).wallets)},
		"/purser/wallets/import":          {http.MethodGet: h.ask(h.offerImport), http.MethodPost: tell(h, h.importWallet)},
		"/purser/wallets/{id}":            {http.MethodGet: h.ask((*Purser).showWallet), http.MethodDelete: h.ask((*Purser).deleteWallet)},
		"/purser/wallets/{id}/export":     {http.MethodPost: tell(h, (*Purser).exportWallet)},
		"/purser/wallets/{id}/restore":    {http.MethodPost: h.ask((*Purser).restoreWallet)},
		"/purser/wallets/{id}/keys":       {http.MethodGet: h.ask((*Purser).walletKeys)},
		"/purser/wallets/{id}/share":      {http.MethodPost: tell(h, (*Purser).shareWallet)},
		"/purser/wallets/{id}/unshare":    {http.MethodPost: tell(h, (*Purser).unshareWallet)},
		"/purser/tail":                    {http.MethodGet: h.tail},
		"/purser/declined":                {http.MethodGet: h.ask((*Purser).declined)},
		"/purser/spend":                   {http.MethodGet: h.ask((*Purser).spend)},
		"/purser/bookings":                {http.MethodGet: h.bookings},
		"/purser/statement":               {http.MethodGet: h.ask((*Purser).statement)},
		"/purser/organizations":           {http.MethodGet: h.ask((*Purser).organizations), http.MethodPost: tell(h, (*Purser).prepare)},
		"/purser/organizations/{id}/plan": {http.MethodPut: tell(h, (*Purser).setPlan)},
		"/purser/organizations/{id}/keys": {http.MethodPost: tell(h, (*Purser).linkKey)},
		"/purser/reconcile":               {http.MethodGet: h.ask((*Purser).reconcile), http.MethodPost: tell(h, (*Purser).acceptRisk)},
		"/purser/dashboard":               {http.MethodPost: h.ask((*Purser).linkDashboard), http.MethodDelete: h.ask((*Purser).signOutDashboard)},
		"/purser/rotation":                {http.MethodGet: h.ask((*Purser).rotation)},
		"/purser/rotation/data-key":       {http.MethodPost: h.ask((*Purser).rotateDataKey)},
		"/purser/rotation/master-key":     {http.MethodPost: tell(h, (*Purser).rotateMasterKey)},
		"/purser/rotation/authority":      {http.MethodPost: tell(h, (*Purser).rotateAuthority)},
		"/purser/rpc":                     {http.MethodGet: h.ask((*Purser).keptBlocks)},
		"/purser/rpc/trust":               {http.MethodPost: tell(h, (*Purser).trustRPC)},
		"/purser/payments":                {http.MethodGet: h.ask((*Purser).payments)},
		"/purser/payments/{id}":           {http.MethodGet: h.ask((*Purser).payment)},
		"/purser/payments/{id}/dispute":   {http.MethodGet: h.ask((*Purser).dispute)},
		"/purser/payments/{id}/resolve":   {http.MethodPost: tell(h, (*Purser).resolve)},

		// Money out.
		"/purser/wallets/{id}/authorizations": {http.MethodGet: h.ask((*Purser).authorizations)},
		"/purser/wallets/{id}/withdraw":       {http.MethodPost: tell(h, (*Purser).withdraw)},
		"/purser/wallets/{id}/withdraw/plan":  {http.MethodPost: tell(h, (*Purser).planWithdrawal)},
		"/purser/wallets/{id}/cancel":         {http.MethodPost: tell(h, (*Purser).cancel)},
		"/purser/wallets/{id}/cancel/plan":    {http.MethodPost: tell(h, (*Purser).planCancellation)},
		"/purser/wallets/{id}/approve":        {http.MethodPost: tell(h, (*Purser).approve)},
		"/purser/wallets/{id}/approve/plan":   {http.MethodPost: tell(h, (*Purser).planApproval)},
	} {
		routes = append(routes, Route{Pattern: pattern, Serve: h.byMethod(m)})
	}
	return routes
}

// Mux serves the API where no server around it reports errors.
func (h *Handler) Mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range h.Routes() {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			err := route.Serve(w, r)
			if err == nil {
				return
			}
			status := http.StatusInternalServerError
			if e, known := errors.AsType[*Error](err); known {
				status = e.Status
			}
			_ = writeBody(w, status, map[string]string{"error": err.Error()})
		})
	}
	return mux
}

// byMethod serves a path. Bodies must say that they are JSON: no page in a browser can send
// such a request without being asked first.
func (h *Handler) byMethod(all methods) serves {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !h.ownName(r) {
			return Errorf(http.StatusForbidden, "the name %.64q is not this endpoint's: ask it by address, or set %s", r.Host, AddressVariable)
		}
		serve, known := all[r.Method]
		if !known {
			w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(all)), ", "))
			return Errorf(http.StatusMethodNotAllowed, "method not allowed")
		}
		if r.Method != http.MethodGet {
			if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
				return Errorf(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
			}
		}
		return serve(w, r.WithContext(pay.WithActor(r.Context(), operatorOf(r))))
	}
}

// Admit refuses requests over TCP, where each program of this machine is the same to the endpoint. You
// must call it before a route serves a request from the network. A program that Caddy has
// authenticated by its certificate is admitted, because Caddy's remote administration has decided what
// it may do.
func (h *Handler) Admit(r *http.Request) error {
	local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if known && local.Network() == "unix" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	p, o := h.Serving(), h.outage()
	if p == nil && o == nil {
		return errNotStarted
	}
	if overTCP := p != nil && p.OverTCP || p == nil && o.OverTCP; !overTCP {
		return Errorf(http.StatusForbidden, "purser takes no orders over TCP, where each program that reaches the address would be the operator: %s", exposure.AdminAdvice)
	}
	return nil
}

// ownName reports whether a request is for a name that an attacker cannot give to this machine's
// address. Caddy compares names itself, but not while the endpoint listens on all addresses. There
// a page could read the books once its name resolves to this machine (DNS rebinding). A container
// network has names without a dot.
func (h *Handler) ownName(r *http.Request) bool {
	local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if r.TLS != nil || known && local.Network() == "unix" {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") {
		return true
	}
	return strings.EqualFold(h.Host(), host)
}

// failure gives an error of the pay core its status.
func failure(err error) error {
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	if status := statuses[pay.Code(err)]; status != 0 {
		return Errorf(status, "%w", err)
	}
	return err
}

// statuses has the status of each error of the pay core that is no fault of purser's.
var statuses = map[pay.ErrorCode]int{
	pay.CodeInput:           http.StatusBadRequest,
	pay.CodeKeyNotFound:     http.StatusNotFound,
	pay.CodePaymentNotFound: http.StatusNotFound,
	pay.CodeOrgNotFound:     http.StatusNotFound,
	pay.CodeEventNotFound:   http.StatusNotFound,
	pay.CodeApprovalUnknown: http.StatusNotFound,
	pay.CodeApprovalClosed:  http.StatusConflict,
	pay.CodeUnresolvable:    http.StatusConflict,
	pay.CodeLeaseHeld:       http.StatusConflict,
	pay.CodeLeaseLost:       http.StatusConflict,
	pay.CodeTransaction:     http.StatusConflict,
	pay.CodeChallenge:       http.StatusConflict,
	pay.CodeUnready:         http.StatusServiceUnavailable,
	pay.CodeKeyExists:       http.StatusConflict,
	pay.CodeKeyLimit:        http.StatusConflict,
	pay.CodeWalletLimit:     http.StatusConflict,
	pay.CodeWalletNotFound:  http.StatusNotFound,
	pay.CodeAddressTaken:    http.StatusConflict,
	pay.CodeWalletLive:      http.StatusConflict,
	pay.CodeNoSecret:        http.StatusConflict,
	pay.CodeKeyClaimed:      http.StatusConflict,
	pay.CodeKeyLinked:       http.StatusConflict,
	pay.CodeKeyRevoked:      http.StatusConflict,
	pay.CodeNotReconciling:  http.StatusConflict,
	pay.CodeSigner:          http.StatusServiceUnavailable,
	pay.CodeNoAddress:       http.StatusConflict,
	pay.CodeNoChain:         http.StatusConflict,
	pay.CodeUnavailable:     http.StatusServiceUnavailable,
	pay.CodeReconciling:     http.StatusServiceUnavailable,
	pay.CodeClock:           http.StatusServiceUnavailable,
	pay.CodeEnded:           http.StatusServiceUnavailable,
	pay.CodeUncancelable:    http.StatusConflict,
	pay.CodeGas:             http.StatusConflict,
	pay.CodeNoTransactions:  http.StatusConflict,
	pay.CodeRejected:        http.StatusBadGateway,
	pay.CodeReverts:         http.StatusBadGateway,
	pay.CodeRPC:             http.StatusBadGateway,
}

// MaxBody bounds the body of a request; the largest policy is far smaller.
const MaxBody = 4 << 20

// readBody reads the JSON of a request. A field that is not known is refused: what it was
// meant to limit would be without limit.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		return Errorf(status, "the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Errorf(http.StatusBadRequest, "the body: more than one JSON value")
	}
	if err := strictjson.Decode(text, into, openFields...); err != nil {
		return Errorf(http.StatusBadRequest, "the body: %w", err)
	}
	return nil
}

var openFields = []string{"hosts", "tasks"} // of a policy: their members have any names

// Rows of a page: unless a request says, and at most.
const (
	DefaultPage = 100
	MaxPage     = 500
)

func pageLimit(asked url.Values, unset, most int) (int, error) {
	text := asked.Get("limit")
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, Errorf(http.StatusBadRequest, "limit: a number from 1 to %d", most)
	}
	return n, nil
}

// listed reads a page and shows its rows. read is asked for one row more than the page has: only then
// next is not empty, but the id of the last row.
func listed[T, S any](
	r *http.Request, read func(limit int) ([]T, error), id func(T) string, show func(T) (S, error),
) (page []S, next string, err error) {
	limit, err := pageLimit(r.URL.Query(), DefaultPage, MaxPage)
	if err != nil {
		return nil, "", err
	}
	rows, err := read(limit + 1)
	if err != nil {
		return nil, "", err
	}
	rows, next = cutPage(rows, limit, id)
	page = make([]S, len(rows))
	for i, row := range rows {
		if page[i], err = show(row); err != nil {
			return nil, "", err
		}
	}
	return page, next, nil
}

// cutPage cuts a list that was read with one row more than the limit.
func cutPage[T any](list []T, limit int, id func(T) string) (page []T, next string) {
	if len(list) <= limit {
		return list, ""
	}
	return list[:limit], id(list[limit-1])
}

func writeBody(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return plainjson.Encoder(w).Encode(body)
}

type created struct{ body any } // with the status 201

func (h *Handler) purser() (*Purser, error) {
	if p := h.Serving(); p != nil {
		return p, nil
	}
	if o := h.outage(); o != nil {
		return nil, Errorf(http.StatusServiceUnavailable, "%s", o)
	}
	return nil, errNotStarted
}

var errNotStarted = Errorf(http.StatusServiceUnavailable, "purser has not started")

// Outage is the time of a purser that runs without its store, which it tries to open again.
type Outage struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"` // of the latest attempt
	// OverTCP is that of [Purser].
	OverTCP bool `json:"-"`
}

func (o *Outage) String() string {
	return "purser serves and pays nothing since " + o.Since.UTC().Format(time.RFC3339) + ", and tries again: " + o.Error
}

func (h *Handler) outage() *Outage {
	if h.Outage == nil {
		return nil
	}
	return h.Outage()
}

// ask serves requests without a body. They count as entered until they are answered.
func (h *Handler) ask(serve func(*Purser, *http.Request) (any, error)) serves {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := h.purser()
		if err != nil {
			return err
		}
		if err := p.Enter(); err != nil {
			return Errorf(http.StatusServiceUnavailable, "%w", err)
		}
		defer p.Leave()
		answer, err := serve(p, r)
		if err != nil {
			return failure(err)
		}
		if c, ok := answer.(created); ok {
			return writeBody(w, http.StatusCreated, c.body)
		}
		return writeBody(w, http.StatusOK, answer)
	}
}

// tell serves requests with a body.
func tell[T any](h *Handler, serve func(*Purser, *http.Request, T) (any, error)) serves {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body T
		if err := readBody(w, r, &body); err != nil {
			return err
		}
		return h.ask(func(p *Purser, r *http.Request) (any, error) { return serve(p, r, body) })(w, r)
	}
}
