package books

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// Usage holds how much of its plan an organization uses.
type Usage struct {
	Plan     pay.Plan
	Keys     int
	Wallets  int // live ones; linked keys may bring more than the plan allows
	Payments int // counted in this month's quota
	// Month begins the counted month, Resets the next one (UTC).
	Month, Resets time.Time
}

// Plans returns the complete table of plans in force. Callers must not change it.
func (b *Books) Plans() pay.Plans { return b.plans }

// HasPlans reports whether plans bound payments: see [Options.NoPlans].
func (b *Books) HasPlans() bool { return !b.noPlans }

// SetPlan moves an organization to a plan. Keys and wallets beyond the plan stay. Payments that are
// journaled afterwards are judged by the new plan. ErrOrganizationNotFound, *InputError.
func (b *Books) SetPlan(ctx context.Context, orgID string, plan pay.PlanName) (pay.Organization, error) {
	plan, err := pay.ParsePlan(string(plan))
	if err != nil {
		return pay.Organization{}, &pay.InputError{Field: "plan", Reason: err.Error()}
	}
	org, err := b.store.SetPlan(ctx, orgID, plan)
	if err == nil {
		b.log.Info("plan set", "organization", org.ID, "plan", org.Plan)
	}
	return org, err
}

// Usage counts how much of its plan an organization uses.
func (b *Books) Usage(ctx context.Context, orgID string) (Usage, error) {
	org, err := b.reader.Organization(ctx, orgID)
	if err != nil {
		return Usage{}, err
	}
	keys, err := b.reader.OrganizationKeys(ctx, orgID)
	if err != nil {
		return Usage{}, err
	}
	owner := pay.Key{OrganizationID: orgID}
	wallets, err := b.reader.WalletCount(ctx, owner)
	if err != nil {
		return Usage{}, err
	}
	now := b.now().UTC()
	payments, err := b.reader.Counter(ctx, pay.PlaceCounter(owner.Owner(), now))
	if err != nil {
		return Usage{}, err
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Usage{
		Plan: b.plans.Of(org.Plan), Keys: pay.KeysUsed(keys), Wallets: wallets, Payments: int(payments.Big().Int64()),
		Month: month, Resets: month.AddDate(0, 1, 0),
	}, nil
}

// LinkKey claims the unclaimed key with this secret for an organization. ErrKeyNotFound,
// ErrKeyLinked, ErrKeyClaimed, ErrKeyLimit, ErrOrganizationNotFound.
func (b *Books) LinkKey(ctx context.Context, orgID, secret string) (pay.Key, error) {
	if !pay.ValidSecret(secret) {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	k, err := b.store.LinkKey(ctx, pay.Link{Secret: secret, OrganizationID: orgID, Plans: b.plans})
	if err == nil {
		b.log.Info("API key linked", "key", k.ID, "organization", orgID)
	}
	return k, err
}

// RevealKey returns the plaintext of one of a scope's keys, and logs that: ErrKeyNotFound,
// ErrNotRevealable.
func (b *Books) RevealKey(ctx context.Context, s Scope, keyID string) (string, error) {
	if _, err := b.KeyIn(ctx, s, keyID); err != nil {
		return "", err
	}
	secret, err := b.store.RevealKey(ctx, keyID)
	if err == nil {
		b.log.Warn("API key revealed", "key", keyID, "to", s.String())
	}
	return secret, err
}
