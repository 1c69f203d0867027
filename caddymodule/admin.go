package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

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
	return []caddy.AdminRoute{{Pattern: "/purser/status", Handler: caddy.AdminHandlerFunc(a.status)}}
}

// status is what GET /purser/status answers.
type status struct {
	OK      bool          `json:"ok"`
	Version string        `json:"version"`
	Store   *storeStatus  `json:"store,omitempty"`  // nil until the store is open
	Health  *healthStatus `json:"health,omitempty"` // nil until the store is open
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
	Network     string `json:"network"`
	Wallets     string `json:"wallets"`
}

// status looks at the open stores, not at the configuration: Caddy does not guard its
// table of apps, which it may be changing while this is asked.
func (*adminAPI) status(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method not allowed")}
	}
	s := status{Version: Version()}
	var home *pooled
	var t *tenant
	stores.Range(func(_, v any) bool {
		p := v.(*pooled)
		home, t = p, p.newestTenant()
		return t == nil // one that does not serve any more is only draining
	})
	if t != nil {
		world, err := home.store.World(r.Context())
		if err != nil {
			return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("reading the store: %w", err)}
		}
		h := t.payer.Health(r.Context())
		s.OK = h.OK
		s.Store = &storeStatus{Kind: h.StoreKind, Path: home.place, World: world}
		s.Health = &healthStatus{
			Store: probeText(h.Store), Facilitator: probeText(h.Facilitator), RPC: probeText(h.RPC),
			Network: h.Network.Name, Wallets: h.Wallets,
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(s)
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
