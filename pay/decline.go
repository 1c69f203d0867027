package pay

import (
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
)

// Words and figures for people whose payment a rule declines.

// Decline tells of a request that was not paid.
type Decline struct {
	Reason, Detail    string // a word, and words with figures
	KeyID, Task, Host string
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

// overBudget refuses a payment that would pass the budget of a day or month, of which have is used.
func overBudget(rule string, row *Payment, most, have money.Amount, monthly bool, of string) error {
	left, resets := most.SubSaturated(have), WindowEnd(row.Created, monthly)
	window, until := "daily", resets.Format("15:04 UTC")
	if monthly {
		window, until = "monthly", resets.Format("2 January, 15:04 UTC")
	}
	price := row.Authorization.Value
	return &PolicyError{
		Rule: rule,
		Detail: fmt.Sprintf("%s would pass the %s budget of %s%s; %s left until %s",
			money.Text(price), window, money.Text(most), of, money.Figure(left), until),
		Figures: &Figures{Price: price, Limit: &most, Left: &left, Resets: resets},
		over:    &budgetUse{rule: rule, of: of, most: most, before: have, with: have, monthly: monthly},
	}
}

// WindowEnd returns the time at which the day or month of a time ends (UTC).
func WindowEnd(at time.Time, monthly bool) time.Time {
	at = at.UTC()
	if monthly {
		return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
}

// begun counts payments that have begun.
func begun(n int) string {
	if n == 1 {
		return "1 payment has begun"
	}
	return fmt.Sprintf("%d payments have begun", n)
}
