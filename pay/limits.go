package pay

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// LimitUse is a limit of a key, with what is used of it. Amounts are in the smallest unit of USDC.
type LimitUse struct {
	Rule  string // as in PolicyError
	Of    string // the pattern of hosts, or the task; "" for the key itself
	Limit money.Amount
	// Spent and Left are those of a budget; nil for a limit on one payment. Open payments have taken their part.
	Spent, Left *money.Amount
	Resets      time.Time // the end of the day or month (UTC); zero for a limit on one payment
}

// Limits lists the limits on amounts that are in force for a key at a door, and their use. Its cost grows with
// the sites that the key has paid this month, under budgets of hosts.
func (p *Payer) Limits(ctx context.Context, k Key, door policy.Door) ([]LimitUse, error) {
	pol := p.PolicyOf(k, door)
	u := uses{spent: spent{
		v: present{ctx, p.store}, pol: pol, row: &Payment{KeyID: k.ID, Currency: money.Symbol, Created: p.now().UTC()},
	}}
	u.add("", "", policy.Budget{MaxPayment: pol.MaxPayment, DailyBudget: pol.DailyBudget, MonthlyBudget: pol.MonthlyBudget}, u.key)
	for _, pattern := range slices.Sorted(maps.Keys(pol.Hosts)) {
		u.add("host-", pattern, pol.Hosts[pattern], u.ofHosts(pattern))
	}
	for _, name := range slices.Sorted(maps.Keys(pol.Tasks)) {
		u.add("task-", name, pol.Tasks[name], u.ofTask(name))
	}
	return u.list, u.err
}

// BudgetUse holds what a key has used of a day or month, through all doors.
type BudgetUse struct {
	// Used is spent, or reserved for open payments.
	Used   money.Amount
	Budget *money.Amount // nil: there is none
	Resets time.Time     // the end of the day or month (UTC)
}

// Budgets returns what a key has used of this day and month, by the budgets in force at a door, and what
// of it is reserved for open payments: at most that sum, because some may be of an earlier day.
func (p *Payer) Budgets(ctx context.Context, k Key, door policy.Door) (day, month BudgetUse, reserved money.Amount, err error) {
	pol := p.PolicyOf(k, door)
	s := spent{v: present{ctx, p.store}, pol: pol, row: &Payment{KeyID: k.ID, Currency: money.Symbol, Created: p.now().UTC()}}
	day = BudgetUse{Budget: pol.DailyBudget.Max(), Resets: windowEnd(s.row.Created, false)}
	month = BudgetUse{Budget: pol.MonthlyBudget.Max(), Resets: windowEnd(s.row.Created, true)}
	if day.Used, err = s.key(false); err != nil {
		return day, month, reserved, err
	}
	if month.Used, err = s.key(true); err != nil {
		return day, month, reserved, err
	}
	_, sum := PendingCounters(k.ID)
	reserved, err = p.store.Counter(ctx, sum)
	return day, month, reserved, err
}

// Pays reports whether a key may make new payments through a door: neither it nor everything is paused.
func (p *Payer) Pays(ctx context.Context, k Key, door policy.Door) (bool, error) {
	all, err := p.store.Pause(ctx)
	return err == nil && all == nil && k.Paused == nil && p.PolicyOf(k, door).Opens(door), err
}

// uses collects the uses of limits. After an error it does nothing.
type uses struct {
	spent
	list []LimitUse
	err  error
}

func (u *uses) ofHosts(pattern string) func(monthly bool) (money.Amount, error) {
	return func(monthly bool) (money.Amount, error) { return u.hosts(pattern, monthly) }
}

func (u *uses) ofTask(name string) func(monthly bool) (money.Amount, error) {
	return func(monthly bool) (money.Amount, error) { return u.tasks(name, monthly) }
}

func (u *uses) add(part, of string, b policy.Budget, sum func(monthly bool) (money.Amount, error)) {
	if most := b.MaxPayment.Max(); most != nil {
		u.list = append(u.list, LimitUse{Rule: part + "per-payment", Of: of, Limit: *most})
	}
	for _, budget := range []struct {
		rule    string
		most    *policy.Cap
		monthly bool
	}{{"daily-budget", b.DailyBudget, false}, {"monthly-budget", b.MonthlyBudget, true}} {
		most := budget.most.Max()
		if most == nil || u.err != nil {
			continue
		}
		var have money.Amount
		if have, u.err = sum(budget.monthly); u.err != nil {
			return
		}
		left := leftOf(*most, have)
		u.list = append(u.list, LimitUse{
			Rule: part + budget.rule, Of: of, Limit: *most, Spent: &have, Left: &left, Resets: windowEnd(u.row.Created, budget.monthly),
		})
	}
}

// present reads the counters of the present. Two readings may have a payment between them.
type present struct {
	ctx   context.Context
	store Store
}

func (v present) Counter(c Counter) (money.Amount, error) { return v.store.Counter(v.ctx, c) }

func (v present) VisitCounters(prefix Counter, visit func(Counter, money.Amount) bool) error {
	return v.store.VisitCounters(v.ctx, prefix, visit)
}
