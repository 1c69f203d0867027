package adminapi

import (
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
)

// Status answers GET /purser/status.
type Status struct {
	OK           bool                `json:"ok"`
	Version      string              `json:"version"`
	Since        time.Time           `json:"since,omitzero"` // when the store was opened
	Process      int                 `json:"pid"`
	Outage       *Outage             `json:"outage,omitempty"`             // nil unless purser waits for its store
	Proxy        string              `json:"proxy,omitempty"`              // its URL for programs on this machine
	Store        *StoreStatus        `json:"store,omitempty"`              // nil until the store is open
	Health       *HealthStatus       `json:"health,omitempty"`             // nil until the store is open
	Quotas       *QuotaStatus        `json:"quotas,omitempty"`             // where they are asked for and keys have some
	Reconcile    *ReconcileStatus    `json:"reconcile,omitempty"`          // until a restored store is reconciled
	Registration *RegistrationStatus `json:"registration,omitempty"`       // nil until the store is open
	Paused       *Pause              `json:"paused,omitempty"`             // while everything is paused
	Declined     map[string]int      `json:"declined_last_hour,omitempty"` // 402s that were not paid, by reason
	Notices      []string            `json:"failing_notices,omitempty"`    // destinations that do not take notices, with their answers
	Replaced     []ReplacedKey       `json:"replaced_keys,omitempty"`      // earlier keys of PURSER_KEY that still pay
	// Troubles lists everything that is wrong, the worst first.
	Troubles  []trouble.Trouble `json:"troubles"`
	Variables []string          `json:"variables,omitempty"` // names that the configuration refers to
}

// ReplacedKey is a key that was PURSER_KEY before, with what revokes it.
type ReplacedKey struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Command string `json:"command"`
}

// StoreStatus names the store.
type StoreStatus struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	World string `json:"world"` // "sandbox", the genesis hash of the first network, or empty until it is known
}

// HealthStatus tells how the parts of purser are.
type HealthStatus struct {
	Store       string `json:"store"` // "ok", "none", or what is wrong
	Facilitator string `json:"facilitator"`
	RPC         string `json:"rpc"`
	SecondRPC   string `json:"rpc_2"`
	Clock       string `json:"clock"`   // "ok", or what is wrong
	Network     string `json:"network"` // all that are paid on, separated by commas
	Wallets     string `json:"wallets"`
	Signer      string `json:"signer"`          // "none" where wallets are kept in this process
	Nodes       string `json:"nodes,omitempty"` // the limits that other nodes have other values of
}

// status shows it: GET /purser/status?quotas=true.
func (h *Handler) status(w http.ResponseWriter, r *http.Request) error {
	p := h.Serving()
	if p == nil {
		return writeBody(w, http.StatusOK, Status{Version: h.Version, Process: os.Getpid(), Outage: h.outage()})
	}
	world, err := p.Store.World(r.Context(), p.Networks[0].Name)
	if err != nil {
		return Errorf(http.StatusServiceUnavailable, "reading the store: %w", err)
	}
	replaced, err := p.Books.Replaced(r.Context())
	if err != nil {
		return Errorf(http.StatusServiceUnavailable, "reading the store: %w", err)
	}
	health := p.Payer.Health(r.Context())
	s := Status{
		Version: h.Version, Process: os.Getpid(), Since: p.Since, Proxy: p.ProxyURL(), OK: health.OK, Reconcile: newReconcileStatus(health.Reconciling), Registration: p.Registration(), Variables: p.variables(),
		Paused: shownPause(health.Paused), Store: &StoreStatus{Kind: health.StoreKind, Path: p.Place, World: world},
		Health: &HealthStatus{
			Store: probeText(health.Store), Facilitator: probeText(health.Facilitator), RPC: probeText(health.RPC),
			SecondRPC: probeText(health.SecondRPC), Clock: trouble.ClockText(health.Clock), Network: networkNames(health.Networks), Wallets: health.Wallets,
			Signer: probeText(health.Signer), Nodes: strings.Join(health.Differences, "; "),
		},
	}
	if s.Troubles = []trouble.Trouble{}; p.Troubles != nil {
		s.Troubles = append(s.Troubles, p.Troubles.Now(r.Context())...)
	}
	if p.Declined != nil {
		s.Declined = p.Declined(time.Now())
	}
	if p.Notices != nil {
		s.Notices = p.Notices.Failing(r.Context())
	}
	for _, k := range replaced {
		s.Replaced = append(s.Replaced, ReplacedKey{k.ID, k.Label, books.RevokeCommand(k.ID)})
	}
	if r.URL.Query().Get("quotas") == "true" {
		if s.Quotas, err = p.Quotas(r.Context()); err != nil {
			return failure(err)
		}
	}
	return writeBody(w, http.StatusOK, s)
}

// QuotaStatus counts the owners of quotas by how far they are this month.
type QuotaStatus struct {
	Counted   int    `json:"counted"`
	Near      int    `json:"near"` // 80 % or more
	Exhausted int    `json:"exhausted"`
	Fullest   string `json:"fullest"` // the owner with the largest part used
	Used      string `json:"used"`
	Most      string `json:"most"`
}

// RegistrationStatus tells who may make keys.
type RegistrationStatus struct {
	Open    bool     `json:"open"`
	Exposed []string `json:"exposed,omitempty"` // addresses at which programs of other machines may make keys
}

func networkNames(all []pay.NetworkHealth) string {
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
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
