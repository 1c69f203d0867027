package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// priceOf names the counter of the last price of a key.
func priceOf(k pay.Key) pay.Counter { return pay.Counter("price/" + k.ID + "/endpoint") }

// judged changes a call to one of an amount that was judged by a policy in a revision.
func judged(b *pay.Begin, pol policy.Policy, revision uint64, amount uint64) *pay.Begin {
	b.Policy, b.PolicyRevision = &pol, revision
	b.New.Terms.Amount = money.New(amount)
	b.New.Authorization.Value = b.New.Terms.Amount
	return b
}

// guarded makes a call whose settlement sets a price.
func guarded(k pay.Key, times int, amount uint64) *pay.Begin {
	b := judged(want(k, noon), policy.Policy{PriceGuard: &times}, 0, amount)
	b.New.Price = priceOf(k)
	return b
}

// refusedBy demands the rule that refuses a call.
func (f *fixture) refusedBy(b *pay.Begin, rule string) {
	f.Helper()
	_, err := f.Begin(f.ctx, b)
	var refused *pay.PolicyError
	if !errors.As(err, &refused) || refused.Rule != rule {
		f.Fatalf("error is %v, want %s", err, rule)
	}
}

var policyTests = map[string]func(*fixture){
	"set and removed": func(f *fixture) {
		n := newKey("")
		must(f.CreateKey(f.ctx, n))
		other := f.key()
		same := func(revision uint64, pol *policy.Policy, got pay.Key) {
			f.Helper()
			want := n.Key
			want.Policy, want.PolicyRevision = pol, revision
			f.same("key", got, want)
			f.same("by id", must(f.Key(f.ctx, n.ID)), want)
			f.same("by secret", must(f.KeyBySecret(f.ctx, n.Secret)), want)
		}
		minute := 3
		first := &policy.Policy{DailyBudget: policy.CapOf(money.New(7)), PerMinute: &minute, Tasks: map[string]policy.Budget{"*": {MonthlyBudget: policy.NoCap()}}}
		k := must(f.SetPolicy(f.ctx, n.ID, first))
		same(1, first, k)
		second := &policy.Policy{Doors: []policy.Door{policy.DoorAPI}}
		k = must(f.SetPolicy(f.ctx, n.ID, second))
		same(2, second, k)
		f.reopen(Opener.Kill)
		same(2, second, k)
		k = must(f.SetPolicy(f.ctx, n.ID, nil))
		same(3, nil, k)
		f.same("another key", must(f.Key(f.ctx, other.ID)), other)
		_, err := f.SetPolicy(f.ctx, newID(), first)
		f.fails(err, pay.ErrKeyNotFound)
	},
	"set by somebody who has seen the key": func(f *fixture) {
		n := newKey("")
		k := must(f.CreateKey(f.ctx, n))
		first, second := &policy.Policy{DailyBudget: policy.CapOf(money.New(7))}, &policy.Policy{DailyBudget: policy.CapOf(money.New(8))}
		seen := must(f.SetPolicyAt(f.ctx, k.ID, k.PolicyRevision, first))
		f.same("policy", seen.Policy, first)
		f.same("revision", seen.PolicyRevision, k.PolicyRevision+1)
		_, err := f.SetPolicyAt(f.ctx, k.ID, k.PolicyRevision, second)
		f.fails(err, pay.ErrPolicyChanged)
		f.same("key", must(f.Key(f.ctx, k.ID)), seen)
		must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopPause, At: noon})) // another change counts as well
		_, err = f.SetPolicyAt(f.ctx, k.ID, seen.PolicyRevision, second)
		f.fails(err, pay.ErrPolicyChanged)
		_, err = f.SetPolicyAt(f.ctx, newID(), 0, first)
		f.fails(err, pay.ErrKeyNotFound)
	},
	"a key that becomes the operator's": func(f *fixture) {
		n := newKey("org")
		must(f.CreateKey(f.ctx, n))
		untouched := f.key()
		anything := policy.Policy{}
		earlier := f.release(f.begin(judged(under(want(n.Key, noon), "order"), anything, 0, 5), pay.Created), true)
		want1 := n.Key
		want1.Operator, want1.PolicyRevision = true, 1
		for range 2 { // a second time changes nothing
			f.same("key", must(f.AdoptKey(f.ctx, n.ID)), want1)
			f.reopen(Opener.Kill)
			f.same("by secret", must(f.KeyBySecret(f.ctx, n.Secret)), want1)
		}
		_, err := f.Begin(f.ctx, judged(want(n.Key, noon), anything, 0, 5))
		f.fails(err, pay.ErrPolicyChanged)
		again := judged(under(want(n.Key, noon.Add(soon)), "order"), anything, 0, 5)
		again.Fingerprint = earlier.Fingerprint
		f.same("a repeat", f.begin(again, pay.Driven).ID, earlier.ID)
		f.begin(judged(want(n.Key, noon), anything, 1, 5), pay.Created)
		k := must(f.SetPolicy(f.ctx, n.ID, nil))
		f.same("operator, after another change", k.Operator, true)
		f.same("another key", must(f.Key(f.ctx, untouched.ID)), untouched)
		_, err = f.AdoptKey(f.ctx, newID())
		f.fails(err, pay.ErrKeyNotFound)
	},
	"a claimed key keeps its organization": func(f *fixture) {
		k := must(f.CreateKey(f.ctx, newKey("org")))
		got := must(f.SetPolicy(f.ctx, k.ID, &policy.Policy{}))
		f.same("organization", got.OrganizationID, "org")
	},
	"keys, oldest first": func(f *fixture) {
		var all []string
		for i := range 7 {
			n := newKey([]string{"", "a", "b"}[i%3])
			must(f.CreateKey(f.ctx, n))
			all = append(all, n.ID)
		}
		for page := 1; page <= 8; page++ {
			listed, after := []string{}, ""
			for {
				part := must(f.ListKeys(f.ctx, after, page))
				if len(part) == 0 {
					break
				}
				if len(part) > page {
					f.Fatalf("%d keys on a page of %d", len(part), page)
				}
				for _, k := range part {
					listed = append(listed, k.ID)
				}
				after = listed[len(listed)-1]
			}
			f.same("keys", listed, all)
		}
		part := must(f.ListKeys(f.ctx, all[2], 1))
		whole := must(f.Key(f.ctx, all[3]))
		f.same("row", part, []pay.Key{whole})
	},
	"a call that was judged by a raise that has ended": func(f *fixture) {
		k := f.key()
		raised := policy.Policy{DailyBudget: policy.CapOf(money.New(5)), Raise: &policy.Raise{Until: noon, DailyBudget: policy.CapOf(money.New(50))}}
		stale := judged(want(k, noon), raised.At(noon.Add(-1)), 0, 1)
		_, err := f.Begin(f.ctx, stale)
		f.fails(err, pay.ErrPolicyChanged)
		f.nothingBegun(stale)
		f.begin(judged(want(k, noon.Add(-1)), raised.At(noon.Add(-1)), 0, 50), pay.Created)
		f.refusedBy(judged(want(k, noon), raised.At(noon), 0, 1), "daily-budget")
		// The lasting limits are stored beside the raise.
		must(f.SetPolicy(f.ctx, k.ID, &raised))
		f.reopen(Opener.Kill)
		f.same("policy", must(f.Key(f.ctx, k.ID)).Policy, &raised)
	},
	"a call that was judged by another policy": func(f *fixture) {
		k := f.key()
		anything := policy.Policy{}
		stale := judged(want(k, noon), anything, 1, 5)
		_, err := f.Begin(f.ctx, stale) // of a revision to come
		f.fails(err, pay.ErrPolicyChanged)
		f.nothingBegun(stale)
		first := judged(under(want(k, noon), "order"), anything, 0, 5)
		p := f.release(f.begin(first, pay.Created), true)
		must(f.SetPolicy(f.ctx, k.ID, &policy.Policy{}))
		_, err = f.Begin(f.ctx, judged(want(k, noon), anything, 0, 5))
		f.fails(err, pay.ErrPolicyChanged)
		declined := judged(want(k, noon), anything, 0, 5) // its refusal may be out of date as well
		declined.Declined = errRefused
		_, err = f.Begin(f.ctx, declined)
		f.fails(err, pay.ErrPolicyChanged)
		f.counts("place", placeOf(k), 1)
		f.same("a repeat", f.begin(again(first, noon.Add(soon)), pay.Driven).ID, p.ID)
		f.begin(judged(want(k, noon), anything, 1, 5), pay.Created)
		f.begin(want(k, noon), pay.Created) // judged by nothing
		f.counts("place", placeOf(k), 3)
	},
	"policies set while payments begin": func(f *fixture) {
		// A call that begins after a policy was set has been judged by it.
		k := f.key()
		var set atomic.Uint64
		f.must(firstOf(together(crowd, func(i int) error {
			if i%8 == 0 {
				changed, err := f.SetPolicy(f.ctx, k.ID, &policy.Policy{})
				for n := set.Load(); err == nil && n < changed.PolicyRevision && !set.CompareAndSwap(n, changed.PolicyRevision); n = set.Load() {
				}
				return err
			}
			for range 4 {
				before := set.Load()
				known, err := f.Key(f.ctx, k.ID)
				if err != nil {
					return err
				}
				if known.PolicyRevision < before {
					return fmt.Errorf("revision %d after %d", known.PolicyRevision, before)
				}
				stale := known.PolicyRevision - min(known.PolicyRevision, uint64(i%2))
				_, err = f.Begin(f.ctx, judged(want(k, noon), policy.Policy{}, stale, 5))
				if err == nil && stale < before {
					return fmt.Errorf("begun under revision %d after %d was set", stale, before)
				}
				if err != nil && !errors.Is(err, pay.ErrPolicyChanged) {
					return err
				}
			}
			return nil
		})))
		last := must(f.Key(f.ctx, k.ID))
		f.same("revision", last.PolicyRevision, crowd/8)
	},
	"rules hold for the row": func(f *fixture) {
		k := f.key()
		most := policy.CapOf(money.New(5))
		f.begin(judged(want(k, noon), policy.Policy{MaxPayment: most}, 0, 5), pay.Created)
		f.refusedBy(judged(want(k, noon), policy.Policy{MaxPayment: most}, 0, 6), "per-payment")
		f.refusedBy(judged(want(k, noon), policy.Policy{DenyPayees: []x402.Address{x402.EVMAddress([20]byte{0x70})}}, 0, 5), "payees")
		f.refusedBy(judged(want(k, noon), policy.Policy{DenyHosts: []string{"*.example.com"}}, 0, 5), "hosts")
		f.refusedBy(judged(want(k, noon), policy.Policy{Doors: []policy.Door{policy.DoorAPI}}, 0, 5), "doors")
		f.refusedBy(judged(want(k, noon), policy.Policy{Tasks: map[string]policy.Budget{"crawl": {MaxPayment: most}}}, 0, 6), "task-per-payment")
		signed := judged(want(k, noon), policy.Policy{MaxPayment: most}, 0, 5)
		signed.New.Authorization.Value = money.New(6) // what is signed counts
		f.refusedBy(signed, "per-payment")
		f.counts("place", placeOf(k), 1)
	},
	"prices": func(f *fixture) {
		k := f.key()
		f.settle(f.begin(guarded(k, 2, 1000), pay.Created), true) // the first is not held
		f.counts("price", priceOf(k), 1000)
		f.settle(f.begin(guarded(k, 2, 10), pay.Created), true)
		f.counts("price", priceOf(k), 10)
		f.refusedBy(guarded(k, 2, 21), "price-guard")
		p := f.begin(guarded(k, 2, 20), pay.Created)
		f.counts("price", priceOf(k), 10) // not before it is settled
		f.record(outcome(p, pay.VerdictVoid))
		f.counts("price", priceOf(k), 10)
		f.record(outcome(p, pay.VerdictSettled)) // after all
		f.counts("price", priceOf(k), 20)
		f.record(outcome(p, pay.VerdictDisputed))
		f.settle(f.begin(guarded(k, 2, 0), pay.Created), true) // a free answer is no price
		f.counts("price", priceOf(k), 20)
		f.reopen(Opener.Close)
		f.counts("price", priceOf(k), 20)
		f.refusedBy(guarded(k, 2, 41), "price-guard")
		f.begin(guarded(f.key(), 2, 41), pay.Created) // a counter of its own
	},
	"spend events by task": func(f *fixture) {
		k, other := f.key(), f.key()
		buy := func(k pay.Key, task string) string {
			f.Helper()
			b := want(k, noon)
			b.New.Task = task
			return f.settle(f.begin(b, pay.Created), true).EventID
		}
		expected := map[string][]string{}
		for i := range 12 {
			task := []string{"a", "", "b", "ab"}[i%4]
			expected[task] = append(expected[task], buy(k, task))
			buy(other, task)
		}
		b := want(k, noon)
		b.New.Task = "b"
		p := f.begin(b, pay.Created)
		f.record(outcome(p, pay.VerdictSettled))
		correction := outcome(p, pay.VerdictDisputed)
		f.record(correction)
		expected["b"] = append(expected["b"], f.find(p.ID).EventID, correction.EventID)
		for _, task := range []string{"a", "b", "ab", "none"} {
			slices.Reverse(expected[task])
			for page := 1; page <= 6; page++ {
				all, before := []string{}, ""
				for {
					part := must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Task: task, Before: before, Limit: page}))
					if len(part) > page {
						f.Fatalf("%d events on a page of %d", len(part), page)
					}
					if len(part) == 0 {
						break
					}
					for _, e := range part {
						if e.Task != task || e.KeyID != k.ID {
							f.Fatalf("listed for task %q: %s", task, text(e))
						}
						all = append(all, e.ID)
					}
					before = all[len(all)-1]
				}
				f.same("events of "+task, all, append([]string{}, expected[task]...))
			}
		}
		whole := must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 1}))
		f.same("row", must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Task: "b", Limit: 1})), whole)
		for _, before := range []string{expected["b"][0], expected[""][0], newID(), "x", "b"} {
			_, err := f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Task: "a", Before: before, Limit: 10})
			f.fails(err, pay.ErrEventNotFound)
		}
		f.reopen(Opener.Kill)
		f.same("after reopening", len(must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Task: "ab", Limit: 10}))), 3)
	},
	"budgets of parts at once": func(f *fixture) {
		// A call reserves in several budgets; the tightest one bounds them all, exactly.
		k := f.key()
		part := func(name string) pay.Counter { return pay.Counter("part/" + name + "/" + k.ID) }
		errs := together(crowd, func(i int) error {
			b := want(k, noon)
			for _, name := range []string{"key", fmt.Sprint("task-", i%2)} {
				most := money.New(map[string]uint64{"key": 103, "task-0": 1000, "task-1": 23}[name])
				b.Limits = append(b.Limits, pay.Limit{
					Reservation: pay.Reservation{Counter: part(name), Amount: money.New(5), Release: pay.ReleaseBudget},
					Max:         &most, Refusal: errRefused,
				})
			}
			_, err := f.Begin(f.ctx, b)
			return err
		})
		n := f.succeeded(errs, errRefused)
		f.counts("key's budget", part("key"), uint64(5*n))
		one := must(f.Counter(f.ctx, part("task-1")))
		if n != 20 || one.Cmp(money.New(20)) > 0 {
			f.Fatalf("%d were begun, %s are spent for task-1", n, one)
		}
	},
	"budgets that are set later": func(f *fixture) {
		// What a key has spent is counted by day, task and site, whatever budgets there were.
		yesterday := noon.AddDate(0, 0, -1)
		spends := func(k pay.Key, at time.Time, host, task string, amount uint64) *pay.Begin {
			b := judged(want(k, at), policy.Policy{}, 0, amount)
			b.New.RequestURL, b.New.Host, b.New.Task = "https://"+host+"/"+b.New.ID, host, task
			return b
		}
		for _, c := range []struct {
			rule       string
			host, task string
			have       uint64
			pol        func(most *policy.Cap) policy.Policy
		}{
			{"daily-budget", "new.org", "", 70, func(most *policy.Cap) policy.Policy { return policy.Policy{DailyBudget: most} }},
			{"weekly-budget", "new.org", "", 140, func(most *policy.Cap) policy.Policy { return policy.Policy{WeeklyBudget: most} }},
			{"host-weekly-budget", "c.example.com", "", 60, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Hosts: map[string]policy.Budget{"*.example.com": {WeeklyBudget: most}}}
			}},
			{"monthly-budget", "new.org", "", 140, func(most *policy.Cap) policy.Policy { return policy.Policy{MonthlyBudget: most} }},
			{"host-daily-budget", "c.example.com", "", 30, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Hosts: map[string]policy.Budget{"*.example.com": {DailyBudget: most}}}
			}},
			{"host-monthly-budget", "c.example.com", "", 40, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Hosts: map[string]policy.Budget{"*.example.com": {MonthlyBudget: most}, "api.example.com": {MaxPayment: policy.NoCap()}}}
			}},
			{"host-daily-budget", "b.example.com", "", 20, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Hosts: map[string]policy.Budget{"b.example.com": {DailyBudget: most}}}
			}},
			{"task-monthly-budget", "new.org", "crawl", 20, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Tasks: map[string]policy.Budget{"crawl": {MonthlyBudget: most}}}
			}},
			{"task-daily-budget", "new.org", "", 60, func(most *policy.Cap) policy.Policy {
				return policy.Policy{Tasks: map[string]policy.Budget{"*": {DailyBudget: most}, "crawl": {DailyBudget: policy.NoCap()}}}
			}},
		} {
			const amount = 3
			k := f.key()
			for _, at := range []time.Time{yesterday, noon} {
				f.begin(spends(k, at, "api.example.com", "crawl", 10), pay.Created)
				f.begin(spends(k, at, "b.example.com:8443", "", 20), pay.Created)
				f.begin(spends(k, at, "example.com", "read", 40), pay.Created)
			}
			f.reopen(Opener.Kill)
			within := func(most uint64) *pay.Begin {
				b := spends(k, noon, c.host, c.task, amount)
				pol := c.pol(policy.CapOf(money.New(most)))
				b.Policy = &pol
				return b
			}
			f.refusedBy(within(c.have+amount-1), c.rule)
			f.begin(within(c.have+amount), pay.Created)
		}
	},
	"budgets of an hour": func(f *fixture) {
		// Hours are counted exactly, for key, site and task, over a crash, and given back as days are.
		k := f.key()
		most := func(n uint64) *policy.Cap { return policy.CapOf(money.New(n)) }
		pol := policy.Policy{
			HourlyBudget: most(103), Hosts: map[string]policy.Budget{"*.example.com": {HourlyBudget: most(60)}},
			Tasks: map[string]policy.Budget{"crawl": {HourlyBudget: most(23)}},
		}
		spends := func(at time.Time, host, task string, amount uint64) *pay.Begin {
			b := judged(want(k, at), pol, 0, amount)
			b.New.RequestURL, b.New.Host, b.New.Task = "https://"+host+"/"+b.New.ID, host, task
			return b
		}
		errs := together(crowd, func(i int) error {
			_, err := f.Begin(f.ctx, spends(noon, []string{"api.example.com", "other.org"}[i%2], []string{"", "crawl"}[i/2%2], 5))
			return err
		})
		begun := uint64(0)
		for _, err := range errs {
			if err == nil {
				begun += 5
			}
		}
		if begun > 100 || begun < 80 {
			f.Fatalf("%d were begun", begun)
		}
		hour := func(kind, of string) pay.Counter {
			return pay.Counter(kind + "hour/" + k.ID + "/" + of + "USDC/" + noon.UTC().Format("2006-01-02T15"))
		}
		f.counts("the key's hour", hour("", ""), begun)
		if crawl := must(f.Counter(f.ctx, hour("task-", "crawl/"))); crawl.Cmp(money.New(20)) > 0 {
			f.Fatalf("%s for the task", crawl)
		}
		f.reopen(Opener.Kill)
		f.counts("the key's hour", hour("", ""), begun)
		f.refusedBy(spends(noon, "new.org", "", 104-begun), "hourly-budget")
		p := f.begin(spends(noon, "new.org", "", 103-begun), pay.Created)
		f.counts("the key's hour", hour("", ""), 103)
		if n := len(p.Reservations); n < 4 {
			f.Fatalf("%d reservations", n)
		}
		next := noon.Truncate(time.Hour).Add(time.Hour)
		f.begin(spends(next, "api.example.com", "", 60), pay.Created)
		f.refusedBy(spends(next, "b.example.com", "", 1), "host-hourly-budget")
		f.refusedBy(spends(noon, "new.org", "", 1), "hourly-budget") // a clock that was set back finds its hour as it was
	},
	"totals of tasks": func(f *fixture) {
		// A total is counted exactly, over a crash and from its beginning on, and given back where it was taken.
		k := f.key()
		begin := noon.Truncate(time.Minute)
		spends := func(begin, at time.Time, task string, amount uint64) *pay.Begin {
			total := func(n uint64) policy.Budget {
				return policy.Budget{Total: &policy.Total{Amount: money.New(n), Begin: begin, Until: noon.Add(48 * time.Hour)}}
			}
			b := judged(want(k, at), policy.Policy{Tasks: map[string]policy.Budget{"crawl": total(53), "*": total(27)}}, 0, amount)
			b.New.Task = task
			return b
		}
		errs := together(crowd, func(i int) error {
			_, err := f.Begin(f.ctx, spends(begin, noon, []string{"crawl", "", "made-up"}[i%3], 5))
			return err
		})
		count := func(begin time.Time, task string) pay.Counter {
			return pay.Counter("task-total/" + k.ID + "/" + task + "/USDC/" + begin.UTC().Format("2006-01-02T15:04"))
		}
		begun := map[string]uint64{}
		for i, err := range errs {
			if err == nil {
				begun[[]string{"crawl", "*", "*"}[i%3]] += 5
			}
		}
		if begun["crawl"] > 50 || begun["*"] != 25 {
			f.Fatalf("%v were begun", begun)
		}
		f.counts("the total", count(begin, "crawl"), begun["crawl"])
		f.counts("that of the others", count(begin, "*"), 25)
		f.reopen(Opener.Kill)
		f.refusedBy(spends(begin, noon, "new", 3), "task-total")
		f.begin(spends(begin, noon.Add(24*time.Hour), "new", 2), pay.Created)
		f.refusedBy(spends(begin, noon, "crawl", 54-begun["crawl"]), "task-total")
		p := f.begin(spends(begin, noon, "crawl", 53-begun["crawl"]), pay.Created)
		again := begin.Add(time.Minute)
		f.begin(spends(again, noon, "crawl", 7), pay.Created)
		f.record(outcome(p, pay.VerdictVoid))
		f.counts("the total", count(begin, "crawl"), begun["crawl"])
		f.counts("the one that began anew", count(again, "crawl"), 7)
		f.refusedBy(spends(begin, noon.Add(48*time.Hour), "crawl", 1), "task-ended")
	},
	"a policy as large as it may be": func(f *fixture) {
		k := f.key()
		pol := &policy.Policy{Hosts: map[string]policy.Budget{}, Tasks: map[string]policy.Budget{}}
		for i := range 1000 {
			pol.AllowHosts = append(pol.AllowHosts, fmt.Sprintf("host-%d.example.com", i))
			pol.DenyPayees = append(pol.DenyPayees, x402.EVMAddress([20]byte{byte(i), byte(i >> 8), 1}))
			pol.Hosts[pol.AllowHosts[i]] = policy.Budget{DailyBudget: policy.CapOf(money.New(uint64(i) + 1))}
			pol.Tasks[fmt.Sprint("task-", i)] = policy.Budget{MonthlyBudget: policy.NoCap()}
		}
		f.must(pol.Validate())
		must(f.SetPolicy(f.ctx, k.ID, pol))
		got := must(f.Key(f.ctx, k.ID))
		f.same("policy", got.Policy, pol)
	},
	"a payment under way when a policy is set": func(f *fixture) {
		k := f.key()
		b := judged(want(k, noon), policy.Policy{}, 0, 5)
		p := f.begin(b, pay.Created)
		must(f.SetPolicy(f.ctx, k.ID, &policy.Policy{Doors: []policy.Door{policy.DoorAPI}}))
		// What is under way goes on: its lease and its outcome are no new payment.
		f.must(f.Renew(f.ctx, p.ID, p.Lease.Fence, noon.Add(time.Minute)))
		f.settle(p, true)
		f.counts("budget", budgetOf(k), 5)
	},
}
