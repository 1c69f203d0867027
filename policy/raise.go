package policy

import "time"

// Raise holds numeric limits that take the place of a policy's own, and of the defaults, until a time. A field that is
// not set changes nothing. The numbers may be lower, too.
type Raise struct {
	// Until ends the raise by purser's clock: a payment that begins then keeps the lasting limits.
	Until time.Time `json:"until"`

	MaxPayment           *Cap `json:"max_payment,omitempty"`
	HourlyBudget         *Cap `json:"hourly_budget,omitempty"`
	DailyBudget          *Cap `json:"daily_budget,omitempty"`
	WeeklyBudget         *Cap `json:"weekly_budget,omitempty"`
	MonthlyBudget        *Cap `json:"monthly_budget,omitempty"`
	PerMinute            *int `json:"per_minute,omitempty"`
	PriceGuard           *int `json:"price_guard,omitempty"`
	RequireApprovalAbove *Cap `json:"require_approval_above,omitempty"`
}

// Holds reports whether the raise holds at a time; nil holds at none.
func (r *Raise) Holds(at time.Time) bool { return r != nil && at.Before(r.Until) }

// limits returns the raised limits as a policy.
func (r *Raise) limits() Policy {
	return Policy{
		MaxPayment: r.MaxPayment, HourlyBudget: r.HourlyBudget, DailyBudget: r.DailyBudget, WeeklyBudget: r.WeeklyBudget, MonthlyBudget: r.MonthlyBudget,
		PerMinute: r.PerMinute, PriceGuard: r.PriceGuard, RequireApprovalAbove: r.RequireApprovalAbove,
	}
}

// At returns the policy that is in force at a time. It has the Raise that holds then, or none. The result may share lists and
// maps.
func (pol Policy) At(at time.Time) Policy {
	r := pol.Raise
	if !r.Holds(at) {
		pol.Raise = nil
		return pol
	}
	pol = r.limits().Or(pol)
	pol.Raise = r
	return pol
}

// validate checks that the raise can be meant: *FieldError.
func (r *Raise) validate() error {
	if r == nil {
		return nil
	}
	if *r == (Raise{Until: r.Until}) {
		return &FieldError{Field: "raise", Reason: "it raises no limit"}
	}
	if r.Until.IsZero() {
		return &FieldError{Field: "raise.until", Reason: "missing; a raise has an end"}
	}
	return r.limits().validateNumbers("raise.")
}
