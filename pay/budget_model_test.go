package pay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// The model of budgets: many payments under way at once, through all doors, to several
// hosts and for several tasks, which settle, fail, are refused, vanish or are cleared away
// as time goes by, over the ends of minutes, hours, days, weeks and months. It adds up rows and knows
// nothing of counters: every budget must hold, and no payment that fits is refused. Limits change
// on the way, and hold for what was spent before. Two children share the budgets of the key, and have one of their own.
type budgets struct {
	*world
	pol    policy.Policy
	flying []*pay.Attempt
	n      int
	// changed: the limits are not those that all payments were begun by.
	changed bool
	// begins has the beginnings of the present totals, and totals the ones that payments count in, by id.
	begins map[string]time.Time
	totals map[string]string
	// family has the key and its children, and own the children's budgets of a day.
	family []pay.Key
	own    map[string]uint64
}

func TestBudgetsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
		m := &budgets{world: w, begins: map[string]time.Time{}, totals: map[string]string{}, own: map[string]uint64{}}
		m.setAny(rt)
		m.family = []pay.Key{m.key, m.bears(policy.Policy{}), m.bears(policy.Policy{})}
		begin := func(rt *rapid.T) { m.begin(rt) }
		rt.Repeat(map[string]func(*rapid.T){
			"begin": begin, "begin more": begin, "and more": begin,
			"end": m.end, "end more": m.end,
			"recover": func(*rapid.T) {
				if _, err := m.payer.RecoverOnce(context.Background()); err != nil {
					rt.Fatal(err)
				}
			},
			"time": func(rt *rapid.T) {
				steps := []time.Duration{time.Second, 20 * time.Second, time.Minute, 6 * time.Minute, time.Hour, 24 * time.Hour, 5 * 24 * time.Hour, 31 * 24 * time.Hour}
				m.chain.advance(rapid.SampledFrom(steps).Draw(rt, "step"))
			},
			"limits": func(rt *rapid.T) {
				m.changed = true
				m.setAny(rt)
			},
			"limits of a child": func(rt *rapid.T) {
				m.changed = true
				most := rapid.Uint64Range(10, 60).Draw(rt, "day of a child")
				child := rapid.SampledFrom(m.family[1:]).Draw(rt, "child")
				m.own[child.ID] = most
				must(m.store.SetPolicy(context.Background(), child.ID, &policy.Policy{DailyBudget: usdc(most)}))
			},
			"": m.hold,
		})
		for _, a := range m.flying {
			a.Finish(true)
		}
		w.quiet()
		if err := w.store.check(); err != nil {
			rt.Fatal(err)
		}
	})
}

var (
	modelHosts = []string{"api.example.com", "b.example.com", "c.d.example.com:8443", "other.org"}
	modelTasks = []string{"", "crawl", "made-up-1", "made-up-2"}
)

// setAny draws a policy whose every limit is somewhere.
func (m *budgets) setAny(rt *rapid.T) {
	limit := func(name string) *policy.Cap {
		if n := rapid.Uint64Range(0, 60).Draw(rt, name); n > 0 {
			return usdc(n)
		}
		return nil
	}
	// Hours are counted while there is a budget of an hour: one that is off counts them.
	hour := func(name string) *policy.Cap {
		if n := rapid.Uint64Range(0, 60).Draw(rt, name); n > 0 {
			return usdc(n)
		}
		return policy.NoCap()
	}
	part := func(name string) policy.Budget {
		return policy.Budget{
			HourlyBudget: hour(name + " hour"), DailyBudget: limit(name + " day"), WeeklyBudget: limit(name + " week"), MonthlyBudget: limit(name + " month"),
		}
	}
	perMinute := m.pol.PerMinute
	m.pol = policy.Policy{
		HourlyBudget: hour("hour"), DailyBudget: limit("day"), WeeklyBudget: limit("week"), MonthlyBudget: limit("month"), AllowPayees: []x402.Address{testPayee},
		Hosts: map[string]policy.Budget{"*.example.com": part("*.example.com"), "api.example.com": part("api.example.com")},
		Tasks: map[string]policy.Budget{"*": part("*"), "crawl": part("crawl")},
	}
	switch n := rapid.IntRange(0, 8).Draw(rt, "per minute"); {
	case m.changed: // payments of a minute are counted while there is a limit on them
		m.pol.PerMinute = perMinute
	case n > 0:
		m.pol.PerMinute = &n
	}
	// Patterns come and go: those of before were spent on all the same.
	for _, name := range []string{"*.example.com", "api.example.com"} {
		if rapid.IntRange(0, 3).Draw(rt, "without "+name) == 0 {
			delete(m.pol.Hosts, name)
		}
	}
	for _, name := range []string{"*", "crawl"} {
		if rapid.IntRange(0, 3).Draw(rt, "without "+name) == 0 {
			delete(m.pol.Tasks, name)
		}
	}
	m.setTotals(rt)
	m.set(m.pol)
}

// setTotals draws the totals of the tasks. They begin when they are set first, and when they are restarted.
func (m *budgets) setTotals(rt *rapid.T) {
	minute := m.chain.clock().UTC().Truncate(time.Minute)
	for _, name := range []string{"*", "crawl"} {
		b, there := m.pol.Tasks[name]
		n := rapid.Uint64Range(0, 90).Draw(rt, name+" total")
		if !there || n < 30 {
			delete(m.begins, name)
			continue
		}
		begin, running := m.begins[name]
		total := &policy.Total{Amount: money.New(n), Restart: running && minute.After(begin) && rapid.Bool().Draw(rt, name+" restart")}
		if hours := rapid.IntRange(0, 40).Draw(rt, name+" until"); hours > 0 {
			total.Until = minute.Add(time.Duration(hours) * time.Hour)
		}
		if !running || total.Restart {
			m.begins[name] = minute
		}
		b.Total = total
		m.pol.Tasks[name] = b
	}
}

// totalOf names the total that a payment of a task counts in now; "": none.
func (m *budgets) totalOf(task string) string {
	name := "*"
	if _, own := m.pol.Tasks[task]; own {
		name = task
	}
	if m.pol.Tasks[name].Total == nil {
		return ""
	}
	return name + " since " + m.begins[name].String()
}

// broken are the rules that do not hold once a payment that begins now is counted as well;
// without one, those that do not hold as it is.
func (m *budgets) broken(next *buy, by pay.Key) (rules []string) {
	type part struct {
		rule string
		most *policy.Cap
		of   func(host, task string) bool
		win  policy.Period
	}
	hostOf := func(host string) string {
		if _, own := m.pol.Hosts[host]; own {
			return host
		}
		if host == "other.org" {
			return ""
		}
		return "*.example.com"
	}
	taskOf := func(task string) string {
		if _, own := m.pol.Tasks[task]; own {
			return task
		}
		return "*"
	}
	any := func(string, string) bool { return true }
	var parts []part
	budgets := func(prefix string, b policy.Budget, of func(host, task string) bool) {
		parts = append(parts, part{prefix + "hourly-budget", b.HourlyBudget, of, policy.Hour}, part{prefix + "daily-budget", b.DailyBudget, of, policy.Day},
			part{prefix + "weekly-budget", b.WeeklyBudget, of, policy.Week}, part{prefix + "monthly-budget", b.MonthlyBudget, of, policy.Month})
	}
	window := func(p policy.Period, at time.Time) string { // told without the code that is tested
		year, week := at.ISOWeek()
		return map[policy.Period]string{
			policy.Hour: at.Format("2006-01-02 15"), policy.Day: at.Format(time.DateOnly), policy.Week: fmt.Sprint(year, "W", week), policy.Month: at.Format("2006-01"),
		}[p]
	}
	budgets("", m.pol.Whole(), any)
	for name, b := range m.pol.Hosts {
		of := func(host, _ string) bool { return hostOf(host) == name }
		budgets("host-", b, of)
	}
	for name, b := range m.pol.Tasks {
		of := func(_, task string) bool { return taskOf(task) == name }
		budgets("task-", b, of)
	}
	now := m.chain.clock()
	sums, totals := map[string]uint64{}, map[string]uint64{}
	add := func(key, host, task string, at time.Time, amount uint64) {
		sums["child "+key+" "+at.Format(time.DateOnly)] += amount
		for i, p := range parts {
			if p.of(host, task) {
				sums[fmt.Sprint(i, " ", window(p.win, at))] += amount
			}
		}
		if key == m.key.ID {
			sums["minute"+at.Format("2006-01-02 15:04")]++
		}
	}
	for _, p := range m.store.payments() {
		amount := p.Terms.Amount.Big().Uint64()
		if p.State == pay.Void && !p.Doubted || p.Refused && releasedAll(p) {
			amount = 0 // it began all the same
		}
		add(p.KeyID, p.Host, p.Task, p.Created, amount)
		totals[m.totals[p.ID]] += amount
	}
	asked := func(part) bool { return true }
	if next != nil {
		host := next.url[len("https://") : len(next.url)-len(fmt.Sprintf("/%d", m.n))]
		add(by.ID, host, next.task, now, next.amount)
		asked = func(p part) bool { return p.of(host, next.task) } // the others cannot be what refuses it
		totals[m.totalOf(next.task)] += next.amount
	}
	for name, b := range m.pol.Tasks {
		if b.Total == nil || next != nil && taskOf(next.task) != name {
			continue
		}
		if totals[name+" since "+m.begins[name].String()] > b.Total.Amount.Big().Uint64() {
			rules = append(rules, "task-total")
		}
		if next != nil && !b.Total.Until.IsZero() && !now.Before(b.Total.Until) {
			rules = append(rules, "task-ended")
		}
	}
	for i, p := range parts {
		for key, sum := range sums {
			if p.most.Max() != nil && asked(p) && key == fmt.Sprint(i, " ", window(p.win, now)) && sum > p.most.Max().Big().Uint64() {
				rules = append(rules, p.rule)
			}
		}
	}
	for child, most := range m.own {
		if sums["child "+child+" "+now.Format(time.DateOnly)] > most && (next == nil || child == by.ID) {
			rules = append(rules, "daily-budget")
		}
	}
	if m.pol.PerMinute != nil && (next == nil || by.ID == m.key.ID) && sums["minute"+now.Format("2006-01-02 15:04")] > uint64(*m.pol.PerMinute) {
		rules = append(rules, "per-minute")
	}
	return rules
}

// releasedAll: a refused payment's money was given back after its time.
func releasedAll(p *pay.Payment) bool {
	return !slices.ContainsFunc(p.Reservations, func(r pay.Reservation) bool { return r.Release == pay.ReleaseBudget && !r.Released })
}

func (m *budgets) hold(rt *rapid.T) {
	if rules := m.broken(nil, pay.Key{}); rules != nil && !m.changed {
		rt.Fatalf("passed: %v", rules)
	}
}

func (m *budgets) begin(rt *rapid.T) {
	m.n++
	b := buy{
		door:   rapid.SampledFrom(allDoors).Draw(rt, "door"),
		url:    fmt.Sprintf("https://%s/%d", rapid.SampledFrom(modelHosts).Draw(rt, "host"), m.n),
		task:   rapid.SampledFrom(modelTasks).Draw(rt, "task"),
		amount: rapid.Uint64Range(1, 20).Draw(rt, "amount"),
	}
	by := must(m.store.Key(context.Background(), rapid.SampledFrom(m.family).Draw(rt, "key").ID))
	broken := m.broken(&b, by)
	if rapid.IntRange(0, 5).Draw(rt, "refuse") == 0 { // unless these terms were verified before
		m.fac.mode("refuse", "")
	}
	r := m.request(b)
	r.Key = by
	a, err := m.payer.Open(context.Background(), r)
	m.fac.mode("", "")
	var failed *pay.FailedError
	switch got := rule(err); {
	case errors.As(err, &failed) && failed.Payment != nil && failed.Payment.Refused && broken == nil:
		m.totals[failed.Payment.ID] = m.totalOf(b.task)
		m.released(rt, failed.Payment.ID)
	case err == nil && broken != nil:
		rt.Fatalf("%+v was begun in spite of %v", b, broken)
	case err == nil:
		m.totals[a.Payment().ID] = m.totalOf(b.task)
		m.flying = append(m.flying, a)
	case got == "unanswered":
	case !slices.Contains(broken, got):
		rt.Fatalf("%+v: %v, broken are %v", b, err, broken)
	}
}

// end brings one of the payments under way to one of its ends.
func (m *budgets) end(rt *rapid.T) {
	if len(m.flying) == 0 {
		rt.Skip()
	}
	i := rapid.IntRange(0, len(m.flying)-1).Draw(rt, "which")
	a := m.flying[i]
	m.flying = slices.Delete(m.flying, i, i+1)
	switch rapid.SampledFrom([]string{"settle", "settle", "abandon", "open", "gone"}).Draw(rt, "how") {
	case "settle":
		if tx := m.sellerMoves(a.Payload()); tx != "" {
			a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
		}
		a.Finish(true)
	case "abandon":
		a.Abandon("no connection")
	case "open":
		a.Finish(true)
	case "gone":
		a.Finish(false)
	}
	m.released(rt, a.Payment().ID)
}

// released waits for the release of a lease, which nothing else waits for: the model looks at rows.
func (m *budgets) released(rt *rapid.T, id string) {
	for deadline := time.Now().Add(20 * time.Second); m.payment(id).Lease.Owner != ""; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			rt.Fatal("a lease was not released")
		}
	}
}
