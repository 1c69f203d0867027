package caddymodule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

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

var plansOption = option{name: "plans", variable: "PURSER_PLANS"}

// resolvePlans reads the table of plans, and whether there are any.
func (a *App) resolvePlans(s *settings) error {
	switch plans, err := plansOption.or(a.Plans, "on"); {
	case err != nil:
		return err
	case plans == off:
		s.noPlans = true
	case plans != "on":
		return plansOption.errorf("%q is neither on nor off", plans)
	}
	for given, o := range a.PlanTable {
		name, err := pay.ParsePlan(given)
		if err != nil {
			return option{name: "plan"}.errorf("%w", err)
		}
		if _, twice := s.plans[name]; twice {
			return option{name: "plan " + given}.errorf("is given twice")
		}
		p := pay.Plan{Name: name}
		if p.Price, err = o.option(given, "price").value(o.Price); err != nil {
			return err
		}
		for _, limit := range []struct {
			name, given string
			into        *int
		}{{"keys", o.Keys, &p.Keys}, {"wallets", o.Wallets, &p.Wallets}, {"payments", o.Payments, &p.Payments}} {
			of := o.option(given, limit.name)
			v, err := of.value(limit.given)
			if err != nil {
				return err
			}
			if v == "" {
				continue
			}
			if *limit.into, err = strconv.Atoi(v); err != nil || *limit.into < 1 {
				return of.errorf("%q is not a positive number", v)
			}
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

func (PlanOptions) option(plan, name string) option { return option{name: "plan " + plan + " " + name} }

// parsePlan reads the limits of one plan:
//
//	plan <name> {
//	    price    <US dollars>
//	    keys     <number>
//	    wallets  <number>
//	    payments <number>
//	}
func parsePlan(d *caddyfile.Dispenser, into *map[string]PlanOptions) error {
	var name string
	if !d.AllArgs(&name) {
		return d.ArgErr()
	}
	known, err := pay.ParsePlan(name)
	if err != nil {
		return d.WrapErr(err)
	}
	name = strings.ToLower(string(known))
	if _, twice := (*into)[name]; twice {
		return d.Errf("plan %s is set twice", name)
	}
	var o PlanOptions
	options := map[string]*string{"price": &o.Price, "keys": &o.Keys, "wallets": &o.Wallets, "payments": &o.Payments}
	if err := parseOptions(d, options); err != nil {
		return err
	}
	if o == (PlanOptions{}) {
		return d.Errf("plan %s changes nothing", name)
	}
	if *into == nil {
		*into = map[string]PlanOptions{}
	}
	(*into)[name] = o
	return nil
}
