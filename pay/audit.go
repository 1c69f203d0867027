package pay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// ActorKind says how an actor came to change something.
type ActorKind string

// The kinds of actors.
const (
	ActorOperator      ActorKind = "operator"      // through the admin endpoint
	ActorAccount       ActorKind = "account"       // signed in to the dashboard
	ActorConfiguration ActorKind = "configuration" // a start, by what the operator has configured
	ActorPurser        ActorKind = "purser"        // by itself, as the operator has configured it
)

// Actor names the person or the part of purser that changes something on purpose.
type Actor struct {
	Kind ActorKind `json:"Kind,omitempty"`
	// ID is an account's, or the name that an operator's tool gives; "" if it gives none.
	ID string `json:"ID,omitempty"`
}

// String names the actor on one line.
func (a Actor) String() string { return strings.TrimSpace(string(a.Kind) + " " + a.ID) }

// Operator returns the operator that a tool works for. A name that cannot be shown is dropped.
func Operator(name string) Actor {
	if !oneLine(name, maxBy) {
		name = ""
	}
	return Actor{Kind: ActorOperator, ID: name}
}

type actorKey struct{}

// WithActor names the actor of all changes under a context. Each change is written into the audit, in
// the transaction that makes it. Changes without an actor, such as those of API clients, are not.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor that WithActor named.
func ActorOf(ctx context.Context) (Actor, bool) {
	a, ok := ctx.Value(actorKey{}).(Actor)
	return a, ok
}

// WithActorIfNone names the actor of a context that has none.
func WithActorIfNone(ctx context.Context, a Actor) context.Context {
	if _, ok := ActorOf(ctx); ok {
		return ctx
	}
	return WithActor(ctx, a)
}

// Action names what was changed.
type Action string

// The actions of the audit.
const (
	ActionKeyCreate       Action = "key.create"
	ActionKeyPolicy       Action = "key.policy"
	ActionKeyLink         Action = "key.link"
	ActionKeyAdopt        Action = "key.adopt" // the configuration names a key of an API client
	ActionKeyPause        Action = "key.pause"
	ActionKeyResume       Action = "key.resume"
	ActionKeyRevoke       Action = "key.revoke"
	ActionKeyReissue      Action = "key.reissue"
	ActionKeyEndOverlap   Action = "key.end-overlap"
	ActionWalletCreate    Action = "wallet.create"
	ActionWalletImport    Action = "wallet.import"
	ActionWalletExport    Action = "wallet.export"
	ActionWalletDelete    Action = "wallet.delete"
	ActionWalletWithdraw  Action = "wallet.withdraw"
	ActionWalletApprove   Action = "wallet.approve"
	ActionWalletRestore   Action = "wallet.restore"
	ActionWalletShare     Action = "wallet.share"
	ActionWalletUnshare   Action = "wallet.unshare"
	ActionDeployment      Action = "wallet.deployment" // the operator's keys draw from it from now on
	ActionPlan            Action = "organization.plan"
	ActionPauseAll        Action = "pause"
	ActionResumeAll       Action = "resume"
	ActionPaymentResolve  Action = "payment.resolve"
	ActionPaymentCancel   Action = "payment.cancel"
	ActionApprovalApprove Action = "approval.approve"
	ActionApprovalDeny    Action = "approval.deny"
	ActionReconcileAccept Action = "reconcile.accept"
	ActionRPCTrust        Action = "rpc.trust" // an RPC's next safe block is taken on trust
	ActionDataKeyRotate   Action = "data-key.rotate"
	ActionMasterKeyRotate Action = "master-key.rotate"
)

// AuditEntry records one change: what differs, as JSON objects, and never a secret.
type AuditEntry struct {
	// Number is given by the store: each entry has a higher one than those before.
	Number uint64    `json:"Number"`
	At     time.Time `json:"At"`
	By     Actor     `json:"By"`
	Action Action    `json:"Action"`
	// What was changed; "" where it has nothing to do with the change.
	KeyID          string          `json:"KeyID,omitempty"`
	OrganizationID string          `json:"OrganizationID,omitempty"`
	WalletID       string          `json:"WalletID,omitempty"`
	PaymentID      string          `json:"PaymentID,omitempty"`
	Old            json.RawMessage `json:"Old,omitempty"`
	New            json.RawMessage `json:"New,omitempty"`
}

// AuditQuery selects entries, newest first.
type AuditQuery struct {
	KeyID, OrganizationID string // at most one of them; none: all entries
	Before                uint64 // number of the last entry of the page before; 0 for the first
	Limit                 int    // at most 1,000
}

// Audit keeps the entries.
type Audit interface {
	// AuditEntries lists entries, newest first, at a cost of those that it lists.
	AuditEntries(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// Change holds the material of an entry.
type Change struct {
	Action                                     Action
	KeyID, OrganizationID, WalletID, PaymentID string
	old, new                                   any // whose JSON objects are compared; nil: nothing
}

// Entry builds the entry of a change: nil without an actor, or if nothing differs.
func (c Change) Entry(ctx context.Context, at time.Time) (*AuditEntry, error) {
	by, ok := ActorOf(ctx)
	if !ok {
		return nil, nil
	}
	was, now, err := differing(c.old, c.new)
	if err != nil {
		return nil, fmt.Errorf("audit of %s: %w", c.Action, err)
	}
	if was == nil && now == nil {
		return nil, nil
	}
	return &AuditEntry{
		At: at.UTC(), By: by, Action: c.Action,
		KeyID: c.KeyID, OrganizationID: c.OrganizationID, WalletID: c.WalletID, PaymentID: c.PaymentID, Old: was, New: now,
	}, nil
}

// differing returns the members that two objects do not have alike; nil for an object without any.
func differing(was, now any) (before, after json.RawMessage, err error) {
	a, err := members(was)
	if err != nil {
		return nil, nil, err
	}
	b, err := members(now)
	if err != nil {
		return nil, nil, err
	}
	for name, value := range a {
		if other, there := b[name]; there && bytes.Equal(value, other) {
			delete(a, name)
			delete(b, name)
		}
	}
	if before, err = object(a); err != nil {
		return nil, nil, err
	}
	after, err = object(b)
	return before, after, err
}

func members(v any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var list map[string]json.RawMessage
	err = json.Unmarshal(text, &list)
	return list, err
}

func object(list map[string]json.RawMessage) (json.RawMessage, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return json.Marshal(list)
}

// auditedKey holds what the audit tells of a key.
type auditedKey struct {
	Label          string                   `json:"label"`
	OrganizationID string                   `json:"organization_id"`
	Operator       bool                     `json:"operator,omitempty"`
	Policy         *policy.Policy           `json:"policy"`
	Paused         *auditedPause            `json:"paused,omitempty"`
	PausedHosts    map[string]*auditedPause `json:"paused_hosts,omitempty"`
	Reissued       time.Time                `json:"reissued_at,omitzero"`
	EarlierUntil   time.Time                `json:"earlier_secret_until,omitzero"`
	Revoked        time.Time                `json:"revoked_at,omitzero"`
	Parent         string                   `json:"parent,omitempty"`
}

type auditedPause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

func pauseToAudit(p *Pause) *auditedPause {
	if p == nil {
		return nil
	}
	return &auditedPause{p.At, p.Reason}
}

func keyToAudit(k Key) auditedKey {
	var hosts map[string]*auditedPause
	for host, p := range k.PausedHosts {
		if hosts == nil {
			hosts = map[string]*auditedPause{}
		}
		hosts[host] = pauseToAudit(&p)
	}
	told := auditedKey{
		Label: k.Label, OrganizationID: k.OrganizationID, Operator: k.Operator, Policy: k.Policy, Paused: pauseToAudit(k.Paused), PausedHosts: hosts,
		Reissued: k.Reissued, Revoked: k.RevokedAt, Parent: k.Parent,
	}
	if k.Overlap != nil {
		told.EarlierUntil = k.Overlap.Until
	}
	return told
}

// KeyCreated describes the making of a key.
func KeyCreated(k Key) Change {
	return Change{Action: ActionKeyCreate, KeyID: k.ID, OrganizationID: k.OrganizationID, new: keyToAudit(k)}
}

// KeyChanged describes a change of a key.
func KeyChanged(a Action, was, now Key) Change {
	return Change{Action: a, KeyID: now.ID, OrganizationID: now.OrganizationID, old: keyToAudit(was), new: keyToAudit(now)}
}

// Action returns the audit's word for the stop.
func (s Stop) Action() Action { return Action("key." + string(s)) }

// WalletCreated describes the making or the import of a wallet.
func WalletCreated(w NewWallet, of Key) Change {
	action := ActionWalletCreate
	if w.Imported {
		action = ActionWalletImport
	}
	return WalletChanged(action, w.Wallet, of)
}

// WalletChanged describes what happens to a wallet without a change of its address: it is restored or
// exported, it becomes the deployment's, or it is lent to a key or taken back from it.
func WalletChanged(a Action, w Wallet, of Key) Change {
	c := Change{Action: a, KeyID: of.ID, OrganizationID: of.OrganizationID, WalletID: w.ID}
	if a == ActionWalletDelete || a == ActionWalletUnshare {
		c.old = walletToAudit(w)
	} else {
		c.new = walletToAudit(w)
	}
	return c
}

// PaymentBegun describes the making of a payment. Those of callers are in the books only.
func PaymentBegun(p *Payment) Change {
	if p.Door != policy.DoorOperator {
		return Change{}
	}
	return Change{
		Action: ActionWalletWithdraw, KeyID: p.KeyID, OrganizationID: p.OrganizationID, WalletID: p.WalletID, PaymentID: p.ID,
		new: map[string]any{"to": p.Terms.PayTo, "amount": p.Terms.Amount, "currency": p.Currency, "network": p.Terms.Network},
	}
}

func walletToAudit(w Wallet) any {
	shown := map[string]any{"network": w.Network}
	if w.Address != nil {
		shown["address"] = w.Address
	}
	return shown
}

// WalletApproving describes an operator's order to let Permit2 move tokens. Higher fees of the same
// transaction are no change.
func WalletApproving(was *Approving, now Wallet, of Key) Change {
	a := now.Approving
	if was != nil && was.Amount == a.Amount && was.Terms.Nonce == a.Terms.Nonce {
		return Change{}
	}
	return Change{
		Action: ActionWalletApprove, KeyID: of.ID, OrganizationID: of.OrganizationID, WalletID: now.ID,
		new: map[string]any{"spender": x402.Permit2, "amount": a.Amount, "network": now.Network, "nonce": a.Terms.Nonce},
	}
}

// PlanChanged describes a change of an organization's plan.
func PlanChanged(orgID string, was, now PlanName) Change {
	return Change{Action: ActionPlan, OrganizationID: orgID, old: map[string]any{"plan": was}, new: map[string]any{"plan": now}}
}

// AllPaused describes a change of the pause of everything.
func AllPaused(was, now *Pause) Change {
	shown := func(p *Pause) any { return map[string]any{"paused": pauseToAudit(p)} }
	c := Change{Action: ActionPauseAll, old: shown(was), new: shown(now)}
	if now == nil {
		c.Action = ActionResumeAll
	}
	return c
}

// PaymentResolved describes an operator's ruling on a payment.
func PaymentResolved(was, now *Payment) Change {
	shown := func(p *Payment) any {
		v := map[string]any{"state": p.State, "unresolved": p.Unresolved, "transaction": p.Transaction}
		if p.Resolution != nil {
			v["reason"] = p.Resolution.Reason
		}
		return v
	}
	return Change{
		Action: ActionPaymentResolve, KeyID: now.KeyID, OrganizationID: now.OrganizationID, PaymentID: now.ID, old: shown(was), new: shown(now),
	}
}

// PaymentCanceling describes an operator's order to cancel a payment's authorization. Terms of further
// transactions are no change.
func PaymentCanceling(was, now *Payment) Change {
	shown := func(p *Payment) any {
		return map[string]any{"canceling": p.Canceling != nil, "handed_out": p.Canceling != nil && p.Canceling.HandedOut}
	}
	return Change{
		Action: ActionPaymentCancel, KeyID: now.KeyID, OrganizationID: now.OrganizationID, WalletID: now.WalletID, PaymentID: now.ID,
		old: shown(was), new: shown(now),
	}
}

// ApprovalAnswered describes a person's answer to an approval.
func ApprovalAnswered(a Approval) Change {
	action := ActionApprovalApprove
	if a.Answer == Denied {
		action = ActionApprovalDeny
	}
	shown := map[string]any{
		"approval": a.ID, "url": a.URL, "to": a.Terms.PayTo, "amount": a.Terms.Amount, "currency": a.Currency, "network": a.Terms.Network,
		"rule": a.Rule,
	}
	if a.Reason != "" {
		shown["reason"] = a.Reason
	}
	return Change{Action: action, KeyID: a.KeyID, OrganizationID: a.OrganizationID, new: shown}
}

// RiskAccepted describes an operator's word that a restored store need not be reconciled to its end.
func RiskAccepted(a Acceptance) Change {
	return Change{Action: ActionReconcileAccept, new: map[string]any{"accepted_at": a.At}}
}

// RPCTrusted describes the forgetting of the safe block that was kept for a network.
func RPCTrusted(network string, was ChainBlock) Change {
	return Change{Action: ActionRPCTrust, old: map[string]any{"network": network, "block": was.Number, "hash": was.Hash}}
}

// DataKeyRotated describes the making of a data key, by the versions of the newest one.
func DataKeyRotated(was, now uint32) Change {
	return Change{Action: ActionDataKeyRotate, old: map[string]any{"data_key": was}, new: map[string]any{"data_key": now}}
}

// MasterKeyRotated describes a step of the rotation of the master key.
func MasterKeyRotated(step string) Change {
	return Change{Action: ActionMasterKeyRotate, new: map[string]any{"master_key": step}}
}
