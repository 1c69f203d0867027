package pay

import (
	"fmt"
	"slices"

	"github.com/purserpay/purser/x402"
)

// Policy limits what a key may spend. Amounts are in the smallest unit of USDC; a nil
// amount is no limit. A policy set on the key holds at every door (DESIGN §7).
type Policy struct {
	MaxPayment  *x402.Amount `json:"max_payment,omitempty"`
	DailyBudget *x402.Amount `json:"daily_budget,omitempty"`
	// Doors the key may pay through; empty is all of them.
	Doors []Door `json:"doors,omitempty"`
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
	if pol.MaxPayment != nil && amount.Cmp(*pol.MaxPayment) > 0 {
		return &PolicyError{Rule: "per-payment", Detail: fmt.Sprintf("%s is above the limit of %s per payment", amount, pol.MaxPayment)}
	}
	return nil
}

// budgets are the policy's counted money limits for a payment.
func (pol Policy) budgets(row *Payment) []Limit {
	if pol.DailyBudget == nil {
		return nil
	}
	return []Limit{{
		Reservation: Reservation{
			Counter: DailyCounter(row.KeyID, row.Currency, row.Created),
			Amount:  row.Terms.Amount, Release: ReleaseBudget,
		},
		Max:     pol.DailyBudget,
		Refusal: &PolicyError{Rule: "daily-budget", Detail: fmt.Sprintf("the budget of %s per day would be passed", pol.DailyBudget)},
	}}
}
