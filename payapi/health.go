package payapi

import (
	"net/http"

	"github.com/purserpay/purser/pay"
)

// service is the short name of SPEC §4.
const service = "purser"

// root is GET /.
func (a *API) root(*http.Request) (reply, error) {
	return reply{status: http.StatusOK, body: struct {
		OK      bool   `json:"ok"`
		Service string `json:"service"`
	}{true, service}}, nil
}

// healthReport is DESIGN §5's answer of GET /health.
type healthReport struct {
	OK          bool           `json:"ok"`
	Service     string         `json:"service"`
	Version     string         `json:"version"`
	Database    databaseHealth `json:"database"`
	Facilitator probe          `json:"facilitator"`
	RPC         rpcHealth      `json:"rpc"`
	Wallets     walletHealth   `json:"wallets"`
}

type databaseHealth struct {
	Configured bool   `json:"configured"`
	OK         bool   `json:"ok"`
	Kind       string `json:"kind"`
}

type probe struct {
	Configured bool   `json:"configured"`
	OK         bool   `json:"ok"`
	Error      string `json:"error,omitempty"`
}

type rpcHealth struct {
	probe
	Network string `json:"network"`
	ChainID uint64 `json:"chain_id"`
}

type walletHealth struct {
	Provider string `json:"provider"`
}

// health is GET /health: 503 when the store fails, because then nothing can be paid.
// A facilitator or an RPC that does not answer is shown and changes no status.
func (a *API) health(r *http.Request) (reply, error) {
	h := a.payer.Health(r.Context())
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	return reply{status: status, body: healthReport{
		OK: h.OK, Service: service, Version: a.version,
		Database:    databaseHealth{h.Store.Configured, h.Store.OK, h.StoreKind},
		Facilitator: newProbe(h.Facilitator),
		RPC:         rpcHealth{newProbe(h.RPC), h.Network.Name, h.Network.ChainID},
		Wallets:     walletHealth{h.Wallets},
	}}, nil
}

func newProbe(p pay.Probe) probe {
	shown := probe{Configured: p.Configured, OK: p.OK}
	if p.Err != nil {
		shown.Error = p.Err.Error()
	}
	return shown
}
