package pay

import (
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// Words and figures for people whose payment a rule declines.

// Decline tells of a request that was not paid.
type Decline struct {
	Reason, Detail    string // a word, and words with figures
	KeyID, Task, Host string
	Tool              string        // as [policy.ToolOf] writes it; "": the request is for none
	Price             *money.Amount // nil: not known
	Payment           string        // the earlier payment that it would repeat; "": none
}

// PriceOf returns the price that an error names; nil: none.
func PriceOf(err error) *money.Amount {
	if rule, is := errors.AsType[*PolicyError](err); is && rule.Figures != nil {
		return &rule.Figures.Price
	}
	if held, is := errors.AsType[*ApprovalError](err); is {
		return &held.Approval.Terms.Amount
	}
	return nil
}

// Figures hold what a rule has counted when it declines a payment. Amounts are in the smallest unit
// of USDC.
type Figures struct {
	Price money.Amount
	// Limit is the bound, Left the part of it that is not spent or reserved; nil: the rule has none.
	Limit, Left *money.Amount
	// Resets is the time from which on the same payment may pass. The zero time: no time helps.
	Resets time.Time
}

// FigureTexts are figures for people and programs: amounts such as "0.50 USDC", the time in RFC 3339.
type FigureTexts struct {
	Price  string `json:"price,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Left   string `json:"left,omitempty"`
	Resets string `json:"resets,omitempty"`
}

// Texts writes what a rule has counted; of nil, nothing.
func (f *Figures) Texts() (out FigureTexts) {
	if f == nil {
		return out
	}
	out.Price = money.Text(f.Price)
	if f.Limit != nil {
		out.Limit = money.Text(*f.Limit)
	}
	if f.Left != nil {
		out.Left = money.Text(*f.Left)
	}
	if !f.Resets.IsZero() {
		out.Resets = f.Resets.UTC().Format(time.RFC3339)
	}
	return out
}

// Moment writes a time for people, in UTC: "23 November 2026, 18:20 UTC".
func Moment(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 UTC") }

// overBudget refuses a payment that would pass a budget, of which u.before is used.
func overBudget(u budgetUse, row *Payment) error {
	left, resets := u.most.SubSaturated(u.before), u.period.End(row.Created)
	price, cost := row.Authorization.Value, row.cost()
	u.with = u.before
	if u.total != nil {
		return &PolicyError{
			Rule: u.rule,
			Detail: fmt.Sprintf("%s would pass the total of %s%s since %s; %s left",
				cost, money.Text(u.most), u.of, Moment(u.total.Begin), money.Figure(left)),
			Figures: &Figures{Price: price, Limit: &u.most, Left: &left},
			over:    &u,
		}
	}
	return &PolicyError{
		Rule: u.rule,
		Detail: fmt.Sprintf("%s would pass the %s budget of %s%s; %s left until %s",
			cost, u.period.Word(), money.Text(u.most), u.of, money.Figure(left), endText(u.period, resets)),
		Figures: &Figures{Price: price, Limit: &u.most, Left: &left, Resets: resets},
		over:    &u,
	}
}

// endText writes the end of a period, with the day where it may be another one.
func endText(p policy.Period, end time.Time) string {
	if p == policy.Hour || p == policy.Day {
		return end.Format("15:04 UTC")
	}
	return end.Format("2 January, 15:04 UTC")
}

// begun counts payments that have begun.
func begun(n int) string {
	if n == 1 {
		return "1 payment has begun"
	}
	return fmt.Sprintf("%d payments have begun", n)
}
