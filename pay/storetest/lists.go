package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// ids lists the ids of payments.
func ids(list []*pay.Payment) []string {
	out := []string{}
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}

// list reads all pages of a listing.
func (f *fixture) list(k pay.Key, label string, page int) []string {
	f.Helper()
	all, before := []string{}, ""
	for {
		part := must(f.Payments(f.ctx, pay.PaymentQuery{KeyID: k.ID, Label: label, Before: before, Limit: page}))
		if len(part) > page {
			f.Fatalf("%d payments on a page of %d", len(part), page)
		}
		if len(part) == 0 {
			return all
		}
		all = append(all, ids(part)...)
		before = part[len(part)-1].ID
	}
}

// listAll reads all pages of a listing over all keys.
func (f *fixture) listAll(label string, without []string, page int) []string {
	f.Helper()
	all, before := []string{}, ""
	for {
		part := must(f.AllPayments(f.ctx, pay.LabelQuery{Label: label, Without: without, Before: before, Limit: page}))
		if len(part) > page {
			f.Fatalf("%d payments on a page of %d", len(part), page)
		}
		if len(part) == 0 {
			return all
		}
		all = append(all, ids(part)...)
		before = part[len(part)-1].ID
	}
}

// newestFirst lists ids in reverse.
func newestFirst(list ...*pay.Payment) []string {
	out := ids(list)
	slices.Reverse(out)
	return out
}

var listTests = map[string]func(*fixture){
	"payments, newest first": func(f *fixture) {
		k, other := f.key(), f.key()
		var all []*pay.Payment
		for range 7 {
			all = append(all, f.begin(want(k, noon), pay.Created))
			f.begin(want(other, noon), pay.Created)
		}
		for page := 1; page <= 8; page++ {
			f.same("pages", f.list(k, "", page), newestFirst(all...))
		}
		part := must(f.Payments(f.ctx, pay.PaymentQuery{KeyID: k.ID, Limit: 1}))
		f.same("row", part[0], all[6])
		f.same("payments of an unknown key", len(f.list(pay.Key{ID: newID()}, "", 5)), 0)
	},
	"payments by label": func(f *fixture) {
		k := f.key()
		with := map[string][]*pay.Payment{}
		for range 3 {
			for _, verdicts := range [][]pay.Verdict{
				{},
				{pay.VerdictSettled},
				{pay.VerdictVoid},
				{pay.VerdictRefused},
				{pay.VerdictUnresolved},
				{pay.VerdictSettled, pay.VerdictConfirmed},
				{pay.VerdictSettled, pay.VerdictDisputed},
				{pay.VerdictRefused, pay.VerdictVoid},
				{pay.VerdictUnresolved, pay.VerdictSettled},
			} {
				p := f.begin(want(k, noon), pay.Created)
				for _, v := range verdicts {
					o := outcome(p, v)
					p = f.record(o)
				}
				for _, label := range p.Labels() {
					with[label] = append(with[label], p)
				}
			}
		}
		for _, label := range []string{"open", "settled", "void", "refused", "unresolved", "confirmed", "disputed"} {
			for _, page := range []int{1, 4, 100} {
				f.same(label, f.list(k, label, page), newestFirst(with[label]...))
			}
		}
		f.same("unknown label", len(f.list(k, "lost", 5)), 0)
		for _, label := range []string{"open", "unresolved", "disputed"} {
			f.same("number of "+label, must(f.CountOpen(f.ctx, label)), len(with[label]))
		}
	},
	"payments of all keys": func(f *fixture) {
		a, b := f.key(), f.key()
		var all []*pay.Payment
		for range 3 {
			for _, verdicts := range [][]pay.Verdict{
				{},
				{pay.VerdictUnresolved},
				{pay.VerdictRefused},
				{pay.VerdictRefused, pay.VerdictVoid},
				{pay.VerdictUnresolved, pay.VerdictSettled},
				{pay.VerdictSettled, pay.VerdictConfirmed},
				{pay.VerdictSettled, pay.VerdictDisputed},
			} {
				for _, k := range []pay.Key{a, b} {
					p := f.begin(want(k, noon), pay.Created)
					for _, v := range verdicts {
						p = f.record(outcome(p, v))
					}
					all = append(all, p)
				}
			}
		}
		for _, label := range []string{"", "open", "settled", "void", "refused", "unresolved", "confirmed", "disputed"} {
			for _, without := range [][]string{nil, {"refused"}, {"confirmed", "disputed"}} {
				expected := newestFirst(slices.DeleteFunc(slices.Clone(all), func(p *pay.Payment) bool {
					return !pay.LabelQuery{Label: label, Without: without}.Wants(p)
				})...)
				for _, page := range []int{1, 4, 100} {
					f.same(fmt.Sprint(label, " without ", without), f.listAll(label, without, page), expected)
				}
			}
		}
		f.same("unknown label", len(f.listAll("lost", nil, 5)), 0)
		part := must(f.AllPayments(f.ctx, pay.LabelQuery{Label: "disputed", Limit: 1}))
		f.same("row", part[0], all[len(all)-1])
	},
	"numbers are over all keys": func(f *fixture) {
		a := f.begin(want(f.key(), noon), pay.Created)
		f.begin(want(f.key(), noon), pay.Created)
		count := func(want int) {
			f.Helper()
			f.same("open", must(f.CountOpen(f.ctx, "open")), want)
		}
		count(2)
		f.settle(a, true)
		count(1)
	},
	"due": func(f *fixture) {
		k := f.key()
		at := func(p *pay.Payment, t time.Time) *pay.Payment {
			o := outcome(p, pay.Unclear)
			o.Check = t
			return f.record(o)
		}
		due := func(now time.Time, limit int, want ...*pay.Payment) {
			f.Helper()
			f.same("due", ids(must(f.Due(f.ctx, now, limit))), ids(want))
		}
		a, b, c := f.begin(want(k, noon), pay.Created), f.begin(want(k, noon), pay.Created), f.begin(want(k, noon), pay.Created)
		due(noon.Add(time.Hour), 10)
		at(a, noon.Add(3*time.Second))
		at(b, noon.Add(time.Second))
		at(c, noon.Add(2*time.Second+1))
		due(noon, 10)
		due(noon.Add(time.Second-1), 10)
		due(noon.Add(time.Second), 10, b)
		due(noon.Add(2*time.Second), 10, b)
		due(noon.Add(time.Hour), 10, b, c, a)
		due(noon.Add(time.Hour), 2, b, c)
		at(b, noon.Add(time.Minute)) // it was looked at
		due(noon.Add(time.Hour), 10, c, a, b)
		from := want(k, noon)
		from.New.Check = noon.Add(-time.Hour)
		due(noon, 10, f.begin(from, pay.Created))
	},
	"spend events, newest first": func(f *fixture) {
		k, other := f.key(), f.key()
		var expected []string
		for range 7 {
			expected = append(expected, f.settle(f.begin(want(k, noon), pay.Created), true).EventID)
			f.settle(f.begin(want(other, noon), pay.Created), true)
		}
		slices.Reverse(expected)
		for page := 1; page <= 8; page++ {
			all, before := []string{}, ""
			for {
				part := must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: page, Before: before}))
				if len(part) == 0 {
					break
				}
				for _, e := range part {
					all = append(all, e.ID)
				}
				before = all[len(all)-1]
			}
			f.same("pages", all, expected)
		}
	},
	"spend events behind an unknown one": func(f *fixture) {
		k, other := f.key(), f.key()
		f.settle(f.begin(want(k, noon), pay.Created), true)
		others := f.settle(f.begin(want(other, noon), pay.Created), true).EventID
		for _, before := range []string{newID(), others, "x"} {
			_, err := f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 10, Before: before})
			f.fails(err, pay.ErrEventNotFound)
		}
		f.same("events of an unknown key", len(must(f.SpendEvents(f.ctx, newID(), pay.SpendQuery{Limit: 10}))), 0)
	},
	"a counter that was never written": func(f *fixture) {
		f.counts("counter", "nothing", 0)
	},
}
