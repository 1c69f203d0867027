package pay

import (
	"fmt"
	"slices"

	"github.com/purserpay/purser/x402"
)

// Policy limits what a key may spend. A field that is not set falls back, at the proxy
// and the transport, to the configured defaults; on REST it is no limit. A policy set on
// the key holds at every door (DESIGN §7).
type Policy struct {
	// MaxPayment bounds one payment, DailyBudget and MonthlyBudget what is spent in a day or
	// a calendar month (UTC).
	MaxPayment    *Cap `json:"max_payment,omitempty"`
	DailyBudget   *Cap `json:"daily_budget,omitempty"`
	MonthlyBudget *Cap `json:"monthly_budget,omitempty"`
	// PerMinute is how many payments may begin in a minute; 0 is no limit.
	PerMinute *int `json:"per_minute,omitempty"`
	// PriceGuard holds a payment above this many times what the endpoint charged last;
	// 0 is off.
	PriceGuard *int `json:"price_guard,omitempty"`
	// Doors the key may pay through; empty is all of them.
	Doors []Door `json:"doors,omitempty"`
	// AllowHosts, when set, are the only hosts that are paid: "name", "name:port",
	// "*.example.com". What DenyHosts has is not paid in any case.
	AllowHosts []string `json:"allow_hosts,omitempty"`
	DenyHosts  []string `json:"deny_hosts,omitempty"`
	// AllowPayees, when set, are the only addresses that are paid.
	AllowPayees []x402.Address `json:"allow_payees,omitempty"`
	DenyPayees  []x402.Address `json:"deny_payees,omitempty"`
	// Hosts have limits of their own, by the patterns of AllowHosts. Tasks likewise, by
	// label; "*" is the budget that all labels without an own one share, and calls without
	// a label.
	Hosts map[string]Budget `json:"hosts,omitempty"`
	Tasks map[string]Budget `json:"tasks,omitempty"`
}

// Budget limits a part of what a key spends, beside the key's own limits.
type Budget struct {
	MaxPayment    *Cap `json:"max_payment,omitempty"`
	DailyBudget   *Cap `json:"daily_budget,omitempty"`
	MonthlyBudget *Cap `json:"monthly_budget,omitempty"`
}

// MaxUnansweredPerHost bounds the payments of one key to one host that are open,
// unanswered and still valid (DESIGN §7).
const MaxUnansweredPerHost = 20

// policyOf is the key's own policy, else the door's default. Keys have no limits on
// REST beyond SPEC.md unless they were given some (SPEC §9.2).
func (p *Payer) policyOf(k Key, door Door) Policy {
	var pol Policy
	if k.Policy != nil {
		pol = *k.Policy
	}
	if door == DoorAPI {
		return pol
	}
	if pol.MaxPayment == nil {
		pol.MaxPayment = p.opts.ProxyPolicy.MaxPayment
	}
	if pol.DailyBudget == nil {
		pol.DailyBudget = p.opts.ProxyPolicy.DailyBudget
	}
	return pol
}

// allows checks the rules that need no counting.
func (pol Policy) allows(door Door, amount x402.Amount) error {
	if len(pol.Doors) > 0 && !slices.Contains(pol.Doors, door) {
		return &PolicyError{Rule: "doors", Detail: fmt.Sprintf("this key may not pay through the %s door", door)}
	}
	if most := pol.MaxPayment.Max(); most != nil && amount.Cmp(*most) > 0 {
		return &PolicyError{Rule: "per-payment", Detail: fmt.Sprintf("%s is above the limit of %s per payment", amount, most)}
	}
	return nil
}

// budgets are the policy's counted money limits for a payment.
func (pol Policy) budgets(row *Payment) []Limit {
	most := pol.DailyBudget.Max()
	if most == nil {
		return nil
	}
	return []Limit{{
		Reservation: Reservation{
			Counter: DailyCounter(row.KeyID, row.Currency, row.Created),
			Amount:  row.Terms.Amount, Release: ReleaseBudget,
		},
		Max:     most,
		Refusal: &PolicyError{Rule: "daily-budget", Detail: fmt.Sprintf("the budget of %s per day would be passed", most)},
	}}
}
