package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/x402"
)

// Usage is how much of its plan an organization uses.
type Usage struct {
	Plan     Plan
	Keys     int
	Wallets  int // live ones; more than the plan has if linked keys brought them
	Payments int // that have a place in this month's count
	// Month is when the month of the count began, Resets when the next one does (UTC).
	Month, Resets time.Time
}

// Plans is the table of plans in force, with nothing missing.
func (p *Payer) Plans() Plans { return p.opts.Plans.complete() }

// HasPlans reports whether plans bound payments: see [Options.NoPlans].
func (p *Payer) HasPlans() bool { return !p.opts.NoPlans }

// Organization finds an organization; one that does not exist has the free plan.
func (p *Payer) Organization(ctx context.Context, id string) (Organization, error) {
	return p.store.Organization(ctx, id)
}

// Organizations lists organizations by id from behind the id after ("" is the beginning); at
// most 1,000 at a time.
func (p *Payer) Organizations(ctx context.Context, after string, limit int) ([]Organization, error) {
	return p.store.Organizations(ctx, after, limit)
}

// SetPlan moves an organization to a plan. What it has beyond the plan stays, and no payment
// that is journaled afterwards goes by the plan before. ErrOrganizationNotFound, *InputError.
func (p *Payer) SetPlan(ctx context.Context, orgID string, plan PlanName) (Organization, error) {
	plan, err := ParsePlan(string(plan))
	if err != nil {
		return Organization{}, &InputError{Field: "plan", Reason: err.Error()}
	}
	org, err := p.store.SetPlan(ctx, orgID, plan)
	if err == nil {
		p.log.Info("plan set", "organization", org.ID, "plan", org.Plan)
	}
	return org, err
}

// Usage is what an organization has of its plan.
func (p *Payer) Usage(ctx context.Context, orgID string) (Usage, error) {
	org, err := p.store.Organization(ctx, orgID)
	if err != nil {
		return Usage{}, err
	}
	keys, err := p.store.OrganizationKeys(ctx, orgID)
	if err != nil {
		return Usage{}, err
	}
	owner := Key{OrganizationID: orgID}
	wallets, err := p.store.WalletCount(ctx, owner)
	if err != nil {
		return Usage{}, err
	}
	now := p.now().UTC()
	payments, err := p.store.Counter(ctx, PlaceCounter(owner.Owner(), now))
	if err != nil {
		return Usage{}, err
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Usage{
		Plan: p.opts.Plans.Of(org.Plan), Keys: KeysUsed(keys), Wallets: wallets, Payments: int(payments.Big().Int64()),
		Month: month, Resets: month.AddDate(0, 1, 0),
	}, nil
}

// OrganizationKeys lists an organization's keys, oldest first.
func (p *Payer) OrganizationKeys(ctx context.Context, orgID string) ([]Key, error) {
	return p.store.OrganizationKeys(ctx, orgID)
}

// OrganizationKey finds one of an organization's keys: ErrKeyNotFound, also for another's.
func (p *Payer) OrganizationKey(ctx context.Context, orgID, keyID string) (Key, error) {
	k, err := p.store.Key(ctx, keyID)
	if err == nil && (orgID == "" || k.OrganizationID != orgID) {
		err = ErrKeyNotFound
	}
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// LinkKey claims the unclaimed key with this secret for an organization. From then on its
// payments count for the organization. ErrKeyNotFound, ErrKeyLinked, ErrKeyClaimed,
// ErrKeyLimit, ErrOrganizationNotFound.
func (p *Payer) LinkKey(ctx context.Context, orgID, secret string) (Key, error) {
	if !ValidSecret(secret) {
		return Key{}, ErrKeyNotFound
	}
	k, err := p.store.LinkKey(ctx, Link{Secret: secret, OrganizationID: orgID, Plans: p.opts.Plans})
	if err == nil {
		p.log.Info("API key linked", "key", k.ID, "organization", orgID)
	}
	return k, err
}

// RevealKey gives the plaintext of one of an organization's keys, and logs that it did.
// ErrKeyNotFound, also for another's.
func (p *Payer) RevealKey(ctx context.Context, orgID, keyID string) (string, error) {
	if _, err := p.OrganizationKey(ctx, orgID, keyID); err != nil {
		return "", err
	}
	secret, err := p.store.RevealKey(ctx, keyID)
	if err == nil {
		p.log.Warn("API key revealed", "key", keyID, "organization", orgID)
	}
	return secret, err
}

// OrganizationWallets lists the live wallets of an organization's keys, oldest first.
func (p *Payer) OrganizationWallets(ctx context.Context, orgID string) ([]Wallet, error) {
	return p.store.OrganizationWallets(ctx, orgID)
}

// OrganizationWallet finds a live wallet of an organization's keys: ErrWalletNotFound, also
// for another's.
func (p *Payer) OrganizationWallet(ctx context.Context, orgID, id string) (Wallet, error) {
	w, err := p.store.Wallet(ctx, id)
	if err != nil {
		return Wallet{}, err
	}
	_, err = p.OrganizationKey(ctx, orgID, w.KeyID)
	if errors.Is(err, ErrKeyNotFound) || err == nil && w.Deleted != nil {
		err = ErrWalletNotFound
	}
	if err != nil {
		return Wallet{}, err
	}
	return w, nil
}

// WalletBalance is what a wallet holds, in the smallest unit of its network's asset, at most
// some seconds ago. It takes a few seconds at most, and fails at once while the RPC keeps
// failing. ErrNoAddress, ErrNoChain.
func (p *Payer) WalletBalance(ctx context.Context, w Wallet) (x402.Amount, error) {
	return p.walletBalance(ctx, w, asRemembered)
}

// WalletBalanceNow is WalletBalance as the chain tells now: for operators, who look because
// something has just changed. They have the RPC asked for a wallet once in a second at most.
func (p *Payer) WalletBalanceNow(ctx context.Context, w Wallet) (x402.Amount, error) {
	return p.walletBalance(ctx, w, afreshToShow)
}

func (p *Payer) walletBalance(ctx context.Context, w Wallet, age freshness) (x402.Amount, error) {
	n, ok := p.network(w.Network)
	switch {
	case w.Address == nil:
		return x402.Amount{}, ErrNoAddress
	case p.opts.Chain == nil, !ok:
		return x402.Amount{}, ErrNoChain
	}
	have, _, err := p.balanceSoon(ctx, choice{wallet: w, network: n, asset: n.Assets[0]}, p.slowView, age)
	if errors.Is(err, errUnwatched) {
		return x402.Amount{}, fmt.Errorf("%w: %w", ErrNoChain, err)
	}
	if err != nil {
		return x402.Amount{}, fmt.Errorf("asking for the balance of wallet %s: %w", w.ID, err)
	}
	return have, nil
}
