package pay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/words"
)

// PlanName is the name of a plan as stored: upper case.
type PlanName string

// The names of the plans.
const (
	PlanFree      PlanName = "FREE"
	PlanDeveloper PlanName = "DEVELOPER"
	PlanAgency    PlanName = "AGENCY"
)

// ParsePlan reads a plan's name in any case.
func ParsePlan(s string) (PlanName, error) {
	name := PlanName(strings.ToUpper(s))
	if defaultPlan(name).Name == name {
		return name, nil
	}
	return "", fmt.Errorf("unknown plan %q: FREE, DEVELOPER or AGENCY", words.Truncate(s, 40))
}

// Plan holds the limits of an organization.
type Plan struct {
	Name     PlanName
	Price    string // US dollars a month, decimal: "20", "19.50"
	Keys     int    // claimed keys per organization
	Wallets  int    // live wallets per organization
	Payments int    // payments per calendar month (UTC)
}

// UnclaimedWallets bounds the live wallets of an unclaimed key (docs/design/surfaces.md).
const UnclaimedWallets = 100

// Plans is a deployment's table of plans. Whatever is missing in it is that of the shipped plans.
type Plans map[PlanName]Plan

// shippedPlans lists all plans, smallest first.
var shippedPlans = []Plan{
	{Name: PlanFree, Price: "0", Keys: 3, Wallets: 3, Payments: 3_000},
	{Name: PlanDeveloper, Price: "20", Keys: 10, Wallets: 10, Payments: 10_000},
	{Name: PlanAgency, Price: "200", Keys: 150, Wallets: 150, Payments: 150_000},
}

// defaultPlan returns a shipped plan, the free one for an unknown name.
func defaultPlan(name PlanName) Plan {
	i := slices.IndexFunc(shippedPlans, func(p Plan) bool { return p.Name == name })
	return shippedPlans[max(i, 0)]
}

// Of returns a plan by its name, the free one for an unknown name.
func (t Plans) Of(name PlanName) Plan {
	d := defaultPlan(name)
	p := t[d.Name]
	return Plan{
		Name: d.Name, Price: cmp.Or(p.Price, d.Price),
		Keys: cmp.Or(p.Keys, d.Keys), Wallets: cmp.Or(p.Wallets, d.Wallets), Payments: cmp.Or(p.Payments, d.Payments),
	}
}

// freeRevoked bounds the revoked keys of an organization that take no place of its plan: as many
// replacements are free, and the list of its keys stays short.
const freeRevoked = 100

// KeysUsed counts the keys of an organization that take a place of its plan.
func KeysUsed(keys []Key) int {
	revoked := 0
	for _, k := range keys {
		if k.Revoked() {
			revoked++
		}
	}
	return len(keys) - min(revoked, freeRevoked)
}

// Unclaimed returns the most payments of an unclaimed key in a month: those of the free plan.
func (t Plans) Unclaimed() int { return t.Of(PlanFree).Payments }

// List returns every plan, smallest first.
func (t Plans) List() []Plan {
	list := slices.Clone(shippedPlans)
	for i, p := range list {
		list[i] = t.Of(p.Name)
	}
	return list
}

// Bounds of a plan. Keys and wallets of one organization are counted one by one.
const (
	maxPlanKeys     = 1_000
	maxPlanWallets  = 10_000
	maxPlanPayments = 1_000_000_000
)

// Validate names the first plan or limit that cannot be. A zero limit is not set.
func (t Plans) Validate() error {
	for name, p := range t {
		if _, err := ParsePlan(string(name)); err != nil || name != PlanName(strings.ToUpper(string(name))) {
			return fmt.Errorf("plan %q: it is FREE, DEVELOPER or AGENCY", words.Truncate(string(name), 40))
		}
		if p.Name != "" && p.Name != name {
			return fmt.Errorf("plan %s is named %q", name, words.Truncate(string(p.Name), 40))
		}
		if p.Price != "" && !validPrice(p.Price) {
			return fmt.Errorf("plan %s: price %q is not an amount of US dollars such as 20 or 19.50", name, words.Truncate(p.Price, 40))
		}
		for _, limit := range []struct {
			of      string
			n, most int
		}{{"keys", p.Keys, maxPlanKeys}, {"wallets", p.Wallets, maxPlanWallets}, {"payments", p.Payments, maxPlanPayments}} {
			if limit.n < 0 || limit.n > limit.most {
				return fmt.Errorf("plan %s: %s is %d, and may be 1 to %d", name, limit.of, limit.n, limit.most)
			}
		}
	}
	return nil
}

// validPrice: up to six digits of dollars, and cents if any.
func validPrice(s string) bool {
	dollars, cents, decimal := strings.Cut(s, ".")
	digits := func(s string, least, most int) bool {
		return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
	}
	return digits(dollars, 1, 6) && (!decimal || digits(cents, 1, 2))
}

// InForce returns the table that holds: complete, or, with plans off, with the highest limits.
func (t Plans) InForce(off bool) (Plans, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	all := Plans{}
	for _, p := range t.List() {
		if off {
			p = Plan{Name: p.Name, Keys: maxPlanKeys, Wallets: maxPlanWallets, Payments: maxPlanPayments}
		}
		all[p.Name] = p
	}
	return all, nil
}
