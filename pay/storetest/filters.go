package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// pays makes a payment at a time, with an id of that time.
func (f *fixture) pays(k pay.Key, amount uint64, host, task string, payee byte, at time.Time, verdicts ...pay.Verdict) *pay.Payment {
	f.Helper()
	b := want(k, at)
	b.New.ID, b.New.Host, b.New.Task, b.New.RequestURL = eventID(at), host, task, "https://"+host+"/"
	b.New.Terms.Amount, b.New.Terms.PayTo = money.New(amount), x402.EVMAddress([20]byte{payee})
	p := f.begin(b, pay.Created)
	for _, v := range verdicts {
		o := outcome(p, v)
		o.At, o.EventID = at, eventID(at)
		p = f.record(o)
	}
	return p
}

// pages lists payments page by page, in at most a number of pages.
func (f *fixture) pages(q pay.PaymentFilter, most int, keys ...pay.Key) []string {
	f.Helper()
	all := []string{}
	for range most {
		page := must(f.ListPayments(f.ctx, keyIDs(keys), q))
		if len(page.Payments) > q.Limit {
			f.Fatalf("%d payments on a page of %d", len(page.Payments), q.Limit)
		}
		if all = append(all, ids(page.Payments)...); page.Next == "" {
			return all
		}
		q.Before = page.Next
	}
	f.Fatalf("no end after %d pages and %d payments", most, len(all))
	return nil
}

var filterTests = map[string]func(*fixture){
	"by state, host, task, payee and day": func(f *fixture) {
		keys, other := []pay.Key{f.key(), f.key()}, f.key()
		hosts, tasks := []string{"a.example", "b.example:8443", ""}, []string{"", "crawl"}
		var all []*pay.Payment
		for i := range 48 {
			k := append(keys, other)[i%3]
			verdicts := [][]pay.Verdict{{}, {pay.VerdictSettled}, {pay.VerdictVoid}, {pay.VerdictSettled, pay.VerdictDisputed}}[i%4]
			all = append(all, f.pays(k, uint64(i+1), hosts[i%5%3], tasks[i%2], byte(i%3), noon.Add(time.Duration(i)*2*time.Hour), verdicts...))
		}
		slices.Reverse(all)
		f.reopen(Opener.Kill)
		two := x402.EVMAddress([20]byte{2})
		for _, label := range []string{"", "open", "settled", "disputed", "void"} {
			for _, q := range []pay.PaymentFilter{
				{},
				{Host: "a.example"},
				{Host: "c.example"},
				{Task: "crawl"},
				{Payee: &two},
				{Host: "a.example", Task: "crawl", Payee: &two},
				{From: noon.Add(aDay), To: noon.Add(aDay)},
				{From: noon.Add(2 * aDay), Host: "a.example"},
				{To: noon.Add(aDay), Payee: &two},
				{From: noon.Add(aDay), To: noon},
			} {
				for _, q.All = range []bool{false, true} {
					q.Label = label
					wanted, summed, total := []string{}, 0, uint64(0)
					for _, p := range all {
						if !q.Wants(p) || !q.All && p.KeyID == other.ID {
							continue
						}
						wanted = append(wanted, p.ID)
						if label != "" || p.State == pay.Settled && !p.Disputed {
							summed, total = summed+1, total+p.Moved().Big().Uint64()
						}
					}
					what := fmt.Sprintf("%+v", q)
					for _, q.Limit = range []int{1, 7, 100} {
						f.same(what, f.pages(q, len(wanted)+2, keys...), wanted)
					}
					sums := must(f.SumPayments(f.ctx, keyIDs(keys), q))
					if sums.Partial || sums.Count() != summed || total > 0 && sums.Currencies[0].Amount != money.New(total) {
						f.Errorf("%s adds up to %+v, want %d of %d", what, sums, summed, total)
					}
				}
			}
		}
		f.same("of no key", f.pages(pay.PaymentFilter{Limit: 5}, 1), []string{})
		f.same("of an unknown state", f.pages(pay.PaymentFilter{Limit: 5, Label: "lost", All: true}, 1), []string{})
	},
	"the rare among many": func(f *fixture) {
		k := f.key()
		var rare []string
		for i := range 250 {
			payee := byte(1)
			if i == 3 || i == 200 {
				payee = 2
			}
			if p := f.pays(k, 1, "a.example", "", payee, noon.Add(time.Duration(i)*time.Second)); payee == 2 {
				rare = append([]string{p.ID}, rare...)
			}
		}
		two := x402.EVMAddress([20]byte{2})
		f.same("rare", f.pages(pay.PaymentFilter{Payee: &two, Limit: 5}, 5, k), rare)
		f.same("rare, of all keys", f.pages(pay.PaymentFilter{Payee: &two, Limit: 5, All: true}, 5), rare)
	},
	"of more keys than one read takes": func(f *fixture) {
		var keys []pay.Key
		var all []string
		for i := range 60 {
			k := pay.Key{ID: newID()}
			if keys = append(keys, k); i%4 == 3 {
				for n := range 3 {
					all = append(all, f.pays(k, 1, "a.example", "", 1, noon.Add(time.Duration(60*n+i)*time.Second)).ID)
				}
			}
		}
		slices.SortFunc(all, func(a, b string) int { return strings.Compare(b, a) })
		for _, limit := range []int{1, 4, 100} {
			f.same("all", f.pages(pay.PaymentFilter{Limit: limit}, len(all)+2, keys...), all)
		}
		if sums := must(f.SumPayments(f.ctx, keyIDs(keys), pay.PaymentFilter{Label: "open"})); sums.Count() != len(all) || sums.Partial {
			f.Errorf("%+v", sums)
		}
	},
	"sums of events": func(f *fixture) {
		a, b := f.key(), f.key()
		e := f.spends(a, 5, "a.example", "crawl", noon)
		f.takesBack(e, noon.Add(time.Hour))
		f.spends(a, 7, "a.example", "", noon.Add(aDay))
		f.spends(b, 9, "b.example", "crawl", noon)
		want := func(q pay.OrganizationSpendQuery, sum pay.Sum, keys ...pay.Key) {
			f.Helper()
			t := must(f.SumSpend(f.ctx, keyIDs(keys), q))
			var all pay.Sum
			for _, c := range t.Currencies {
				all.Add(c.Sum)
			}
			if all != sum || t.Partial {
				f.Errorf("%+v: %+v, want %+v", q, t, sum)
			}
		}
		payee, nobody := x402.EVMAddress([20]byte{0x70}), x402.EVMAddress([20]byte{1})
		want(pay.OrganizationSpendQuery{}, sum(3, 21, 5), a, b)
		want(pay.OrganizationSpendQuery{Host: "a.example", Task: "crawl"}, sum(1, 5, 5), a, b)
		want(pay.OrganizationSpendQuery{Payee: &payee, To: noon}, sum(2, 14, 5), a, b)
		want(pay.OrganizationSpendQuery{Payee: &nobody}, pay.Sum{}, a, b)
		want(pay.OrganizationSpendQuery{From: noon.Add(aDay)}, sum(1, 7, 0), a)
		f.lists("of a payee", pay.OrganizationSpendQuery{Payee: &nobody}, []pay.Key{a, b})
	},
	"tools of MCP": func(f *fixture) {
		k := f.key()
		var ids []string
		buys := func(url string, amount uint64, undelivered bool) pay.SpendEvent {
			b, at := want(k, noon), noon.Add(time.Duration(len(ids))*time.Second)
			b.New.ID, b.New.RequestURL, b.New.Host = eventID(at), url, pay.RecordedHost(url)
			b.New.Terms.Amount = money.New(amount)
			o := outcome(f.begin(b, pay.Created), pay.VerdictSettled)
			if o.At, o.EventID, o.Release = at, eventID(at), true; undelivered {
				o.Undelivered = &pay.Undelivered{Status: 500}
			}
			ids = append([]string{b.New.ID}, ids...)
			return f.recorded(o)
		}
		buys("mcp://a.example/tool/search", 5, false)
		buys("mcp://a.example/tool/search", 6, true)
		buys("mcp://a.example/prompt/search", 7, false)
		buys("mcp://b.example:8443/tool/search", 8, false)
		taken := buys("https://a.example/tool/search", 9, false)
		f.takesBack(buys("mcp://A.example/tool/search", 3, false), noon.Add(time.Minute))
		f.takesBack(taken, noon.Add(time.Minute))
		f.reopen(Opener.Kill)
		search := pay.ToolSum{Tool: "mcp://a.example/tool/search", Sum: sum(3, 14, 3), Undelivered: 1}
		prompt := pay.ToolSum{Tool: "mcp://a.example/prompt/search", Sum: sum(1, 7, 0)}
		f.same("sums", must(f.SumSpend(f.ctx, []string{k.ID}, pay.OrganizationSpendQuery{})).Tools, []pay.ToolSum{
			prompt, search, {Tool: "mcp://b.example:8443/tool/search", Sum: sum(1, 8, 0)},
		})
		f.same("sums of a host", must(f.SumSpend(f.ctx, []string{k.ID}, pay.OrganizationSpendQuery{Host: "a.example"})).Tools, []pay.ToolSum{prompt, search})
		q := pay.OrganizationSpendQuery{Host: "a.example", Tool: search.Tool}
		spent := must(f.SumSpend(f.ctx, []string{k.ID}, q))
		f.same("sum of a tool", []any{spent.Tools, spent.Count()}, []any{[]pay.ToolSum{search}, 3})
		q.Limit = 9
		f.same("events of a tool", len(must(f.ListSpend(f.ctx, []string{k.ID}, q)).Entries), 4)
		for _, all := range []bool{false, true} {
			q := pay.PaymentFilter{All: all, Host: "a.example", Tool: search.Tool, Limit: 2}
			f.same("payments of a tool", f.pages(q, 3, k), []string{ids[0], ids[4], ids[5]})
			f.same("sum of payments", must(f.SumPayments(f.ctx, []string{k.ID}, q)).Currencies, []pay.CurrencySum{{Currency: "USDC", Sum: sum(2, 11, 0)}})
		}
	},
	"what left wallets by day": func(f *fixture) {
		a, b := f.key(), f.key()
		leaves := func(k pay.Key, wallet string, door policy.Door, amount uint64, at time.Time) pay.SpendEvent {
			w := want(k, at)
			w.New.WalletID, w.New.Terms.Amount = wallet, money.New(amount)
			if door == policy.DoorOperator {
				withdraws(w)
			}
			o := outcome(f.begin(w, pay.Created), pay.VerdictSettled)
			o.At, o.EventID, o.Transaction, o.Release = at, eventID(at), transaction(w.New.ID), true
			return f.recorded(o)
		}
		own, lent := newID(), newID()
		e := leaves(a, own, policy.DoorProxy, 5, noon)
		leaves(a, lent, policy.DoorProxy, 7, noon)
		leaves(b, lent, policy.DoorProxy, 8, noon.Add(time.Second))
		leaves(b, lent, policy.DoorOperator, 100, noon.Add(aDay))
		leaves(b, lent, policy.DoorProxy, 9, noon.Add(aDay))
		f.takesBack(e, noon.Add(aDay))
		f.reopen(Opener.Kill)
		got := func(from, to time.Time, ids ...string) (list []string) {
			f.must(f.VisitWalletDays(f.ctx, ids, from, to, func(id string, d pay.WalletDay) {
				name := map[string]string{own: "own", lent: "lent"}[id]
				list = append(list, fmt.Sprint(name, " ", int(d.Day.Sub(pay.DayOf(noon))/aDay), " ", d.Spent, " ", d.Withdrawn))
			}))
			return list
		}
		all := []string{
			"own 0 " + fmt.Sprint(sum(1, 5, 0), " ", pay.Sum{}), "own 1 " + fmt.Sprint(sum(0, 0, 5), " ", pay.Sum{}),
			"lent 0 " + fmt.Sprint(sum(2, 15, 0), " ", pay.Sum{}), "lent 1 " + fmt.Sprint(sum(1, 9, 0), " ", sum(1, 100, 0)),
		}
		f.same("all", got(noon.Add(-aDay), noon.Add(9*aDay), own, newID(), lent), all)
		f.same("of a day", got(noon.Add(aDay), noon.Add(aDay), lent), all[3:])
		f.same("of an earlier one", len(got(noon.Add(-9*aDay), noon.Add(-aDay), own, lent)), 0)
	},
	"withdrawals are in no sum of spend": func(f *fixture) {
		k := f.key()
		f.spends(k, 5, "a.example", "crawl", noon)
		f.moves(k, 100, noon)
		f.takesBack(f.moves(k, 20, noon), noon.Add(aDay))
		f.spends(k, 7, "b.example", "", noon.Add(aDay))
		f.spends(k, 3, pay.WithdrawalHost, "", noon.Add(aDay)) // a seller's host has that name
		f.reopen(Opener.Kill)
		from, to := noon, noon.Add(aDay)
		f.same("summary", f.summary(from, to, k), pay.Summary{
			Days:  []pay.DaySum{{Day: pay.DayOf(from), Sum: sum(1, 5, 0)}, {Day: pay.DayOf(to), Sum: sum(2, 10, 0)}},
			Hosts: []pay.NameSum{{Name: "b.example", Sum: sum(1, 7, 0)}, {Name: "a.example", Sum: sum(1, 5, 0)}, {Name: pay.RestName, Sum: sum(1, 3, 0)}},
			Tasks: []pay.NameSum{{Name: "", Sum: sum(2, 10, 0)}, {Name: "crawl", Sum: sum(1, 5, 0)}},
		})
		var days, out pay.Sum
		f.must(f.VisitSpendDays(f.ctx, []string{k.ID}, from, to, pay.SpendDays{
			Day:       func(_ string, _ time.Time, s pay.Sum) { days.Add(s) },
			Withdrawn: func(_ string, _ time.Time, s pay.Sum) { out.Add(s) },
		}))
		f.same("days", []pay.Sum{days, out}, []pay.Sum{sum(3, 15, 0), sum(2, 120, 20)})
		spent := must(f.SumSpend(f.ctx, []string{k.ID}, pay.OrganizationSpendQuery{}))
		f.same("sum of events", []any{spent.Currencies, spent.Withdrawn}, []any{
			[]pay.CurrencySum{{Currency: "USDC", Sum: sum(3, 15, 0)}}, []pay.CurrencySum{{Currency: "USDC", Sum: sum(2, 120, 20)}},
		})
		for _, all := range []bool{false, true} {
			paid := must(f.SumPayments(f.ctx, []string{k.ID}, pay.PaymentFilter{All: all}))
			f.same("sum of payments", []any{paid.Currencies, paid.Withdrawn}, []any{
				[]pay.CurrencySum{{Currency: "USDC", Sum: sum(3, 15, 0)}}, []pay.CurrencySum{{Currency: "USDC", Sum: sum(1, 100, 0)}},
			})
		}
		f.same("listed, with corrections", len(must(f.ListSpend(f.ctx, []string{k.ID}, pay.OrganizationSpendQuery{Limit: 9})).Entries), 6)
		events := must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 2}))
		older := must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 2, Before: events[1].ID}))
		f.same("the key's own", []int{len(events), len(older)}, []int{2, 1})
	},
	"a withdrawal on a day of many hosts": func(f *fixture) {
		k := f.key()
		for i := range 40 {
			f.spends(k, 1, fmt.Sprintf("h%d.example", i), "", noon)
		}
		f.moves(k, 100, noon)
		f.moves(k, 100, noon)
		f.spends(k, 1, "h31.example", "", noon)
		f.reopen(Opener.Kill)
		var days, hosts, out pay.Sum
		f.must(f.VisitSpendDays(f.ctx, []string{k.ID}, noon, noon, pay.SpendDays{
			Day:       func(_ string, _ time.Time, s pay.Sum) { days.Add(s) },
			Host:      func(_ string, _ time.Time, _ []byte, s pay.Sum) { hosts.Add(s) },
			Withdrawn: func(_ string, _ time.Time, s pay.Sum) { out.Add(s) },
		}))
		f.same("sums", []pay.Sum{days, hosts, out}, []pay.Sum{sum(41, 41, 0), sum(41, 41, 0), sum(2, 200, 0)})
	},
	"daily sums": func(f *fixture) {
		a, b := f.key(), f.key()
		f.spends(a, 5, "a.example", "crawl", noon)
		f.spends(a, 6, "b.example", "", noon)
		f.spends(b, 7, "a.example", "crawl", noon.Add(aDay))
		visit := func(from, to time.Time, keys ...pay.Key) (days, hosts, tasks pay.Sum) {
			f.must(f.VisitSpendDays(f.ctx, keyIDs(keys), from, to, pay.SpendDays{
				Day: func(_ string, _ time.Time, s pay.Sum) { days.Add(s) },
				Host: func(_ string, _ time.Time, name []byte, s pay.Sum) {
					if string(name) == "a.example" {
						hosts.Add(s)
					}
				},
				Task: func(keyID string, day time.Time, name []byte, s pay.Sum) {
					if string(name) == "crawl" && keyID == b.ID && day.Equal(pay.DayOf(noon.Add(aDay))) {
						tasks.Add(s)
					}
				},
			}))
			return days, hosts, tasks
		}
		days, hosts, tasks := visit(time.Time{}, noon.Add(aDay), a, b)
		f.same("all", []pay.Sum{days, hosts, tasks}, []pay.Sum{sum(3, 18, 0), sum(2, 12, 0), sum(1, 7, 0)})
		days, hosts, tasks = visit(noon.Add(aDay), noon.Add(9*aDay), a, b)
		f.same("of a day", []pay.Sum{days, hosts, tasks}, []pay.Sum{sum(1, 7, 0), sum(1, 7, 0), sum(1, 7, 0)})
		days = pay.Sum{}
		f.must(f.VisitSpendDays(f.ctx, keyIDs([]pay.Key{a}), noon, noon, pay.SpendDays{Day: func(_ string, _ time.Time, s pay.Sum) { days.Add(s) }}))
		f.same("totals only", days, sum(2, 11, 0))
	},
}
