package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"
	"fmt"

	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/internal/setting"
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
	on, err := setting.New("plans", "PURSER_PLANS", "on").Is(a.Plans, "on")
	if err != nil {
		return err
	}
	s.noPlans = !on
	for given, o := range a.PlanTable {
		of := "plan " + given
		name, err := pay.ParsePlan(given)
		if err != nil {
			return setting.Named("plan").Errorf("%w", err)
		}
		if _, twice := s.plans[name]; twice {
			return setting.Named(of).Errorf("%w", options.ErrTwice)
		}
		p := pay.Plan{Name: name}
		err = cmp.Or(
			setting.Set(&p.Price, setting.Named(of+" price").Value, o.Price),
			setting.Set(&p.Keys, setting.Named(of+" keys").Positive, o.Keys),
			setting.Set(&p.Wallets, setting.Named(of+" wallets").Positive, o.Wallets),
			setting.Set(&p.Payments, setting.Named(of+" payments").Positive, o.Payments),
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
