package policy

import "time"

// Period is the time whose spending a budget bounds, by the clock and calendar of UTC.
type Period int

// The periods. A week is that of ISO 8601: it begins on Monday.
const (
	Hour Period = iota
	Day
	Week
	Month
)

// Periods lists all of them, the shortest first.
var Periods = [...]Period{Hour, Day, Week, Month}

// Word returns the word of a period in rules and fields: hourly, daily, weekly or monthly.
func (p Period) Word() string { return [...]string{"hourly", "daily", "weekly", "monthly"}[p] }

// Noun names the period: hour, day, week or month.
func (p Period) Noun() string { return [...]string{"hour", "day", "week", "month"}[p] }

// Rule returns the rule of a key's budget of the period, such as daily-budget.
func (p Period) Rule() string { return p.Word() + "-budget" }

// Begin returns the beginning of the period in which a time lies.
func (p Period) Begin(at time.Time) time.Time {
	at = at.UTC()
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	switch p {
	case Hour:
		return day.Add(time.Duration(at.Hour()) * time.Hour)
	case Week:
		return day.AddDate(0, 0, -(int(at.Weekday())+6)%7)
	case Month:
		return day.AddDate(0, 0, 1-at.Day())
	case Day:
	}
	return day
}

// End returns the end of the period in which a time lies: the beginning of the next one.
func (p Period) End(at time.Time) time.Time {
	begin := p.Begin(at)
	switch p {
	case Hour:
		return begin.Add(time.Hour)
	case Week:
		return begin.AddDate(0, 0, 7)
	case Month:
		return begin.AddDate(0, 1, 0)
	case Day:
	}
	return begin.AddDate(0, 0, 1)
}

// Of returns where the budget of a period is.
func (b *Budget) Of(p Period) **Cap {
	return [...]**Cap{&b.HourlyBudget, &b.DailyBudget, &b.WeeklyBudget, &b.MonthlyBudget}[p]
}

// Whole returns the limits on all that the key spends.
func (pol Policy) Whole() Budget {
	return Budget{
		MaxPayment: pol.MaxPayment, HourlyBudget: pol.HourlyBudget, DailyBudget: pol.DailyBudget, WeeklyBudget: pol.WeeklyBudget, MonthlyBudget: pol.MonthlyBudget,
	}
}

// CountsHours reports whether spending is counted by the hour: the policy has a budget of an hour for the key or a
// part, or had one switched off, now or in its raise.
func (pol Policy) CountsHours() bool {
	if pol.HourlyBudget != nil || pol.Raise != nil && pol.Raise.HourlyBudget != nil {
		return true
	}
	for _, parts := range []map[string]Budget{pol.Hosts, pol.Tasks} {
		for _, b := range parts {
			if b.HourlyBudget != nil {
				return true
			}
		}
	}
	return false
}
