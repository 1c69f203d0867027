package pay

import (
	"context"
	"github.com/purserpay/purser/policy"
)

// LimitsOf lists the limits on amounts that hold for a payment by its key's present policy. Their use is
// that of the day and month in which the payment was made, as it is counted now.
func (p *Payer) LimitsOf(ctx context.Context, k Key, row *Payment) ([]LimitUse, error) {
	if row.Withdraws() { // keeps no limits
		return nil, nil
	}
	pol := p.PolicyOf(k, row.Door)
	u := uses{spent: spent{v: present{ctx, p.store}, pol: pol, row: row}}
	u.add("", "", policy.Budget{MaxPayment: pol.MaxPayment, DailyBudget: pol.DailyBudget, MonthlyBudget: pol.MonthlyBudget}, u.key)
	if pattern, b, ok := pol.HostBudget(pol.Site(row.RequestURL)); ok {
		u.add("host-", pattern, b, u.ofHosts(pattern))
	}
	if name, b, ok := pol.TaskBudget(row.Task); ok {
		u.add("task-", name, b, u.ofTask(name))
	}
	return u.list, u.err
}
