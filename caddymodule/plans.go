package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/pay"
)

// PlanOptions change a plan of package pay. Options that are not set leave it as it is there.
type PlanOptions struct {
	// Price is shown for the plan: US dollars a month, such as "20" or "19.50". purser charges
	// nothing.
	Price string `json:"price,omitempty"`
	// Keys is the largest number of claimed API keys of an organization.
	Keys string `json:"keys,omitempty"`
	// Wallets is the largest number of its wallets.
	Wallets string `json:"wallets,omitempty"`
	// Payments is the largest number of its payments in a calendar month (UTC).
	Payments string `json:"payments,omitempty"`
}

// resolvePlans reads the table of plans, and whether there are any.
func (a *App) resolvePlans(s *settings) error {
	on, err := option{"plans", "PURSER_PLANS", "on"}.is(a.Plans, "on")
	if err != nil {
		return err
	}
	s.noPlans = !on
	for given, o := range a.PlanTable {
		of := "plan " + given
		name, err := pay.ParsePlan(given)
		if err != nil {
			return option{name: "plan"}.errorf("%w", err)
		}
		if _, twice := s.plans[name]; twice {
			return option{name: of}.errorf("%w", options.ErrTwice)
		}
		p := pay.Plan{Name: name}
		err = cmp.Or(
			set(&p.Price, option{name: of + " price"}.value, o.Price),
			set(&p.Keys, option{name: of + " keys"}.positive, o.Keys),
			set(&p.Wallets, option{name: of + " wallets"}.positive, o.Wallets),
			set(&p.Payments, option{name: of + " payments"}.positive, o.Payments),
		)
		if err != nil {
			return err
		}
		if s.plans == nil {
			s.plans = pay.Plans{}
		}
		s.plans[name] = p
	}
	if err := s.plans.Validate(); err != nil {
		return fmt.Errorf("purser: %w", err)
	}
	return nil
}

// positive is an option that is a positive number; 0 if it is not set.
func (o option) positive(given string) (int, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, o.errorf("%q is not a positive number", v)
	}
	return n, nil
}
