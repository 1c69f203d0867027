package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"
	"fmt"

	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/policy"
)

// PolicyOptions limit what keys may spend. Keys that the operator has made have these limits at
// every door, all others at the proxy and the transport. A key's own limits come first. Amounts are
// in USDC; hours, days, weeks and months are those of UTC.
type PolicyOptions struct {
	BudgetOptions

	// PerMinute is the largest number of payments that a key begins in a minute, or off. Unset, and for
	// plain keys on REST if it is lower, it is 3,000. Default: {env.PURSER_PER_MINUTE}, else 3000.
	PerMinute string `json:"per_minute,omitempty"`
	// PriceGuard holds a payment above this many times what the endpoint was last paid, or
	// off. Default: {env.PURSER_PRICE_GUARD}, else off.
	PriceGuard string `json:"price_guard,omitempty"`

	// AllowHosts, when set, are the only hosts that are paid, separated by commas or spaces:
	// "name", "name:port", "*.example.com". Default: all.
	AllowHosts string `json:"allow_hosts,omitempty" form:"list"`
	// DenyHosts are not paid in any case. Default: none.
	DenyHosts string `json:"deny_hosts,omitempty" form:"list"`
	// SignInHosts are the hosts that purser signs in to before it pays again for what a key has paid
	// there: "name", "name:port", "*.example.com". Default: {env.PURSER_SIGN_IN_HOSTS}, else none.
	SignInHosts string `json:"sign_in_hosts,omitempty" form:"list"`
	// AllowPayees, when set, are the only addresses that are paid, separated by commas or
	// spaces. Default: all.
	AllowPayees string `json:"allow_payees,omitempty" form:"list"`
	// DenyPayees are not paid in any case. Default: none.
	DenyPayees string `json:"deny_payees,omitempty" form:"list"`
	// OfferSigners are the addresses that sign offers and receipts for sellers that are paid at another
	// one, separated by commas or spaces. Default: {env.PURSER_OFFER_SIGNERS}, else none.
	OfferSigners string `json:"offer_signers,omitempty" form:"list"`

	// Hosts have limits of their own, by the patterns of AllowHosts.
	Hosts map[string]BudgetOptions `json:"host,omitempty"`
	// Tasks have limits of their own, by their labels; "*" is what all others share.
	Tasks map[string]BudgetOptions `json:"task,omitempty"`
}

// BudgetOptions are limits of money, in USDC, or off. Limits of hosts and tasks have neither
// variables nor defaults, and hold beside the others.
type BudgetOptions struct {
	// MaxPayment is the most that one request may cost. Default: {env.PURSER_MAX_PAYMENT}, else 1.
	MaxPayment string `json:"max_payment,omitempty"`
	// HourlyBudget is the most that one key may spend per hour by the clock. Default: {env.PURSER_HOURLY_BUDGET}, else off.
	HourlyBudget string `json:"hourly_budget,omitempty"`
	// DailyBudget is the most that one key may spend per day. Default: {env.PURSER_DAILY_BUDGET}, else 10.
	DailyBudget string `json:"daily_budget,omitempty"`
	// WeeklyBudget is the most that one key may spend per week from Monday. Default: {env.PURSER_WEEKLY_BUDGET}, else off.
	WeeklyBudget string `json:"weekly_budget,omitempty"`
	// MonthlyBudget is the most that one key may spend per calendar month. Default: {env.PURSER_MONTHLY_BUDGET}, else off.
	MonthlyBudget string `json:"monthly_budget,omitempty"`
}

var (
	dailyBudgetOption   = setting.New("daily_budget", "PURSER_DAILY_BUDGET", "10")
	monthlyBudgetOption = setting.New("monthly_budget", "PURSER_MONTHLY_BUDGET", "")
)

// resolvePolicy reads the limits.
func (a *App) resolvePolicy(s *settings) error {
	o, p, daily := a.PolicyOptions, &s.policy, ""
	err := cmp.Or(
		setting.Set(&p.MaxPayment, setting.New("max_payment", "PURSER_MAX_PAYMENT", "1").Cap, o.MaxPayment),
		setting.Set(&p.HourlyBudget, setting.New("hourly_budget", "PURSER_HOURLY_BUDGET", "").Cap, o.HourlyBudget),
		setting.Set(&daily, dailyBudgetOption.Given, o.DailyBudget),
		setting.Set(&p.DailyBudget, dailyBudgetOption.Cap, o.DailyBudget),
		setting.Set(&p.WeeklyBudget, setting.New("weekly_budget", "PURSER_WEEKLY_BUDGET", "").Cap, o.WeeklyBudget),
		setting.Set(&p.MonthlyBudget, monthlyBudgetOption.Cap, o.MonthlyBudget),
		setting.Set(&p.PerMinute, setting.New("per_minute", "PURSER_PER_MINUTE", "").Count, o.PerMinute),
		setting.Set(&p.PriceGuard, setting.New("price_guard", "PURSER_PRICE_GUARD", "").Count, o.PriceGuard),
		setting.Set(&p.AllowHosts, setting.Named("allow_hosts").Entries, o.AllowHosts),
		setting.Set(&p.DenyHosts, setting.Named("deny_hosts").Entries, o.DenyHosts),
		setting.Set(&p.SignInHosts, setting.New("sign_in_hosts", "PURSER_SIGN_IN_HOSTS", "").Entries, o.SignInHosts),
		setting.Set(&p.AllowPayees, setting.Named("allow_payees").Addresses, o.AllowPayees),
		setting.Set(&p.OfferSigners, setting.New("offer_signers", "PURSER_OFFER_SIGNERS", "").Addresses, o.OfferSigners),
		setting.Set(&p.DenyPayees, setting.Named("deny_payees").Addresses, o.DenyPayees),
	)
	if err != nil {
		return err
	}
	s.dailyGiven = daily != ""
	if p.Hosts, err = budgets("host", o.Hosts); err != nil {
		return err
	}
	if p.Tasks, err = budgets("task", o.Tasks); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("purser: %w", err)
	}
	return nil
}

// budgets are the limits of hosts or tasks.
func budgets(of string, given map[string]BudgetOptions) (map[string]policy.Budget, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := make(map[string]policy.Budget, len(given))
	for name, o := range given {
		where := of + " " + name
		var b policy.Budget
		err := cmp.Or(
			setting.Set(&b.MaxPayment, setting.Named(where+" max_payment").Cap, o.MaxPayment),
			setting.Set(&b.HourlyBudget, setting.Named(where+" hourly_budget").Cap, o.HourlyBudget),
			setting.Set(&b.DailyBudget, setting.Named(where+" daily_budget").Cap, o.DailyBudget),
			setting.Set(&b.WeeklyBudget, setting.Named(where+" weekly_budget").Cap, o.WeeklyBudget),
			setting.Set(&b.MonthlyBudget, setting.Named(where+" monthly_budget").Cap, o.MonthlyBudget),
		)
		if err == nil && b == (policy.Budget{}) {
			err = setting.Named(where).Errorf("has no limit")
		}
		if err != nil {
			return nil, err
		}
		all[name] = b
	}
	return all, nil
}
