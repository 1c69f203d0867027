package adminapi

import (
	"cmp"
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// ReconcileStatus answers GET /purser/reconcile, and is a part of GET /purser/status.
type ReconcileStatus struct {
	Pending  bool               `json:"pending"`           // payments are refused
	Reason   string             `json:"reason,omitempty"`  // for people; empty if payments are made
	Backup   time.Time          `json:"backup,omitzero"`   // when the oldest backup was taken
	At       time.Time          `json:"restored,omitzero"` // when the newest one was opened
	Copied   bool               `json:"copied,omitempty"`  // no backup, but a copy that was last written at Backup
	From     string             `json:"from,omitempty"`    // where the copy was before
	Until    time.Time          `json:"until,omitzero"`    // when payments resume at the earliest
	Networks []ReconcileNetwork `json:"networks,omitempty"`
	// Booked counts the payments that were found, Strange lists transfers that cannot be booked.
	Booked       int      `json:"booked"`
	Strange      []string `json:"strange,omitempty"`
	StrangeCount int      `json:"strange_count,omitempty"`
	// NeedsOperator: only --accept-risk can end it. Accepted: an operator has said so.
	NeedsOperator bool            `json:"needs_operator,omitempty"`
	Accepted      *pay.Acceptance `json:"accepted,omitempty"`
}

// ReconcileNetwork tells which blocks of a network were read: from First to before Next. There are
// blocks to read up to Safe.
type ReconcileNetwork struct {
	Network  string    `json:"network"`
	First    uint64    `json:"first_block"`
	Next     uint64    `json:"next_block"`
	Safe     uint64    `json:"safe_block"`
	SafeTime time.Time `json:"safe_time,omitzero"` // has to reach Target
	Target   time.Time `json:"target"`
	Done     bool      `json:"done"`
	Error    string    `json:"error,omitempty"`
}

func newReconcileStatus(s *pay.ReconcileStatus) *ReconcileStatus {
	if s == nil {
		return nil
	}
	shown := &ReconcileStatus{
		Pending: true, Reason: s.Refusal().Error(), Backup: s.Taken.UTC(), At: s.At.UTC(), Copied: s.Copied, From: s.From, Until: s.Until.UTC(),
		Booked: s.Booked, Strange: s.Strange, StrangeCount: s.StrangeCount, NeedsOperator: s.Operator, Accepted: s.Accepted,
	}
	for _, n := range s.Networks {
		network := ReconcileNetwork{
			Network: n.Name, First: n.First, Next: n.Next, Safe: n.Safe.Number, SafeTime: n.Safe.Time, Target: s.Target.UTC(), Done: n.Done,
		}
		if n.Err != nil {
			network.Error = n.Err.Error()
		}
		shown.Networks = append(shown.Networks, network)
	}
	return shown
}

func (p *Purser) reconcile(r *http.Request) (any, error) {
	s, err := p.Payer.Reconciling(r.Context())
	return cmp.Or(newReconcileStatus(s), &ReconcileStatus{}), err
}

// RiskAcceptance is the body of POST /purser/reconcile.
type RiskAcceptance struct {
	AcceptRisk bool   `json:"accept_risk"`
	By         string `json:"by"` // name of the operator
}

func (p *Purser) acceptRisk(r *http.Request, said RiskAcceptance) (any, error) {
	if !said.AcceptRisk {
		return nil, Errorf(http.StatusBadRequest, "accept_risk: true, or nothing is to be done")
	}
	if err := p.Payer.AcceptRisk(r.Context(), said.By); err != nil {
		return nil, err
	}
	return p.reconcile(r)
}
