package pay

import (
	"context"

	"github.com/purserpay/purser/x402"
)

// Today is what a key has done to its daily budget on the present day (UTC).
type Today struct {
	// Spent is what the day's spend events add up to, whatever door they came through.
	Spent Sum
	// Left is how much of the daily budget in force at a door may still be spent, in the
	// smallest unit; nil without one. Open payments have taken theirs already.
	Left *x402.Amount
}

// Today is how far a key's money has gone today. Its cost does not grow with the number of
// payments. asset is the symbol of what the budget is in.
func (p *Payer) Today(ctx context.Context, k Key, door Door, asset string) (Today, error) {
	now := p.now()
	day := DayOf(now)
	s, err := p.store.SpendSummary(ctx, []string{k.ID}, day, day)
	if err != nil {
		return Today{}, err
	}
	today := Today{Spent: s.Total()}
	most := p.PolicyOf(k, door).DailyBudget.Max()
	if most == nil {
		return today, nil
	}
	taken, err := p.store.Counter(ctx, DailyCounter(k.ID, asset, now))
	if err != nil {
		return Today{}, err
	}
	left, under := most.Sub(taken)
	if under { // the budget was made smaller than what was spent
		left = x402.Amount{}
	}
	today.Left = &left
	return today, nil
}
