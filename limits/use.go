package limits

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Use is a limit of a key, with what is used of it. Amounts are in the smallest unit of USDC.
type Use struct {
	Rule  string // as in [pay.PolicyError]
	Of    string // the pattern of hosts, or the task; "" for the key itself
	Limit money.Amount
	// Spent and Left are those of a budget; nil for a limit on one payment. Open payments have taken their part.
	Spent, Left *money.Amount
	Resets      time.Time // the end of the period (UTC); zero for a limit on one payment, and for a total
	// Total is that of a task: what is spent was spent since its Begin. nil: it is another limit.
	Total *policy.Total
	// Parent: it is a budget of the key's parent, which the key shares.
	Parent bool
}

// Of lists the limits on amounts that are in force for a key at a door, and their use. The parent's follow. Its cost
// grows with the sites that the key has paid this month, under budgets of hosts.
func Of(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door) ([]Use, error) {
	own, err := ofKey(ctx, p, k, door)
	if err != nil {
		return nil, err
	}
	shared, err := OfParent(ctx, p, k, door)
	return append(own, shared...), err
}

// OfParent lists the budgets that a key shares with its parent at a door, and their use; none: it has no parent.
func OfParent(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door) (shared []Use, err error) {
	if k.Parent == "" {
		return nil, nil
	}
	parent, err := p.Options().Store.Key(ctx, k.Parent)
	if err != nil {
		return nil, err
	}
	list, err := ofKey(ctx, p, parent, door)
	for _, u := range list {
		if u.Parent = true; u.Spent != nil { // limits on one payment are each key's own
			shared = append(shared, u)
		}
	}
	return shared, err
}

// ofKey is Of without the parent.
func ofKey(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door) ([]Use, error) {
	u := newUses(ctx, p, p.PolicyOf(k, door), now(p, k))
	for _, pattern := range slices.Sorted(maps.Keys(u.Policy.Hosts)) {
		u.add("host-", pattern, u.Policy.Hosts[pattern], u.ofHosts(pattern))
	}
	for _, name := range slices.Sorted(maps.Keys(u.Policy.Tasks)) {
		u.addTask(name, u.Policy.Tasks[name])
	}
	return u.list, u.err
}

// Totals lists the totals of a key's tasks and their use.
func Totals(ctx context.Context, p *pay.Payer, k pay.Key) ([]Use, error) {
	u := &uses{Spending: spentBy(ctx, p, p.PolicyOf(k, policy.DoorProxy), now(p, k))}
	for _, name := range slices.Sorted(maps.Keys(u.Policy.Tasks)) {
		u.addTotal(name, u.Policy.Tasks[name].Total)
	}
	return u.list, u.err
}

// OfPayment lists the limits on amounts that hold for a payment by its key's present policy. Their use is
// that of the periods in which the payment was made, as it is counted now.
func OfPayment(ctx context.Context, p *pay.Payer, k pay.Key, row *pay.Payment) ([]Use, error) {
	if row.Withdraws() { // keeps no limits
		return nil, nil
	}
	u := newUses(ctx, p, p.PolicyOf(k, row.Door), row)
	if pattern, b, ok := u.Policy.HostBudget(u.Policy.Site(row.RequestURL)); ok {
		u.add("host-", pattern, b, u.ofHosts(pattern))
	}
	if name, b, ok := u.Policy.TaskBudget(row.Task); ok {
		u.addTask(name, b)
	}
	return u.list, u.err
}

// Budget is a budget of a key and its use, open payments included.
type Budget struct {
	Period policy.Period
	Used   money.Amount
	Budget *money.Amount // nil: there is none
	Resets time.Time     // the end of the period (UTC)
}

// Budgets returns the use of a key's budgets at a door, by [policy.Periods], and what its open payments have
// reserved of it.
func Budgets(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door) (list []Budget, reserved money.Amount, err error) {
	pol, at := p.PolicyOf(k, door), now(p, k)
	s, whole := spentBy(ctx, p, pol, at), pol.Whole()
	for _, period := range policy.Periods {
		b := Budget{Period: period, Budget: (*whole.Of(period)).Max(), Resets: period.End(at.Created)}
		if b.Used, err = s.Key(period); err != nil {
			return nil, reserved, err
		}
		list = append(list, b)
	}
	_, sum := pay.PendingCounters(k.ID)
	reserved, err = p.Options().Store.Counter(ctx, sum)
	return list, reserved, err
}

// Pays reports whether new payments of a key are made at a door now: neither it nor its parent is paused, and
// it may use the door.
func Pays(ctx context.Context, p *pay.Payer, k pay.Key, door policy.Door) (bool, error) {
	all, err := p.Options().Store.Pause(ctx)
	paused := all != nil || k.Paused != nil
	if err == nil && k.Parent != "" {
		var parent pay.Key
		parent, err = p.Options().Store.Key(ctx, k.Parent)
		paused = paused || parent.Paused != nil
	}
	return err == nil && !paused && p.PolicyOf(k, door).Opens(door), err
}

// now stands for a payment that a key would make at present.
func now(p *pay.Payer, k pay.Key) *pay.Payment {
	return &pay.Payment{KeyID: k.ID, Currency: money.Symbol, Created: p.Options().Clock().UTC()}
}

func spentBy(ctx context.Context, p *pay.Payer, pol policy.Policy, row *pay.Payment) pay.Spending {
	return pay.Spending{Counters: present{ctx, p.Options().Store}, Policy: pol, Payment: row}
}

// uses gathers limits, beginning with those of the key itself.
type uses struct {
	pay.Spending
	list []Use
	err  error
}

func newUses(ctx context.Context, p *pay.Payer, pol policy.Policy, row *pay.Payment) *uses {
	u := &uses{Spending: spentBy(ctx, p, pol, row)}
	u.add("", "", pol.Whole(), u.Key)
	return u
}

func (u *uses) ofHosts(pattern string) func(policy.Period) (money.Amount, error) {
	return func(p policy.Period) (money.Amount, error) { return u.Hosts(pattern, p) }
}

func (u *uses) ofTask(name string) func(policy.Period) (money.Amount, error) {
	return func(p policy.Period) (money.Amount, error) { return u.Tasks(name, p) }
}

func (u *uses) addTask(name string, b policy.Budget) {
	u.add("task-", name, b, u.ofTask(name))
	u.addTotal(name, b.Total)
}

// addTotal lists a task's total; nil: none.
func (u *uses) addTotal(task string, t *policy.Total) {
	if t == nil || u.err != nil {
		return
	}
	have, err := u.Total(task, t)
	if u.err = err; err != nil {
		return
	}
	left := t.Amount.SubSaturated(have)
	u.list = append(u.list, Use{Rule: pay.RuleTaskTotal, Of: task, Limit: t.Amount, Spent: &have, Left: &left, Total: t})
}

// add lists what a budget limits. Rules of a part of the spending begin with the part.
func (u *uses) add(part, of string, b policy.Budget, sum func(policy.Period) (money.Amount, error)) {
	if most := b.MaxPayment.Max(); most != nil {
		u.list = append(u.list, Use{Rule: part + "per-payment", Of: of, Limit: *most})
	}
	for _, period := range policy.Periods {
		most := (*b.Of(period)).Max()
		if most == nil || u.err != nil {
			continue
		}
		var have money.Amount
		if have, u.err = sum(period); u.err != nil {
			return
		}
		left := most.SubSaturated(have)
		u.list = append(u.list, Use{
			Rule: part + period.Rule(), Of: of, Limit: *most, Spent: &have, Left: &left, Resets: period.End(u.Payment.Created),
		})
	}
}

// present reads the counters as they stand now.
type present struct {
	ctx   context.Context
	store pay.Store
}

func (v present) Counter(c pay.Counter) (money.Amount, error) { return v.store.Counter(v.ctx, c) }

func (v present) VisitCounters(prefix pay.Counter, visit func(pay.Counter, money.Amount) bool) error {
	return v.store.VisitCounters(v.ctx, prefix, visit)
}
