package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// listed reads all pages of a listing over keys. It demands at most `most` pages, none longer
// than the limit.
func (f *fixture) listed(q pay.OrganizationSpendQuery, most int, keys ...pay.Key) []pay.SpendEntry {
	f.Helper()
	all := []pay.SpendEntry{}
	for range most {
		page := must(f.ListSpend(f.ctx, keyIDs(keys), q))
		if len(page.Entries) > q.Limit {
			f.Fatalf("%d events on a page of %d", len(page.Entries), q.Limit)
		}
		if all = append(all, page.Entries...); page.Next == "" {
			return all
		}
		q.Before = page.Next
	}
	f.Fatalf("no end after %d pages and %d events", most, len(all))
	return nil
}

// lists demands the events of a listing, newest first, for pages of several lengths.
func (f *fixture) lists(what string, q pay.OrganizationSpendQuery, keys []pay.Key, events ...pay.SpendEvent) {
	f.Helper()
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b pay.SpendEvent) int { return strings.Compare(b.ID, a.ID) })
	for _, q.Limit = range []int{1, 2, 3, 100} {
		got := []pay.SpendEvent{}
		for _, e := range f.listed(q, len(events)+2, keys...) {
			got = append(got, e.SpendEvent)
		}
		f.same(fmt.Sprintf("%s, in pages of %d", what, q.Limit), got, append([]pay.SpendEvent{}, events...))
	}
}

var spendTests = map[string]func(*fixture){
	"newest first, over keys": func(f *fixture) {
		a, b, other := f.key(), f.key(), f.key()
		var all, ofA []pay.SpendEvent
		for i := range 12 {
			k := []pay.Key{a, b, a}[i%3]
			e := f.spends(k, uint64(i), "a.example", "crawl", noon.Add(time.Duration(i)*time.Minute))
			f.spends(other, 1, "a.example", "crawl", noon)
			if all = append(all, e); k.ID == a.ID {
				ofA = append(ofA, e)
			}
		}
		all = append(all, f.takesBack(all[3], noon.Add(time.Hour)))
		f.lists("both", pay.OrganizationSpendQuery{}, []pay.Key{a, b}, all...)
		f.lists("one", pay.OrganizationSpendQuery{}, []pay.Key{a}, append(ofA, all[12])...)
		f.lists("an unknown key", pay.OrganizationSpendQuery{}, []pay.Key{{ID: newID()}})
		f.lists("of no key", pay.OrganizationSpendQuery{}, nil)
		f.reopen(Opener.Kill)
		f.lists("both, reopened", pay.OrganizationSpendQuery{}, []pay.Key{b, a}, all...)
	},
	"positions": func(f *fixture) {
		a, b, other := f.key(), f.key(), f.key()
		first := f.spends(a, 1, "a.example", "crawl", noon)
		second := f.spends(b, 1, "b.example", "", noon.Add(time.Minute))
		theirs := f.spends(other, 1, "a.example", "crawl", noon.Add(2*time.Minute))
		fails := func(before string, keys ...pay.Key) {
			f.Helper()
			for _, host := range []string{"", "a.example"} {
				_, err := f.ListSpend(f.ctx, keyIDs(keys), pay.OrganizationSpendQuery{Before: before, Host: host, Limit: 5})
				f.fails(err, pay.ErrEventNotFound)
			}
		}
		fails(theirs.ID, a, b)
		fails(newID(), a, b)
		fails(second.ID, a)
		fails("\x00", a, b)
		fails(strings.Repeat("x", 5000), a, b)
		fails(first.ID)
		// A position need not be one of what is listed.
		f.lists("behind another host", pay.OrganizationSpendQuery{Before: second.ID, Host: "a.example"}, []pay.Key{a, b}, first)
		f.lists("at the end", pay.OrganizationSpendQuery{Before: first.ID}, []pay.Key{a, b})
	},
	"what its payment tells": func(f *fixture) {
		k := f.key()
		e := f.spends(k, 1, "a.example", "crawl", noon)
		entry := func(e pay.SpendEvent, flags ...string) pay.SpendEntry {
			p := must(f.Payment(f.ctx, e.PaymentID))
			return pay.SpendEntry{
				Means:      pay.Means{Protocol: pay.ProtocolX402, Rail: "eip3009"},
				SpendEvent: e, Transaction: transaction(e.PaymentID), Network: "base", Settlement: "seller", Flags: append([]string{}, flags...),
				WalletID: p.WalletID, From: p.Authorization.From, PayTo: p.Terms.PayTo, Asset: p.Terms.Asset, Door: p.Door,
			}
		}
		list := func() []pay.SpendEntry { return f.listed(pay.OrganizationSpendQuery{Limit: 10}, 1, k) }
		f.same("settled", list(), []pay.SpendEntry{entry(e)})
		back := f.takesBack(e, noon.Add(time.Minute))
		f.same("disputed", list(), []pay.SpendEntry{entry(back, "disputed"), entry(e, "disputed")})
	},
	"by host, task and day": func(f *fixture) {
		keys := []pay.Key{f.key(), f.key()}
		long := strings.Repeat("a", 8000) + ".example"
		hosts := []string{"a.example", "a.example:8443", "b.example", "", long}
		tasks := []string{"", "crawl", "crawler"}
		var all []pay.SpendEvent
		for i := range 60 {
			e := f.spends(keys[i%2], 1, hosts[i%5], tasks[i%3], noon.Add(time.Duration(i)*2*time.Hour))
			if all = append(all, e); i%13 == 0 {
				all = append(all, f.takesBack(e, e.Created.Add(25*time.Hour)))
			}
		}
		for _, host := range append(hosts, "c.example", "a.exampl", pay.RestName) {
			for _, task := range append(tasks, "craw") {
				for _, days := range [][2]time.Time{{}, {noon.Add(aDay), noon.Add(aDay)}, {noon.Add(2 * aDay), {}}, {{}, noon.Add(aDay)}, {noon.Add(99 * aDay), {}}, {{}, noon.Add(-aDay)}, {noon.Add(aDay), noon}} {
					q := pay.OrganizationSpendQuery{Host: host, Task: task, From: days[0], To: days[1]}
					var wanted []pay.SpendEvent
					for _, e := range all {
						day := pay.DayOf(e.Created)
						if (host == "" || e.Host == host) && (task == "" || e.Task == task) &&
							(q.From.IsZero() || !day.Before(pay.DayOf(q.From))) && (q.To.IsZero() || !day.After(pay.DayOf(q.To))) {
							wanted = append(wanted, e)
						}
					}
					f.lists(fmt.Sprintf("host %.20q, task %q, days %v", host, task, days), q, keys, wanted...)
				}
			}
		}
	},
	"days begin and end at midnight UTC": func(f *fixture) {
		k := f.key()
		midnight := pay.DayOf(noon)
		before := f.spends(k, 1, "a.example", "", midnight.Add(-time.Nanosecond))
		first := f.spends(k, 1, "a.example", "", midnight)
		last := f.spends(k, 1, "a.example", "", midnight.Add(aDay-time.Nanosecond))
		after := f.spends(k, 1, "a.example", "", midnight.Add(aDay))
		zone := time.FixedZone("east", 14*3600)
		f.lists("the day", pay.OrganizationSpendQuery{From: noon, To: noon.In(zone)}, []pay.Key{k}, first, last)
		f.lists("until", pay.OrganizationSpendQuery{To: noon}, []pay.Key{k}, before, first, last)
		f.lists("from", pay.OrganizationSpendQuery{From: noon}, []pay.Key{k}, first, last, after)
		f.same("summed up", f.summary(noon.In(zone), noon, k).Total(), sum(2, 2, 0))
	},
	"the rare among many": func(f *fixture) {
		keys := []pay.Key{f.key(), f.key()}
		var rare []pay.SpendEvent
		for i := range 150 { // never both, but at the beginning and in the middle
			host, task := "often.example", ""
			if i%2 == 0 {
				host, task = "", "often"
			}
			if i == 5 || i == 75 {
				host, task = "often.example", "often"
			}
			e := f.spends(keys[i%3/2], 1, host, task, noon.Add(time.Duration(i)*time.Second))
			if i == 5 || i == 75 {
				rare = append(rare, e)
			}
		}
		f.lists("both", pay.OrganizationSpendQuery{Host: "often.example", Task: "often"}, keys, rare...)
	},
	"of more keys than one read takes": func(f *fixture) {
		var keys []pay.Key
		var all []pay.SpendEvent
		for i := range 60 {
			k := pay.Key{ID: newID()}
			if keys = append(keys, k); i%4 == 3 {
				for n := range 3 {
					all = append(all, f.spends(k, 1, "a.example", "crawl", noon.Add(time.Duration(60*n+i)*time.Second)))
				}
			}
		}
		f.lists("all", pay.OrganizationSpendQuery{}, keys, all...)
		f.lists("of a host", pay.OrganizationSpendQuery{Host: "a.example", Task: "crawl"}, keys, all...)
		f.same("summed up", f.summary(noon, noon.Add(aDay), keys...).Total(), sum(45, 45, 0))
	},
	"payments over keys": func(f *fixture) {
		a, b, other := f.key(), f.key(), f.key()
		with := map[string][]*pay.Payment{}
		for i := range 24 {
			k := []pay.Key{a, b, a, other}[i%4]
			p := f.begin(want(k, noon), pay.Created)
			for _, v := range [][]pay.Verdict{{}, {pay.VerdictSettled}, {pay.VerdictUnresolved}, {pay.VerdictSettled, pay.VerdictDisputed}, {pay.VerdictVoid}}[i%5] {
				p = f.record(outcome(p, v))
			}
			if k.ID != other.ID {
				for _, label := range append(p.Labels(), "") {
					with[label] = append(with[label], p)
				}
			}
		}
		for _, label := range []string{"", "open", "settled", "void", "refused", "unresolved", "disputed", "lost"} {
			for _, limit := range []int{1, 3, 100} {
				list := must(f.PaymentsOf(f.ctx, keyIDs([]pay.Key{a, b}), label, limit))
				wanted := newestFirst(with[label]...)
				f.same(fmt.Sprintf("%d payments with label %q", limit, label), ids(list), wanted[:min(limit, len(wanted))])
			}
		}
	},
}
