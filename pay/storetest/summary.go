package storetest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// named counts the spend events that have a name.
var named atomic.Uint64

// eventID names a spend event or payment of a time, as the payer does: those of one time are in the
// order of their names.
func eventID(at time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|named.Add(1))
	return id.String()
}

// spends pays an amount at a host for a task and settles it at a time.
func (f *fixture) spends(k pay.Key, amount uint64, host, task string, at time.Time) pay.SpendEvent {
	f.Helper()
	b := want(k, at)
	b.New.Host, b.New.Task = host, task
	b.New.RequestURL = "https://" + host + "/"
	b.New.Terms.Amount = money.New(amount)
	p := f.begin(b, pay.Created)
	o := outcome(p, pay.VerdictSettled)
	o.At, o.EventID, o.Transaction, o.Release = at, eventID(at), transaction(p.ID), true
	return f.recorded(o)
}

// withdraws makes the payment of a call a withdrawal.
func withdraws(b *pay.Begin) {
	b.New.Door, b.New.Host, b.New.RequestURL, b.New.Task = policy.DoorOperator, pay.WithdrawalHost, pay.WithdrawalURL+b.New.Terms.PayTo.String(), ""
}

// moves withdraws an amount from a key's wallet at a time.
func (f *fixture) moves(k pay.Key, amount uint64, at time.Time) pay.SpendEvent {
	f.Helper()
	b := want(k, at)
	withdraws(b)
	b.New.Terms.Amount = money.New(amount)
	p := f.begin(b, pay.Created)
	o := outcome(p, pay.VerdictSettled)
	o.At, o.EventID, o.Transaction, o.Release = at, eventID(at), transaction(p.ID), true
	return f.recorded(o)
}

// takesBack disproves the payment of an event.
func (f *fixture) takesBack(e pay.SpendEvent, at time.Time) pay.SpendEvent {
	f.Helper()
	o := outcome(f.acquired(e.PaymentID), pay.VerdictDisputed)
	o.At, o.EventID, o.Release = at, eventID(at), true
	return f.recorded(o)
}

// recorded records an outcome that makes an event.
func (f *fixture) recorded(o pay.Outcome) pay.SpendEvent {
	f.Helper()
	_, fx, err := f.Record(f.ctx, o)
	f.must(err)
	return *fx.Event
}

func (f *fixture) summary(from, to time.Time, keys ...pay.Key) pay.Summary {
	f.Helper()
	return must(f.SpendSummary(f.ctx, keyIDs(keys), from, to))
}

func keyIDs(keys []pay.Key) (list []string) {
	for _, k := range keys {
		list = append(list, k.ID)
	}
	return list
}

func sum(count int, amount, corrected uint64) pay.Sum {
	return pay.Sum{Count: count, Amount: money.New(amount), Corrected: money.New(corrected)}
}

const aDay = 24 * time.Hour

var summaryTests = map[string]func(*fixture){
	"by day, host and task": func(f *fixture) {
		a, b, other := f.key(), f.key(), f.key()
		f.spends(a, 1, "a.example", "crawl", noon)
		f.spends(a, 10, "b.example", "", noon.Add(12*time.Hour-time.Nanosecond))
		f.spends(a, 100, "a.example:8443", "crawl", noon.Add(12*time.Hour))
		f.spends(b, 1000, "a.example", "sum", noon.Add(2*aDay))
		f.spends(b, 10_000, "", "sum", noon.Add(-12*time.Hour))
		f.spends(b, 100_000, "a.example", "", noon.Add(-12*time.Hour-time.Nanosecond)) // the day before
		f.spends(other, 7, "a.example", "crawl", noon)
		f.same("summary", f.summary(noon, noon.Add(2*aDay), a, b), pay.Summary{
			Days: []pay.DaySum{
				{Day: pay.DayOf(noon), Sum: sum(3, 10_011, 0)},
				{Day: pay.DayOf(noon).Add(aDay), Sum: sum(1, 100, 0)},
				{Day: pay.DayOf(noon).Add(2 * aDay), Sum: sum(1, 1000, 0)},
			},
			Hosts: []pay.NameSum{
				{Name: "", Sum: sum(1, 10_000, 0)},
				{Name: "a.example", Sum: sum(2, 1001, 0)},
				{Name: "a.example:8443", Sum: sum(1, 100, 0)},
				{Name: "b.example", Sum: sum(1, 10, 0)},
			},
			Tasks: []pay.NameSum{{Name: "sum", Sum: sum(2, 11_000, 0)}, {Name: "crawl", Sum: sum(2, 101, 0)}, {Name: "", Sum: sum(1, 10, 0)}},
		})
		f.same("the day before", f.summary(noon.Add(-aDay), noon.Add(-aDay), a, b).Total(), sum(1, 100_000, 0))
		f.same("of one key", f.summary(noon, noon, a).Total(), sum(2, 11, 0))
		f.reopen(Opener.Kill)
		f.same("total", f.summary(noon.Add(-9*aDay), noon.Add(9*aDay), a, b).Total(), sum(6, 111_111, 0))
		f.same("of no key", f.summary(noon, noon), pay.Summary{Days: []pay.DaySum{{Day: pay.DayOf(noon)}}, Hosts: []pay.NameSum{}, Tasks: []pay.NameSum{}})
		f.same("of an unknown key", f.summary(noon, noon, pay.Key{ID: newID()}).Total(), pay.Sum{})
	},
	"corrections count on their own day": func(f *fixture) {
		k := f.key()
		e := f.spends(k, 5, "a.example", "crawl", noon)
		f.spends(k, 3, "a.example", "crawl", noon)
		f.takesBack(e, noon.Add(3*aDay))
		days := f.summary(noon, noon.Add(3*aDay), k)
		f.same("the day", days.Days[0].Sum, sum(2, 8, 0))
		f.same("the day of the correction", days.Days[3].Sum, sum(0, 0, 5))
		f.same("hosts", days.Hosts, []pay.NameSum{{Name: "a.example", Sum: sum(2, 8, 5)}})
		f.same("tasks", days.Tasks, []pay.NameSum{{Name: "crawl", Sum: sum(2, 8, 5)}})
		net, negative := days.Days[3].Net()
		f.same("net of the day of the correction", []any{net, negative}, []any{money.New(5), true})
		net, negative = days.Total().Net()
		f.same("net", []any{net, negative}, []any{money.New(3), false})
	},
	"settled late": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.VerdictVoid)
		o.Release = true
		f.record(o)
		f.same("void", f.summary(noon, noon.Add(aDay), k).Total(), pay.Sum{})
		o = outcome(p, pay.VerdictSettled)
		o.At, o.Fence, o.EventID = noon.Add(aDay), 0, eventID(noon.Add(aDay))
		f.record(o)
		f.record(o) // once more, by another witness
		days := f.summary(noon, noon.Add(aDay), k).Days
		f.same("days", []pay.Sum{days[0].Sum, days[1].Sum}, []pay.Sum{{}, sum(1, 5, 0)})
	},
	"a refused outcome is not summed up": func(f *fixture) {
		k := f.key()
		e := f.spends(k, 5, "a.example", "crawl", noon)
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.At, o.EventID = noon, e.ID // taken
		if _, _, err := f.Record(f.ctx, o); err == nil {
			f.Fatal("an event's id was used twice")
		}
		o = outcome(p, pay.VerdictSettled)
		o.Transaction, o.ClaimedTransaction = transaction(e.PaymentID), true
		_, _, err := f.Record(f.ctx, o)
		f.fails(err, pay.ErrTransactionKnown)
		f.same("total", f.summary(noon, noon, k).Total(), sum(1, 5, 0))
	},
	"all at once": func(f *fixture) {
		k := f.key()
		var begun []*pay.Payment
		for range crowd {
			begun = append(begun, f.begin(want(k, noon), pay.Created))
		}
		errs := together(crowd, func(i int) error {
			o := outcome(begun[i], pay.VerdictSettled)
			if i%8 == 0 {
				o.EventID = "" // fails alone
			}
			_, _, err := f.Record(f.ctx, o)
			return err
		})
		failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
		f.same("failed", failed, crowd/8)
		f.same("total", f.summary(noon, noon, k).Total(), sum(crowd-crowd/8, 5*(crowd-crowd/8), 0))
	},
	"invented names": func(f *fixture) {
		k := f.key()
		const many = 3 * pay.MaxNames
		var all uint64
		f.spends(k, 1000, "first.example", "first", noon)
		for i := range uint64(many) {
			f.spends(k, i, fmt.Sprintf("host-%d.example", i), fmt.Sprintf("task-%d", i), noon)
			all += i
		}
		f.spends(k, 1, strings.Repeat("a", 8000)+".example", "first", noon)
		f.spends(k, 1, strings.Repeat("b.", 127)+"example:65535", "first", noon)
		f.spends(k, 1000, "first.example", "first", noon)
		all += 2002
		s := f.summary(noon, noon, k)
		f.same("total", s.Total(), sum(many+4, all, 0))
		for what, list := range map[string][]pay.NameSum{"hosts": s.Hosts, "tasks": s.Tasks} {
			var total pay.Sum
			for i, n := range list {
				total.Add(n.Sum)
				if len(n.Name) > 300 || n.Name == pay.RestName && i < len(list)-1 {
					f.Fatalf("%s has %.40q", what, n.Name)
				}
			}
			if len(list) > pay.MaxNames+1 || list[len(list)-1].Name != pay.RestName {
				f.Fatalf("%d %s, the last one %q", len(list), what, list[len(list)-1].Name)
			}
			f.same(what, total, sum(many+4, all, 0))
			if list[0].Name[:5] != "first" || list[0].Count < 2 {
				f.Fatalf("the largest of the %s is %+v", what, list[0])
			}
		}
	},
	"many days of many keys": func(f *fixture) {
		var keys []pay.Key
		for range 14 {
			keys = append(keys, f.key())
		}
		const days = 15 // with the keys more than a bounded read takes
		for i, k := range keys {
			for day := i % 2; day < days; day += 2 {
				f.spends(k, 1, "a.example", "crawl", noon.AddDate(0, 0, day))
			}
		}
		s := f.summary(noon, noon.AddDate(0, 0, days-1), keys...)
		for i, d := range s.Days {
			f.same("day", []any{d.Day, d.Sum}, []any{pay.DayOf(noon).AddDate(0, 0, i), sum(7, 7, 0)})
		}
		f.same("hosts", s.Hosts, []pay.NameSum{{Name: "a.example", Sum: sum(7*days, 7*days, 0)}})
	},
	"amounts that no sum can hold": func(f *fixture) {
		k := f.key()
		most := must(money.Parse("115792089237316195423570985008687907853269984665640564039457584007913129639935")) // 2^256-1
		for range 2 {
			b := want(k, noon)
			b.New.Terms.Amount, b.Limits = most, nil
			o := outcome(f.begin(b, pay.Created), pay.VerdictSettled)
			o.At = noon
			f.record(o)
		}
		f.same("total", f.summary(noon, noon, k).Total(), pay.Sum{Count: 2, Amount: most})
	},
}
