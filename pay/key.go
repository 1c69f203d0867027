package pay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/policy"
)

// Key describes an API key. Stores find it by a keyed hash of its secret.
type Key struct {
	ID    string `json:"ID"`    // UUIDv7
	Label string `json:"Label"` // 0 to 200 characters
	// OrganizationID is empty while the key is unclaimed.
	OrganizationID string    `json:"OrganizationID"`
	Created        time.Time `json:"Created"`
	// Operator marks a key that the operator made or configured. The configured limits hold for
	// it at every door, and no plan bounds its payments. A key never loses the mark.
	Operator bool `json:"Operator,omitempty"`
	// Policy limits what this key may spend; nil means the defaults of the door.
	Policy *policy.Policy `json:"Policy,omitempty"`
	// PolicyRevision counts changes of policy, owner, pause and operator mark. By it, a payment
	// that is about to be journaled knows whether it was judged by those in force.
	PolicyRevision uint64 `json:"PolicyRevision,omitempty"`
	// Paused: the key makes no new payment, and repeats of earlier ones are served.
	Paused *Pause `json:"Paused,omitempty"`
	// PausedHosts holds the pauses of single hosts, by [Payment.Host]: the key makes no new payment to them.
	PausedHosts map[string]Pause `json:"PausedHosts,omitempty"`
	// Parent is the id of the key whose budgets this one shares; "": it has none. It is set when the key is made, and
	// never changes. See [Key.Child].
	Parent string `json:"Parent,omitempty"`
	// HasChildren: a key was made with this one as its parent.
	HasChildren bool `json:"HasChildren,omitempty"`
	// Exec marks the key that `purser exec` pays with. A copy of its secret is kept, encrypted.
	Exec bool `json:"Exec,omitempty"`
	// Reissued holds when the present secret took the place of an earlier one; zero: it is the first.
	Reissued time.Time `json:"Reissued,omitzero"`
	// Overlap is there while the secret before the present one works, and may be there longer.
	Overlap *Overlap `json:"Overlap,omitempty"`
	// RevokedAt holds when the key was revoked for ever; zero: it is not.
	RevokedAt time.Time `json:"RevokedAt,omitzero"`
	// Used holds the last use at each door, at most UseEvery too early. A door without one was not used.
	Used map[policy.Door]time.Time `json:"Used,omitempty"`

	// Ends is not stored. It holds when the secret that found the key stops working: that of an overlap.
	Ends time.Time `json:"-"`
}

// Revoked reports whether the key resolves nowhere any more.
func (k Key) Revoked() bool { return !k.RevokedAt.IsZero() }

// Relays reports whether a key may use a proxy that strangers reach, also for requests that cost
// nothing: the operator answers for it, or an organization, or an operator has opened the proxy to it.
// No one answers for a key that a stranger made.
func (k Key) Relays() bool {
	return k.Operator || k.Claimed() || k.Policy != nil && slices.Contains(k.Policy.Doors, policy.DoorProxy)
}

// Kept reports whether the store keeps a copy of the key's secret, encrypted.
func (k Key) Kept() bool { return k.Claimed() || k.Exec }

// Claimed reports whether the key belongs to an organization.
func (k Key) Claimed() bool { return k.OrganizationID != "" }

// Owner returns the owner of the monthly count: the key's organization once claimed, else the key.
func (k Key) Owner() string {
	if k.Claimed() {
		return "org/" + k.OrganizationID
	}
	return "key/" + k.ID
}

// NewKey holds the input of creating a key.
type NewKey struct {
	Key
	// Secret is the plaintext. Stores keep an encrypted copy if [Key.Kept] says so.
	Secret string
	// Plan is that of the OrganizationID from now on. Empty: a known organization keeps its plan,
	// and an unknown one gets PlanFree (docs/design/surfaces.md).
	Plan PlanName
	// Plans says how many keys an organization may have.
	Plans Plans
}

// Join returns the organization of a new claimed key as the key leaves it. A store calls it inside the
// transaction that writes. keys are the organization's keys; known reports whether it exists. ErrKeyLimit.
func (k NewKey) Join(org Organization, known bool, keys []Key) (Organization, error) {
	if !known {
		org = Organization{ID: k.OrganizationID, Plan: PlanFree, Created: k.Created}
	}
	if k.Plan != "" {
		org.Plan = k.Plan
	}
	if KeysUsed(keys) >= k.Plans.Of(org.Plan).Keys {
		return org, ErrKeyLimit
	}
	return org, nil
}

// Organization groups claimed keys under one plan.
type Organization struct {
	ID      string    `json:"ID"` // 1 to 200 visible characters
	Plan    PlanName  `json:"Plan"`
	Created time.Time `json:"Created"`
}

// KeyPrefix starts every generated key.
const KeyPrefix = "pk_"

// ValidSecret reports whether s can be an API key (docs/design/surfaces.md).
func ValidSecret(s string) bool {
	return len(s) >= 8 && len(s) <= 256 && strings.Trim(s, secretAlphabet) == ""
}

const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/=-"

// Resolve finds the key with this secret: ErrKeyNotFound, also for a revoked key and the child of one.
func (p *Payer) Resolve(ctx context.Context, secret string) (Key, error) {
	if !ValidSecret(secret) {
		return Key{}, ErrKeyNotFound
	}
	k, err := p.store.KeyBySecret(ctx, secret)
	if k, err = Found(k, err, p.now()); err == nil && k.Revoked() {
		return Key{}, ErrKeyNotFound
	}
	if err != nil {
		return k, err
	}
	if _, err := p.parentOf(ctx, k); err != nil {
		return Key{}, err
	}
	return k, nil
}

// Found reads what a store says of a secret: that of an overlap finds its key until the overlap's end.
func Found(k Key, err error, now time.Time) (Key, error) {
	earlier, is := errors.AsType[*EarlierSecretError](err)
	if !is {
		return k, err
	}
	k = earlier.Key
	if k.Ends = k.EarlierUntil(now); k.Ends.IsZero() {
		return Key{}, ErrSecretReplaced
	}
	return k, nil
}
