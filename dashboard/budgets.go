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
	Name          string // "Today", or the month
	Used          string // "0.42"
	Limit         string // "5.00"; "" without a budget
	Reserved      string // of Used, for open payments; "" for none
	Left          string
	Share         string // "8 %"
	Again         string // when it starts again
	Class         string // of the gauge
	Spent, Booked int    // thousandths: spent, and spent with what is reserved
}

// barsOf returns the bars of a key's day and month, by the budgets that hold at the proxy.
func (d *dashboard) barsOf(ctx context.Context, v visit, k pay.Key) ([]budgetBar, error) {
	day, month, reserved, err := limits.Budgets(ctx, d.Payer, k, policy.DoorProxy)
	if err != nil {
		return nil, err
	}
	return []budgetBar{
		newBudgetBar("Today", day, reserved, "Starts again at 00:00 UTC."),
		newBudgetBar(v.now.Format("January"), month, reserved, "Starts again on "+month.Resets.Format("2 January")+", 00:00 UTC."),
	}, nil
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
