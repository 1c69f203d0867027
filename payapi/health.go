package payapi

import (
	"net/http"
	"time"

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
	// SecondRPC is there where two RPCs must agree.
	SecondRPC *probe       `json:"rpc_2,omitempty"`
	Clock     clockHealth  `json:"clock"`
	Wallets   walletHealth `json:"wallets"`
	// Reconciling is there until a store that was restored from a backup is reconciled.
	Reconciling *reconcilingHealth `json:"reconciling,omitempty"`
	// Paused is there while the operator has paused all new payments. Why is not told here.
	Paused *pausedHealth `json:"paused,omitempty"`
}

type pausedHealth struct {
	Since time.Time `json:"since"`
}

func newPaused(p *pay.Pause) *pausedHealth {
	if p == nil {
		return nil
	}
	return &pausedHealth{p.At.UTC()}
}

// reconcilingHealth is how far reconciling is.
type reconcilingHealth struct {
	Backup   time.Time            `json:"backup"`   // when it was taken
	Restored time.Time            `json:"restored"` // when it was opened
	Until    time.Time            `json:"until"`    // payments do not resume before
	Booked   int                  `json:"booked"`   // payments that were found on the chain
	Strange  int                  `json:"strange,omitempty"`
	Operator bool                 `json:"needs_operator,omitempty"` // purser reconcile --accept-risk
	Networks []reconcilingNetwork `json:"networks"`
	Reason   string               `json:"reason"`
}

type reconcilingNetwork struct {
	Network string `json:"network"`
	First   uint64 `json:"first_block"`
	Next    uint64 `json:"next_block"`
	Safe    uint64 `json:"safe_block"`
	Done    bool   `json:"done"`
	Error   string `json:"error,omitempty"`
}

func newReconciling(s *pay.ReconcileStatus) *reconcilingHealth {
	if s == nil {
		return nil
	}
	h := &reconcilingHealth{
		Backup: s.Taken.UTC(), Restored: s.At.UTC(), Until: s.Until.UTC(), Booked: s.Booked, Strange: s.StrangeCount, Operator: s.Operator,
		Networks: []reconcilingNetwork{}, Reason: (&pay.ReconcilingError{Taken: s.Taken}).Error(),
	}
	for _, n := range s.Networks {
		shown := reconcilingNetwork{Network: n.Name, First: n.First, Next: n.Next, Safe: n.Safe.Number, Done: n.Done}
		if n.Err != nil {
			shown.Error = n.Err.Error()
		}
		h.Networks = append(h.Networks, shown)
	}
	return h
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

// clockHealth compares purser's clock with those of the facilitator and the RPC.
type clockHealth struct {
	OK bool `json:"ok"` // nothing differs by more than 30 s
	// Stopped: no new payments are made because of it.
	Stopped bool          `json:"stopped,omitempty"`
	Sources []sourceClock `json:"sources"`
}

// sourceClock is one comparison: seconds by which purser's clock is ahead. Null: not known.
type sourceClock struct {
	Source     pay.TimeSource `json:"source"`
	Ahead      *float64       `json:"ahead_seconds"`
	BlockAhead *float64       `json:"block_ahead_seconds,omitempty"`
	Stopped    bool           `json:"stopped,omitempty"`
}

func newClock(s pay.ClockState) clockHealth {
	h := clockHealth{OK: s.OK, Stopped: s.Stopped, Sources: []sourceClock{}}
	for _, one := range s.Sources {
		shown := sourceClock{Source: one.Source, Stopped: one.Stops}
		if one.Known {
			ahead := one.Ahead.Seconds()
			shown.Ahead = &ahead
		}
		if one.BlockKnown {
			ahead := one.BlockAhead.Seconds()
			shown.BlockAhead = &ahead
		}
		h.Sources = append(h.Sources, shown)
	}
	return h
}

type walletHealth struct {
	Provider string `json:"provider"`
}

// health is GET /health: 503 when the store fails or is not reconciled after it was
// restored, because then nothing can be paid.
// A pause of everything is the operator's wish, and changes no status: reading and repeats go on.
// A facilitator or an RPC that does not answer is shown and changes no status.
func (a *API) health(r *http.Request) (reply, error) {
	h := a.payer.Health(r.Context())
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	var second *probe
	if h.SecondRPC.Configured {
		shown := newProbe(h.SecondRPC)
		second = &shown
	}
	return reply{status: status, body: healthReport{
		OK: h.OK, Service: service, Version: a.version,
		Database:    databaseHealth{h.Store.Configured, h.Store.OK, h.StoreKind},
		Facilitator: newProbe(h.Facilitator),
		RPC:         rpcHealth{newProbe(h.RPC), h.Network.Name, h.Network.ChainID},
		SecondRPC:   second,
		Clock:       newClock(h.Clock),
		Wallets:     walletHealth{h.Wallets},
		Reconciling: newReconciling(h.Reconciling),
		Paused:      newPaused(h.Paused),
	}}, nil
}

func newProbe(p pay.Probe) probe {
	shown := probe{Configured: p.Configured, OK: p.OK}
	if p.Err != nil {
		shown.Error = p.Err.Error()
	}
	return shown
}
