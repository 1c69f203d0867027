package caddymodule

import (
	"fmt"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// PolicyOptions limit what keys may spend. Keys that the operator has made have these limits at
// every door, all others at the proxy and the transport. A key's own limits come first. Amounts are
// in USDC; days and months are those of UTC.
type PolicyOptions struct {
	BudgetOptions

	// PerMinute is the largest number of payments that a key begins in a minute, or off. Default:
	// {env.PURSER_PER_MINUTE}, else off.
	PerMinute string `json:"per_minute,omitempty"`
	// PriceGuard holds a payment above this many times what the endpoint was last paid, or
	// off. Default: {env.PURSER_PRICE_GUARD}, else off.
	PriceGuard string `json:"price_guard,omitempty"`

	// AllowHosts, when set, are the only hosts that are paid, separated by commas or spaces:
	// "name", "name:port", "*.example.com". Default: all.
	AllowHosts string `json:"allow_hosts,omitempty"`
	// DenyHosts are not paid in any case. Default: none.
	DenyHosts string `json:"deny_hosts,omitempty"`
	// AllowPayees, when set, are the only addresses that are paid, separated by commas or
	// spaces. Default: all.
	AllowPayees string `json:"allow_payees,omitempty"`
	// DenyPayees are not paid in any case. Default: none.
	DenyPayees string `json:"deny_payees,omitempty"`

	// Hosts have limits of their own, by the patterns of AllowHosts.
	Hosts map[string]BudgetOptions `json:"hosts,omitempty"`
	// Tasks have limits of their own, by their labels; "*" is what all others share.
	Tasks map[string]BudgetOptions `json:"tasks,omitempty"`
}

// BudgetOptions are limits of money, in USDC, or off. Those of hosts and tasks have neither
// variables nor defaults, and hold beside the others.
type BudgetOptions struct {
	// MaxPayment is the most that one request may cost. Default: {env.PURSER_MAX_PAYMENT},
	// else 1.
	MaxPayment string `json:"max_payment,omitempty"`
	// DailyBudget is the most that one key may spend per day. Default:
	// {env.PURSER_DAILY_BUDGET}, else 10.
	DailyBudget string `json:"daily_budget,omitempty"`
	// MonthlyBudget is the most that one key may spend per calendar month. Default:
	// {env.PURSER_MONTHLY_BUDGET}, else off.
	MonthlyBudget string `json:"monthly_budget,omitempty"`
}

var (
	maxPaymentOption    = option{name: "max_payment", variable: "PURSER_MAX_PAYMENT"}
	dailyBudgetOption   = option{name: "daily_budget", variable: "PURSER_DAILY_BUDGET"}
	monthlyBudgetOption = option{name: "monthly_budget", variable: "PURSER_MONTHLY_BUDGET"}
	perMinuteOption     = option{name: "per_minute", variable: "PURSER_PER_MINUTE"}
	priceGuardOption    = option{name: "price_guard", variable: "PURSER_PRICE_GUARD"}
	allowHostsOption    = option{name: "allow_hosts"}
	denyHostsOption     = option{name: "deny_hosts"}
	allowPayeesOption   = option{name: "allow_payees"}
	denyPayeesOption    = option{name: "deny_payees"}
)

const (
	defaultMaxPayment  = "1"
	defaultDailyBudget = "10"
	// off is no limit, also where there would be one by default.
	off = "off"
	// usdcDecimals counts the decimals of USDC on every pinned network.
	usdcDecimals = 6
)

// resolvePolicy reads the limits.
func (a *App) resolvePolicy(s *settings) (err error) {
	o := a.PolicyOptions
	if s.policy.MaxPayment, err = maxPaymentOption.cap(o.MaxPayment, defaultMaxPayment); err != nil {
		return err
	}
	given, err := dailyBudgetOption.value(o.DailyBudget)
	if err != nil {
		return err
	}
	s.dailyGiven = given != ""
	if s.policy.DailyBudget, err = dailyBudgetOption.cap(o.DailyBudget, defaultDailyBudget); err != nil {
		return err
	}
	if s.policy.MonthlyBudget, err = monthlyBudgetOption.cap(o.MonthlyBudget, ""); err != nil {
		return err
	}
	if s.policy.PerMinute, err = perMinuteOption.count(o.PerMinute); err != nil {
		return err
	}
	if s.policy.PriceGuard, err = priceGuardOption.count(o.PriceGuard); err != nil {
		return err
	}
	if err := o.resolveLists(&s.policy); err != nil {
		return err
	}
	if s.policy.Hosts, err = budgets("host", o.Hosts); err != nil {
		return err
	}
	if s.policy.Tasks, err = budgets("task", o.Tasks); err != nil {
		return err
	}
	if err := s.policy.Validate(); err != nil {
		return fmt.Errorf("purser: %w", err)
	}
	return nil
}

func (o PolicyOptions) resolveLists(into *pay.Policy) error {
	for _, l := range []struct {
		option
		given string
		into  *[]string
	}{
		{allowHostsOption, o.AllowHosts, &into.AllowHosts}, {denyHostsOption, o.DenyHosts, &into.DenyHosts},
	} {
		v, err := l.entries(l.given)
		if err != nil {
			return err
		}
		*l.into = v
	}
	for _, l := range []struct {
		option
		given string
		into  *[]x402.Address
	}{
		{allowPayeesOption, o.AllowPayees, &into.AllowPayees}, {denyPayeesOption, o.DenyPayees, &into.DenyPayees},
	} {
		v, err := l.entries(l.given)
		if err != nil {
			return err
		}
		for _, entry := range v {
			address, err := x402.ParseCheckedAddress(entry)
			if err != nil {
				return l.errorf("%q: %w", entry, err)
			}
			*l.into = append(*l.into, address)
		}
	}
	return nil
}

// entries is an option that is a list. One that is set to nothing but separators is a
// mistake: taken for no list at all, it would allow everything.
func (o option) entries(given string) ([]string, error) {
	v, err := o.value(given)
	if err != nil {
		return nil, err
	}
	all := list(v)
	switch {
	case len(all) > 0:
		return all, nil
	case given+v != "":
		return nil, o.errorf("%q names nothing", given+v)
	}
	return nil, nil
}

// budgets are the limits of hosts or tasks.
func budgets(of string, given map[string]BudgetOptions) (map[string]pay.Budget, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := make(map[string]pay.Budget, len(given))
	for name, o := range given {
		var b pay.Budget
		for _, limit := range []struct {
			name  string
			given string
			into  **pay.Cap
		}{
			{"max_payment", o.MaxPayment, &b.MaxPayment},
			{"daily_budget", o.DailyBudget, &b.DailyBudget},
			{"monthly_budget", o.MonthlyBudget, &b.MonthlyBudget},
		} {
			var err error
			if *limit.into, err = (option{name: of + " " + name + " " + limit.name}).cap(limit.given, ""); err != nil {
				return nil, err
			}
		}
		if b == (pay.Budget{}) {
			return nil, option{name: of + " " + name}.errorf("has no limit")
		}
		all[name] = b
	}
	return all, nil
}

// cap is an option in whole USDC, or off, or nil for one that is not set.
func (o option) cap(given, unset string) (*pay.Cap, error) {
	v, err := o.or(given, unset)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == off:
		return pay.NoCap(), nil
	}
	amount, err := x402.ParseUnits(v, usdcDecimals)
	if err != nil {
		return nil, o.errorf("%q is not an amount in USDC like 0.25, and not off: %w", v, err)
	}
	return pay.CapOf(amount), nil
}

// count is an option that is a positive number, or off, which is 0, or nil for one that is
// not set.
func (o option) count(given string) (*int, error) {
	v, err := o.value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == off:
		return new(int), nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return nil, o.errorf("%q is neither a positive number nor off", v)
	}
	return &n, nil
}

// single are the options with one argument each.
func (o *PolicyOptions) single() map[string]*string {
	options := o.BudgetOptions.single()
	options["per_minute"], options["price_guard"] = &o.PerMinute, &o.PriceGuard
	options["allow_hosts"], options["deny_hosts"] = &o.AllowHosts, &o.DenyHosts
	options["allow_payees"], options["deny_payees"] = &o.AllowPayees, &o.DenyPayees
	return options
}

func (o *BudgetOptions) single() map[string]*string {
	return map[string]*string{
		"max_payment": &o.MaxPayment, "daily_budget": &o.DailyBudget, "monthly_budget": &o.MonthlyBudget,
	}
}

// parseBudget reads the limits of one host or task:
//
//	<name> {
//	    max_payment    <usdc>|off
//	    daily_budget   <usdc>|off
//	    monthly_budget <usdc>|off
//	}
func parseBudget(d *caddyfile.Dispenser, into *map[string]BudgetOptions) error {
	var of, name string
	of = d.Val()
	if !d.AllArgs(&name) {
		return d.ArgErr()
	}
	if _, twice := (*into)[name]; twice {
		return d.Errf("%s %s is set twice", of, name)
	}
	var b BudgetOptions
	if err := parseOptions(d, b.single()); err != nil {
		return err
	}
	if b == (BudgetOptions{}) {
		return d.Errf("%s %s has no limit", of, name)
	}
	if *into == nil {
		*into = map[string]BudgetOptions{}
	}
	(*into)[name] = b
	return nil
}
