package pay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// What a key spends is counted by UTC day, for the key, the task and the site, whether a budget is
// set or not. Budgets only read these counters: a week and a month are the sums of their days, a pattern of hosts
// that of its sites. Hours are counted likewise while the key has a budget of an hour.

// maxSites bounds the sites of a key with a counter of their own on a day. Later ones share one,
// which counts against every budget of hosts.
const maxSites = 256

// maxSiteKey bounds the key of a site with a counter of its own: a DNS name with a port, and a tool.
const maxSiteKey = 253 + len(":65535/") + len("resource/") + 128

// unit is a time by which spending is counted: it begins the names of its counters.
type unit string

const (
	byDay  unit = "day"
	byHour unit = "hour"
)

// of returns the end of a counter's name for a time.
func (u unit) of(at time.Time) Counter {
	if u == byHour {
		return Counter(at.UTC().Format(hourLayout))
	}
	return Counter(at.UTC().Format(time.DateOnly))
}

// hourLayout writes the hour of a counter.
const hourLayout = "2006-01-02T15"

// next returns the beginning of the unit after the one that begins at a time.
func (u unit) next(begin time.Time) time.Time {
	if u == byHour {
		return begin.Add(time.Hour)
	}
	return begin.AddDate(0, 0, 1)
}

// unitOf returns the unit whose counters make up a period.
func unitOf(p policy.Period) unit {
	if p == policy.Hour {
		return byHour
	}
	return byDay
}

// DailyCounter sums what a key reserved or spent in a day (UTC), through all doors.
func DailyCounter(keyID string, asset string, at time.Time) Counter {
	return byDay.key(keyID, asset) + byDay.of(at)
}

// key begins the names of the counters of a key.
func (u unit) key(keyID, asset string) Counter {
	return Counter(string(u) + "/" + keyID + "/" + asset + "/")
}

// task begins the names of the counters of a task.
func (u unit) task(keyID, task, asset string) Counter {
	return Counter("task-" + string(u) + "/" + keyID + "/" + task + "/" + asset + "/")
}

// sites begins the names of the counters of the sites at a time.
func (u unit) sites(keyID, asset string, at time.Time) Counter {
	return Counter("site-"+string(u)+"/"+keyID+"/"+asset+"/") + u.of(at) + "/"
}

// spending lists the reservations that count what a payment spends: by the day, and with hours by the hour.
func spending(v Counters, row *Payment, hours bool) ([]Reservation, error) {
	list, err := byDay.spending(v, row)
	if err != nil || !hours {
		return list, err
	}
	more, err := byHour.spending(v, row)
	return append(list, more...), err
}

func (u unit) spending(v Counters, row *Payment) ([]Reservation, error) {
	at := row.Created
	list := []Reservation{budgeted(row, u.key(row.KeyID, row.Currency)+u.of(at))}
	if row.Task != "" {
		list = append(list, budgeted(row, u.task(row.KeyID, row.Task, row.Currency)+u.of(at)))
	}
	to := policy.SiteOf(row.RequestURL)
	if to.Name == "" {
		return list, nil
	}
	sites := u.sites(row.KeyID, row.Currency, at)
	c := sites + Counter(to.Key())
	if own, err := ownSite(v, sites, c); err != nil {
		return nil, err
	} else if !own {
		c = sites + RestName
	}
	return append(list, budgeted(row, c)), nil
}

// ownSite reports whether a site counts by itself: it does already, or there is room.
func ownSite(v Counters, sites, c Counter) (bool, error) {
	if len(c)-len(sites) > maxSiteKey {
		return false, nil
	}
	have, err := v.Counter(c)
	if err != nil || !have.IsZero() {
		return err == nil, err
	}
	n := 0
	err = v.VisitCounters(sites, func(Counter, money.Amount) bool {
		n++
		return n < maxSites
	})
	return n < maxSites, err
}

func budgeted(row *Payment, c Counter) Reservation {
	return Reservation{Counter: c, Amount: row.Authorization.Value, Release: ReleaseBudget}
}

// totalPrefix begins the names of the counters of totals.
const totalPrefix = "task-total/"

// totalLayout writes the minute in which a total has begun.
const totalLayout = "2006-01-02T15:04"

// totalCounter sums what a task has spent since its total began. It counts only while the task has the total.
func totalCounter(keyID, task, asset string, begin time.Time) Counter {
	return Counter(totalPrefix + keyID + "/" + task + "/" + asset + "/" + begin.UTC().Format(totalLayout))
}

// total lists the reservation that counts a payment in the total of its task, if that has one.
func total(pol policy.Policy, row *Payment) []Reservation {
	name, b, ok := pol.TaskBudget(row.Task)
	if !ok || b.Total == nil {
		return nil
	}
	return []Reservation{budgeted(row, totalCounter(row.KeyID, name, row.Currency, b.Total.Begin))}
}

// budgetUse tells how much of a budget a new row uses.
type budgetUse struct {
	rule, of     string // of is " for task x", or "" for the key's own budget
	most         money.Amount
	before, with money.Amount // without and with the row
	period       policy.Period
	parent       *Parent       // whose budget it is; nil: it is that of the payment's key
	total        *policy.Total // takes the place of period; nil: it is the budget of a period
}

// keep holds the row against a budget of which some is used.
func (u *budgetUse) keep(row *Payment) error {
	all, overflow := u.before.Add(row.Authorization.Value)
	if overflow || all.Cmp(u.most) > 0 {
		return overBudget(*u, row)
	}
	u.with = all
	return nil
}

// budgets holds the budgets against what was spent and the new row. used, unless it is nil, is told of
// each budget that the row keeps.
func budgets(pol policy.Policy, v Counters, row *Payment, used func(budgetUse)) error {
	s := Spending{Counters: v, Policy: pol, Payment: row}
	check := func(part string, b policy.Budget, of string, sum func(policy.Period) (money.Amount, error)) error {
		for _, period := range policy.Periods {
			most := (*b.Of(period)).Max()
			if most == nil || failpoint.Off(failpoint.Limits) {
				continue
			}
			have, err := sum(period)
			if err != nil {
				return err
			}
			u := budgetUse{rule: part + period.Rule(), of: of, most: *most, before: have, period: period}
			if err := u.keep(row); err != nil {
				return err
			}
			if used != nil {
				used(u)
			}
		}
		return nil
	}
	task, ofTask, ok := pol.TaskBudget(row.Task)
	if ok && ofTask.Total != nil && ofTask.Total.Ended(row.Created) && !failpoint.Off(failpoint.Limits) {
		return ended(task, ofTask.Total, row)
	}
	if err := check("", pol.Whole(), "", s.Key); err != nil {
		return err
	}
	if pattern, b, ok := pol.HostBudget(pol.Site(row.RequestURL)); ok {
		err := check("host-", b, " for "+pattern, func(p policy.Period) (money.Amount, error) { return s.Hosts(pattern, p) })
		if err != nil {
			return err
		}
	}
	if !ok {
		return nil
	}
	of := " for task " + task
	if err := check("task-", ofTask, of, func(p policy.Period) (money.Amount, error) { return s.Tasks(task, p) }); err != nil {
		return err
	}
	if ofTask.Total == nil || failpoint.Off(failpoint.Limits) {
		return nil
	}
	have, err := s.Total(task, ofTask.Total)
	if err != nil {
		return err
	}
	u := budgetUse{rule: RuleTaskTotal, of: of, most: ofTask.Total.Amount, before: have, total: ofTask.Total}
	if err := u.keep(row); err != nil {
		return err
	}
	if used != nil {
		used(u)
	}
	return nil
}

// The rules of a task's total.
const (
	RuleTaskTotal = "task-total"
	RuleTaskEnded = "task-ended"
)

// ended refuses a payment of a task whose end is past.
func ended(task string, t *policy.Total, row *Payment) error {
	return &PolicyError{
		Rule:    RuleTaskEnded,
		Detail:  fmt.Sprintf("the task %s ended on %s; an operator gives it another end with purser limits KEY --task '%s=until:…'", task, Moment(t.Until), task),
		Figures: &Figures{Price: row.Authorization.Value},
	}
}

// Counters reads counters of one moment, or of the present.
type Counters interface {
	Counter(c Counter) (money.Amount, error)
	VisitCounters(prefix Counter, visit func(c Counter, amount money.Amount) (more bool)) error
}

// Spending sums what a payment's key has spent in the period of the payment.
type Spending struct {
	Counters Counters
	Policy   policy.Policy
	// Payment says whose spending it is, in which currency, and when: KeyID, Currency, Created.
	Payment *Payment
}

// in sums the period of the row, of counters that end in their unit.
func (s Spending) in(period policy.Period, prefix func(unit) Counter) (all money.Amount, err error) {
	u, at := unitOf(period), s.Payment.Created
	if period == policy.Month {
		return s.sum(prefix(u)+Counter(at.UTC().Format("2006-01-")), nil)
	}
	end := period.End(at)
	for begin := period.Begin(at); begin.Before(end) && err == nil; begin = u.next(begin) {
		var part money.Amount
		part, err = s.Counters.Counter(prefix(u) + u.of(begin))
		all = all.AddSaturated(part)
	}
	return all, err
}

// sum adds up the counters that begin with a prefix and with none of some others.
func (s Spending) sum(prefix Counter, without []Counter) (all money.Amount, err error) {
	err = s.Counters.VisitCounters(prefix, func(c Counter, a money.Amount) bool {
		if !slices.ContainsFunc(without, func(other Counter) bool { return strings.HasPrefix(string(c), string(other)) }) {
			all = all.AddSaturated(a)
		}
		return true
	})
	return all, err
}

// Key sums all that the key has spent.
func (s Spending) Key(period policy.Period) (money.Amount, error) {
	return s.in(period, func(u unit) Counter { return u.key(s.Payment.KeyID, s.Payment.Currency) })
}

// Tasks sums a task. "*" is what the key has spent less the tasks with a budget of their own.
func (s Spending) Tasks(name string, period policy.Period) (money.Amount, error) {
	of := func(name string) (money.Amount, error) {
		return s.in(period, func(u unit) Counter { return u.task(s.Payment.KeyID, name, s.Payment.Currency) })
	}
	if name != policy.OtherTasks {
		return of(name)
	}
	all, err := s.Key(period)
	for own := range s.Policy.Tasks {
		if own == policy.OtherTasks || err != nil {
			continue
		}
		var part money.Amount
		if part, err = of(own); err == nil {
			all, _ = Sum{Amount: all, Corrected: part}.Net()
		}
	}
	return all, err
}

// Total sums what a task has spent since its total began.
func (s Spending) Total(task string, t *policy.Total) (money.Amount, error) {
	return s.Counters.Counter(totalCounter(s.Payment.KeyID, task, s.Payment.Currency, t.Begin))
}

// Hosts sums the sites that a pattern matches and no finer one does, and those without a counter.
func (s Spending) Hosts(pattern string, period policy.Period) (all money.Amount, err error) {
	of := policy.PatternKey(pattern)
	var finer []string
	for other := range s.Policy.Hosts {
		if key := policy.PatternKey(other); key != of && strings.HasPrefix(key, of) {
			finer = append(finer, key)
		}
	}
	u, end := unitOf(period), period.End(s.Payment.Created)
	for begin := period.Begin(s.Payment.Created); begin.Before(end); begin = u.next(begin) {
		sites := u.sites(s.Payment.KeyID, s.Payment.Currency, begin)
		without := make([]Counter, len(finer))
		for i, key := range finer {
			without[i] = sites + Counter(key)
		}
		part, err := s.sum(sites+Counter(of), without)
		if err != nil {
			return all, err
		}
		rest, err := s.Counters.Counter(sites + RestName)
		if err != nil {
			return all, err
		}
		all = all.AddSaturated(part).AddSaturated(rest)
	}
	return all, nil
}
