package pay

import (
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// What a key spends is counted by UTC day, for the key, the task and the site, whether a budget is
// set or not. Budgets only read these counters: a month is the sum of its days, a pattern of hosts
// that of its sites.

// maxSites bounds the sites of a key with a counter of their own on a day. Later ones share one,
// which counts against every budget of hosts.
const maxSites = 256

// maxSiteKey bounds the key of a site with a counter of its own: a DNS name with a port.
const maxSiteKey = 253 + len(":65535/")

// DailyCounter sums what a key reserved or spent in a day (UTC), through all doors.
func DailyCounter(keyID string, asset string, at time.Time) Counter {
	return dayPrefix(keyID, asset) + Counter(at.UTC().Format(time.DateOnly))
}

// dayPrefix begins the names of the counters of a key's days.
func dayPrefix(keyID, asset string) Counter { return Counter("day/" + keyID + "/" + asset + "/") }

// taskPrefix begins the names of the counters of a task's days.
func taskPrefix(keyID, task, asset string) Counter {
	return Counter("task-day/" + keyID + "/" + task + "/" + asset + "/")
}

// sitePrefix begins the names of the counters of the sites of a day.
func sitePrefix(keyID, asset string, day time.Time) Counter {
	return Counter("site-day/" + keyID + "/" + asset + "/" + day.UTC().Format(time.DateOnly) + "/")
}

// spending lists the reservations that count what a payment spends.
func spending(v Counters, row *Payment) ([]Reservation, error) {
	at := row.Created
	list := []Reservation{budgeted(row, DailyCounter(row.KeyID, row.Currency, at))}
	if row.Task != "" {
		list = append(list, budgeted(row, taskPrefix(row.KeyID, row.Task, row.Currency)+Counter(at.UTC().Format(time.DateOnly))))
	}
	to := policy.SiteOf(row.RequestURL)
	if to.Name == "" {
		return list, nil
	}
	sites := sitePrefix(row.KeyID, row.Currency, at)
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

// budgetUse tells how much of a budget a new row uses.
type budgetUse struct {
	rule, of     string // of is " for task x", or "" for the key's own budget
	most         money.Amount
	before, with money.Amount // without and with the row
	monthly      bool
}

// budgets holds the budgets against what was spent and the new row. used, unless it is nil, is told of
// each budget that the row keeps.
func budgets(pol policy.Policy, v Counters, row *Payment, used func(budgetUse)) error {
	s := Spending{Counters: v, Policy: pol, Payment: row}
	check := func(rule string, most *policy.Cap, whole bool, of string, sum func(monthly bool) (money.Amount, error)) error {
		if most.Max() == nil || failpoint.Off(failpoint.Limits) {
			return nil
		}
		have, err := sum(whole)
		if err != nil {
			return err
		}
		all, overflow := have.Add(row.Authorization.Value)
		if overflow || all.Cmp(*most.Max()) > 0 {
			return overBudget(rule, row, *most.Max(), have, whole, of)
		}
		if used != nil {
			used(budgetUse{rule: rule, of: of, most: *most.Max(), before: have, with: all, monthly: whole})
		}
		return nil
	}
	both := func(part string, b policy.Budget, of string, sum func(monthly bool) (money.Amount, error)) error {
		if err := check(part+"daily-budget", b.DailyBudget, false, of, sum); err != nil {
			return err
		}
		return check(part+"monthly-budget", b.MonthlyBudget, true, of, sum)
	}
	if err := both("", policy.Budget{DailyBudget: pol.DailyBudget, MonthlyBudget: pol.MonthlyBudget}, "", s.Key); err != nil {
		return err
	}
	if pattern, b, ok := pol.HostBudget(pol.Site(row.RequestURL)); ok {
		err := both("host-", b, " for "+pattern, func(monthly bool) (money.Amount, error) { return s.Hosts(pattern, monthly) })
		if err != nil {
			return err
		}
	}
	if name, b, ok := pol.TaskBudget(row.Task); ok {
		return both("task-", b, " for task "+name, func(monthly bool) (money.Amount, error) { return s.Tasks(name, monthly) })
	}
	return nil
}

// Counters reads counters of one moment, or of the present.
type Counters interface {
	Counter(c Counter) (money.Amount, error)
	VisitCounters(prefix Counter, visit func(c Counter, amount money.Amount) (more bool)) error
}

// Spending sums what a payment's key has spent on the payment's day or in its month (UTC).
type Spending struct {
	Counters Counters
	Policy   policy.Policy
	// Payment says whose spending it is, in which currency, and when: KeyID, Currency, Created.
	Payment *Payment
}

// days sums the day of the row, or all days of its month, of counters that end in the day.
func (s Spending) days(prefix Counter, monthly bool) (money.Amount, error) {
	at := s.Payment.Created.UTC()
	if !monthly {
		return s.Counters.Counter(prefix + Counter(at.Format(time.DateOnly)))
	}
	return s.sum(prefix+Counter(at.Format("2006-01-")), nil)
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
func (s Spending) Key(monthly bool) (money.Amount, error) {
	return s.days(dayPrefix(s.Payment.KeyID, s.Payment.Currency), monthly)
}

// Tasks sums a task. "*" is what the key has spent less the tasks with a budget of their own.
func (s Spending) Tasks(name string, monthly bool) (money.Amount, error) {
	if name != policy.OtherTasks {
		return s.days(taskPrefix(s.Payment.KeyID, name, s.Payment.Currency), monthly)
	}
	all, err := s.Key(monthly)
	for own := range s.Policy.Tasks {
		if own == policy.OtherTasks || err != nil {
			continue
		}
		var part money.Amount
		if part, err = s.days(taskPrefix(s.Payment.KeyID, own, s.Payment.Currency), monthly); err == nil {
			all, _ = Sum{Amount: all, Corrected: part}.Net()
		}
	}
	return all, err
}

// Hosts sums the sites that a pattern matches and no finer one does, and those without a counter.
func (s Spending) Hosts(pattern string, monthly bool) (all money.Amount, err error) {
	of := policy.PatternKey(pattern)
	var finer []string
	for other := range s.Policy.Hosts {
		if key := policy.PatternKey(other); key != of && strings.HasPrefix(key, of) {
			finer = append(finer, key)
		}
	}
	at := s.Payment.Created.UTC()
	day, last := at, at
	if monthly {
		day = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		last = day.AddDate(0, 1, -1)
	}
	for ; !day.After(last); day = day.AddDate(0, 0, 1) {
		sites := sitePrefix(s.Payment.KeyID, s.Payment.Currency, day)
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
