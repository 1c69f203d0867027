package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/pay"
)

// adminAPI is purser's part of Caddy's admin endpoint.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.purser", New: func() caddy.Module { return new(adminAPI) }}
}

// Routes are served by the admin endpoint.
func (a *adminAPI) Routes() []caddy.AdminRoute {
	var routes []caddy.AdminRoute
	for pattern, methods := range map[string]map[string]caddy.AdminHandlerFunc{
		"/purser/status":                  {http.MethodGet: a.status},
		"/purser/exec":                    {http.MethodPost: a.exec},
		"/purser/check":                   {http.MethodPost: a.check},
		"/purser/backup":                  {http.MethodPost: a.backup},
		"/purser/keys":                    {http.MethodGet: a.keys, http.MethodPost: a.createKey},
		"/purser/keys/{id}":               {http.MethodGet: a.key},
		"/purser/keys/{id}/policy":        {http.MethodPut: a.replacePolicy, http.MethodPatch: a.patchPolicy},
		"/purser/keys/{id}/wallets":       {http.MethodPost: a.createWallet},
		"/purser/keys/{id}/pause":         {http.MethodPost: stopKey(pay.StopPause)},
		"/purser/keys/{id}/resume":        {http.MethodPost: stopKey(pay.StopResume)},
		"/purser/keys/{id}/revoke":        {http.MethodPost: stopKey(pay.StopRevoke)},
		"/purser/pause":                   {http.MethodPost: a.pauseAll},
		"/purser/resume":                  {http.MethodPost: a.resumeAll},
		"/purser/audit":                   {http.MethodGet: a.audit},
		"/purser/wallets":                 {http.MethodGet: a.wallets},
		"/purser/spend":                   {http.MethodGet: a.spend},
		"/purser/organizations":           {http.MethodGet: a.organizations, http.MethodPost: a.prepare},
		"/purser/organizations/{id}/plan": {http.MethodPut: a.setPlan},
		"/purser/organizations/{id}/keys": {http.MethodPost: a.linkKey},
		"/purser/reconcile":               {http.MethodGet: a.reconcile, http.MethodPost: a.acceptRisk},
		"/purser/rpc":                     {http.MethodGet: a.keptBlocks},
		"/purser/rpc/trust":               {http.MethodPost: a.trustRPC},
		"/purser/payments":                {http.MethodGet: a.payments},
		"/purser/payments/{id}":           {http.MethodGet: a.payment},
		"/purser/payments/{id}/resolve":   {http.MethodPost: a.resolve},
	} {
		routes = append(routes, caddy.AdminRoute{Pattern: pattern, Handler: byMethod(methods)})
	}
	return routes
}

// byMethod is the handler of a path. Bodies must say that they are JSON: no page in a
// browser can send such a request without being asked first.
func byMethod(methods map[string]caddy.AdminHandlerFunc) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if !ownName(r) {
			return adminError(http.StatusForbidden, "the name %.64q is not this endpoint's: ask it by address, or set %s", r.Host, adminVariable)
		}
		h, known := methods[r.Method]
		if !known {
			w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
			return adminError(http.StatusMethodNotAllowed, "method not allowed")
		}
		if r.Method != http.MethodGet {
			if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
				return adminError(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
			}
		}
		return h(w, r.WithContext(pay.WithActor(r.Context(), operatorOf(r))))
	})
}

// ownName reports whether a request is for a name that somebody else cannot have given to this
// machine's address. Caddy compares names itself, but not while the endpoint listens on all
// addresses: there a page in a browser could read the books after its own name has become ours
// (DNS rebinding). Names without a dot are those of a container network.
func ownName(r *http.Request) bool {
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
	own, err := caddy.ParseNetworkAddress(os.Getenv(adminVariable))
	return err == nil && strings.EqualFold(own.Host, host)
}

// adminError is an answer with a status. Caddy logs it, so it has no secrets.
func adminError(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// adminFailure is the answer to an error of the pay core.
func adminFailure(err error) error {
	var input *pay.InputError
	var cannot *pay.UnresolvableError
	switch {
	case errors.As(err, &input):
		return adminError(http.StatusBadRequest, "%w", err)
	case errors.Is(err, pay.ErrKeyNotFound), errors.Is(err, pay.ErrPaymentNotFound), errors.Is(err, pay.ErrOrganizationNotFound),
		errors.Is(err, pay.ErrEventNotFound):
		return adminError(http.StatusNotFound, "%w", err)
	case errors.As(err, &cannot), errors.Is(err, pay.ErrLeaseHeld), errors.Is(err, pay.ErrLeaseLost), errors.Is(err, pay.ErrTransactionKnown):
		return adminError(http.StatusConflict, "%w", err)
	case errors.Is(err, pay.ErrKeyExists), errors.Is(err, pay.ErrKeyLimit), errors.Is(err, pay.ErrWalletLimit),
		errors.Is(err, pay.ErrKeyClaimed), errors.Is(err, pay.ErrKeyLinked), errors.Is(err, pay.ErrKeyRevoked):
		return adminError(http.StatusConflict, "%w", err)
	case errors.Is(err, pay.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return adminError(http.StatusServiceUnavailable, "%w", err)
	}
	return err
}

// maxAdminBody bounds the body of a request; the largest policy is far smaller.
const maxAdminBody = 4 << 20

// readBody reads the JSON of a request. A field that is not known is refused: what it was
// meant to limit would be without limit.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAdminBody))
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		return adminError(status, "the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return adminError(http.StatusBadRequest, "the body: more than one JSON value")
	}
	if err := strictjson.Decode(text, into, openFields...); err != nil {
		return adminError(http.StatusBadRequest, "the body: %w", err)
	}
	return nil
}

// openFields are the fields of a policy whose members have names of the operator's choice.
var openFields = []string{"hosts", "tasks"}

// pageLimit is how many rows a request asks for.
func pageLimit(asked url.Values, unset, most int) (int, error) {
	text := asked.Get("limit")
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, adminError(http.StatusBadRequest, "limit: a number from 1 to %d", most)
	}
	return n, nil
}

func writeBody(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(body)
}

// serving is the tenant that serves now, with its store; both are nil before the start.
// The open stores are asked and not the configuration: Caddy does not guard its table of
// apps, which it may be changing at this moment.
func serving() (home *pooled, t *tenant) {
	stores.Range(func(_, v any) bool {
		home = v.(*pooled)
		t = home.newestTenant()
		return t == nil // one that does not serve any more is only draining
	})
	return home, t
}

// enterTenant is the tenant that serves now. Its leave must be called.
func enterTenant() (*tenant, error) {
	_, t := serving()
	if t == nil {
		return nil, adminError(http.StatusServiceUnavailable, "purser has not started")
	}
	if err := t.enter(); err != nil {
		return nil, adminError(http.StatusServiceUnavailable, "%w", err)
	}
	return t, nil
}

// status is what GET /purser/status answers.
type status struct {
	OK      bool          `json:"ok"`
	Version string        `json:"version"`
	Store   *storeStatus  `json:"store,omitempty"`  // nil until the store is open
	Health  *healthStatus `json:"health,omitempty"` // nil until the store is open
	// Quotas are there where they are asked for and keys have some.
	Quotas *quotaStatus `json:"quotas,omitempty"`
	// Reconcile is there until a store that was restored from a backup is reconciled.
	Reconcile *reconcileStatus `json:"reconcile,omitempty"`
	// Registration is nil until the store is open.
	Registration *registrationStatus `json:"registration,omitempty"`
	// Paused is there while everything is paused.
	Paused *adminPause `json:"paused,omitempty"`
	// Replaced are earlier keys of PURSER_KEY that still pay.
	Replaced []replacedKey `json:"replaced_keys,omitempty"`
}

// replacedKey is a key that was PURSER_KEY before, with what revokes it.
type replacedKey struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Command string `json:"command"`
}

type storeStatus struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	// World is "sandbox", the genesis hash of the network, or empty until one is known.
	World string `json:"world"`
}

type healthStatus struct {
	Store       string `json:"store"` // "ok", "none", or what is wrong
	Facilitator string `json:"facilitator"`
	RPC         string `json:"rpc"`
	SecondRPC   string `json:"rpc_2"`
	Clock       string `json:"clock"` // "ok", or what is wrong
	Network     string `json:"network"`
	Wallets     string `json:"wallets"`
}

// status shows it: GET /purser/status?quotas=true.
func (*adminAPI) status(w http.ResponseWriter, r *http.Request) error {
	s := status{Version: Version()}
	home, t := serving()
	if t != nil {
		world, err := home.store.World(r.Context())
		if err != nil {
			return adminError(http.StatusServiceUnavailable, "reading the store: %w", err)
		}
		h := t.payer.Health(r.Context())
		s.OK = h.OK
		s.Reconcile = newReconcileStatus(h.Reconciling)
		s.Registration = newRegistrationStatus(t.app)
		s.Paused = shownPause(h.Paused)
		replaced, err := t.payer.Replaced(r.Context())
		if err != nil {
			return adminError(http.StatusServiceUnavailable, "reading the store: %w", err)
		}
		for _, k := range replaced {
			s.Replaced = append(s.Replaced, replacedKey{k.ID, k.Label, revokeCommand(k.ID)})
		}
		s.Store = &storeStatus{Kind: h.StoreKind, Path: home.place, World: world}
		s.Health = &healthStatus{
			Store: probeText(h.Store), Facilitator: probeText(h.Facilitator), RPC: probeText(h.RPC),
			SecondRPC: probeText(h.SecondRPC), Clock: clockText(h.Clock), Network: h.Network.Name, Wallets: h.Wallets,
		}
		if r.URL.Query().Get("quotas") == "true" {
			if s.Quotas, err = t.quotaStatus(r.Context()); err != nil {
				return adminFailure(err)
			}
		}
	}
	return writeBody(w, http.StatusOK, s)
}

func probeText(p pay.Probe) string {
	switch {
	case !p.Configured:
		return "none"
	case p.OK:
		return "ok"
	case p.Err != nil:
		return p.Err.Error()
	}
	return "failing"
}

var _ caddy.AdminRouter = (*adminAPI)(nil)
