package dashboard

import (
	"context"
	"math/big"

	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// budgetBar shows how much of a budget is used: in words, and as a bar in thousandths.
type budgetBar struct {
	Name          string // "This hour", "Today", "This week", or the month
	Listed        bool   // it has a column in the list of keys
	Used          string // "0.42"
	Limit         string // "5.00"; "" without a budget
	Reserved      string // of Used, for open payments; "" for none
	Left          string
	Share         string // "8 %"
	Again         string // when it starts again
	Class         string // of the gauge
	Spent, Booked int    // thousandths: spent, and spent with what is reserved
}

// barsOf returns the bars of a key's day and month, and of hour and week where they have a budget, by the budgets
// that hold at the proxy.
func (d *dashboard) barsOf(ctx context.Context, v visit, k pay.Key) (bars []budgetBar, err error) {
	list, reserved, err := limits.Budgets(ctx, d.Payer, k, policy.DoorProxy)
	for _, b := range list {
		name, again := v.now.Format("January"), "on "+b.Resets.Format("2 January")+", 00:00 UTC."
		switch b.Period {
		case policy.Hour:
			name, again = "This hour", "at "+b.Resets.Format("15:04")+" UTC."
		case policy.Day:
			name, again = "Today", "at 00:00 UTC."
		case policy.Week:
			name = "This week"
		case policy.Month:
		}
		if b.Budget != nil || b.Period == policy.Day || b.Period == policy.Month {
			bar := newBudgetBar(name, b, reserved, "Starts again "+again)
			bar.Listed = b.Period == policy.Day || b.Period == policy.Month
			bars = append(bars, bar)
		}
	}
	return bars, err
}

func usdcText(a money.Amount) string { return thousandsOf(twoDigits(a.Format(decimals))) }

// thousandsOf groups the digits before a number's point.
func thousandsOf(number string) string {
	for i := range number {
		if number[i] == '.' {
			return thousands(number[:i]) + number[i:]
		}
	}
	return thousands(number)
}

func newBudgetBar(name string, use limits.Budget, reserved money.Amount, again string) budgetBar {
	b := budgetBar{Name: name, Used: usdcText(use.Used), Again: again}
	if reserved.Cmp(use.Used) > 0 { // some of it may be of an earlier day
		reserved = use.Used
	}
	if !reserved.IsZero() {
		b.Reserved = usdcText(reserved)
	}
	if use.Budget == nil {
		return b
	}
	b.Limit = usdcText(*use.Budget)
	left, over := use.Budget.Sub(use.Used)
	if over {
		left = money.Amount{}
	}
	b.Left = usdcText(left)
	spent, _ := use.Used.Sub(reserved)
	b.Spent, b.Booked = mille(spent, *use.Budget), mille(use.Used, *use.Budget)
	b.Share = count(b.Booked/10) + " %"
	switch {
	case b.Booked >= 1000:
		b.Class = "full"
	case b.Booked >= 800:
		b.Class = "warn"
	}
	return b
}

// mille returns a part of an amount in thousandths, at most 1,000.
func mille(part, of money.Amount) int {
	if of.IsZero() {
		return 1000
	}
	n := new(big.Int).Div(new(big.Int).Mul(part.Big(), big.NewInt(1000)), of.Big())
	if !n.IsInt64() || n.Int64() > 1000 {
		return 1000
	}
	return int(n.Int64())
}
