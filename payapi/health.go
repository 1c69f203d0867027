package payapi

import (
	"context"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
)

// service is purser's name in GET / and GET /health.
const service = "purser"

// root serves GET /.
func (a *API) root(*http.Request) (reply, error) {
	return reply{status: http.StatusOK, body: struct {
		OK      bool   `json:"ok"`
		Service string `json:"service"`
	}{true, service}}, nil
}

// healthReport is the body of GET /health.
type healthReport struct {
	OK          bool           `json:"ok"`
	Service     string         `json:"service"`
	Version     string         `json:"version"`
	Database    databaseHealth `json:"database"`
	Facilitator probe          `json:"facilitator"`
	RPC         rpcHealth      `json:"rpc"`
	// SecondRPC is present where two RPCs must agree.
	SecondRPC *probe `json:"rpc_2,omitempty"`
	// Networks lists the networks that are paid on.
	Networks []networkHealth `json:"networks"`
	Clock    clockHealth     `json:"clock"`
	Wallets  walletHealth    `json:"wallets"`
	// Reconciling is present until a restored store is reconciled.
	Reconciling *reconcilingHealth `json:"reconciling,omitempty"`
	// Paused is present while the operator has paused all new payments. The reason stays private.
	Paused *pausedHealth `json:"paused,omitempty"`
	// Troubles lists what is wrong, the worst first. Names of keys, wallets and people are left to the operator.
	Troubles []troubleHealth `json:"troubles"`
}

// troubleHealth is a trouble as everybody may see it.
type troubleHealth struct {
	Code   string    `json:"code"`
	Effect string    `json:"effect"` // "stops", "soon" or "look"
	Since  time.Time `json:"since"`
	Says   string    `json:"says,omitempty"`
}

func (a *API) troubleHealth(ctx context.Context) []troubleHealth {
	list := []troubleHealth{}
	if a.troubles == nil {
		return list
	}
	for _, t := range a.troubles(ctx) {
		shown := troubleHealth{t.Code, string(t.Effect), t.Since, t.Says}
		switch {
		case t.Private && t.Effect == trouble.Look:
			continue
		case t.Private:
			shown.Says = ""
		}
		list = append(list, shown)
	}
	return list
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

// reconcilingHealth is the progress of reconciling after a restore.
type reconcilingHealth struct {
	Backup   time.Time            `json:"backup"`   // time of the backup
	Restored time.Time            `json:"restored"` // time when it was opened
	Until    time.Time            `json:"until"`    // payments resume after it at the earliest
	Booked   int                  `json:"booked"`   // payments that the chain showed
	Strange  int                  `json:"strange,omitempty"`
	Operator bool                 `json:"needs_operator,omitempty"` // the operator must run purser reconcile --accept-risk
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
		Networks: []reconcilingNetwork{}, Reason: s.Refusal().Error(),
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

// networkHealth tells how the RPCs of one network are.
type networkHealth struct {
	Network   string `json:"network"`
	ChainID   uint64 `json:"chain_id"`
	RPC       probe  `json:"rpc"`
	SecondRPC *probe `json:"rpc_2,omitempty"`
}

// secondProbe is nil without a second RPC.
func secondProbe(p pay.Probe) *probe {
	if !p.Configured {
		return nil
	}
	shown := newProbe(p)
	return &shown
}

// clockHealth compares purser's clock with those of the facilitator and the RPC.
type clockHealth struct {
	OK bool `json:"ok"` // no clock differs by more than 30 s
	// Stopped reports that new payments are refused because of the clock.
	Stopped bool          `json:"stopped,omitempty"`
	Sources []sourceClock `json:"sources"`
}

// sourceClock is one comparison: the seconds by which purser's clock is ahead, or null when
// unknown.
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

// walletHealth is the wallet provider. OK and Error are there if it works outside this process.
type walletHealth struct {
	Provider string `json:"provider"`
	OK       *bool  `json:"ok,omitempty"`
	Error    string `json:"error,omitempty"`
}

func newWalletHealth(h pay.Health) walletHealth {
	shown := walletHealth{Provider: h.Wallets}
	if h.Signer.Configured {
		shown.OK, shown.Error = &h.Signer.OK, newProbe(h.Signer).Error
	}
	return shown
}

// health serves GET /health. The status is 503 when no payment can be made: the store fails, or a
// restored store is not reconciled. A pause keeps status 200, because the operator wants it, and
// reads and repeats go on. A failing facilitator, RPC or signer is shown, and keeps status 200
// too.
func (a *API) health(r *http.Request) (reply, error) {
	h := a.payer.Health(r.Context())
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	networks := make([]networkHealth, len(h.Networks))
	for i, n := range h.Networks {
		networks[i] = networkHealth{n.Name, n.ChainID, newProbe(n.RPC), secondProbe(n.SecondRPC)}
	}
	return reply{status: status, body: healthReport{
		OK: h.OK, Service: service, Version: a.version,
		Database:    databaseHealth{h.Store.Configured, h.Store.OK, h.StoreKind},
		Facilitator: newProbe(h.Facilitator),
		RPC:         rpcHealth{newProbe(h.RPC), networks[0].Network, networks[0].ChainID},
		SecondRPC:   secondProbe(h.SecondRPC),
		Networks:    networks,
		Clock:       newClock(h.Clock),
		Wallets:     newWalletHealth(h),
		Reconciling: newReconciling(h.Reconciling),
		Paused:      newPaused(h.Paused),
		Troubles:    a.troubleHealth(r.Context()),
	}}, nil
}

func newProbe(p pay.Probe) probe {
	shown := probe{Configured: p.Configured, OK: p.OK}
	if p.Err != nil {
		shown.Error = p.Err.Error()
	}
	return shown
}
