package limits

import (
	"context"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Today is a key's use of its daily budget on the present day (UTC).
type Today struct {
	// Spent is the sum of the day's spend events at all doors.
	Spent pay.Sum
	// Left is the rest of the daily budget in force at a door, in the smallest unit; nil without a
	// budget. The amounts of open payments are already subtracted.
	Left *money.Amount
}

// TodayOf returns a key's use of its daily budget today. Its cost does not grow with the number of
// payments. asset is the symbol of the budget's asset.
func TodayOf(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door, asset string) (Today, error) {
	o := p.Options()
	now := o.Clock()
	day := pay.DayOf(now)
	s, err := o.Store.SpendSummary(ctx, []string{k.ID}, day, day)
	if err != nil {
		return Today{}, err
	}
	today := Today{Spent: s.Total()}
	most := p.PolicyOf(k, door).DailyBudget.Max()
	if most == nil {
		return today, nil
	}
	taken, err := o.Store.Counter(ctx, pay.DailyCounter(k.ID, asset, now))
	if err != nil {
		return Today{}, err
	}
	left := most.SubSaturated(taken) // the budget may have been made smaller than what was spent
	today.Left = &left
	return today, nil
}
