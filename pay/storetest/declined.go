package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// declined makes a count of declines.
func declined(keyID, reason, host string, n int, at time.Time) pay.Declined {
	return pay.Declined{KeyID: keyID, Day: pay.DayOf(at), Reason: reason, Host: host, Count: n, First: at, Last: at, Detail: fmt.Sprint(n)}
}

// declines lists as "reason host count detail", in order.
func (f *fixture) declines(from, to time.Time, keyIDs ...string) (list []string) {
	f.Helper()
	rows := must(f.Declines(f.ctx, keyIDs, from, to))
	slices.SortFunc(rows, func(a, b pay.Declined) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host))
	})
	for _, d := range rows {
		if !pay.DayOf(d.First).Equal(d.Day) || d.First.After(d.Last) {
			f.Errorf("%+v is not of its day", d)
		}
		list = append(list, fmt.Sprintf("%s %s %d %s", d.Reason, d.Host, d.Count, d.Detail))
	}
	return list
}

var declineTests = map[string]func(*fixture){
	"counts add up, and reopen": func(f *fixture) {
		k := must(f.CreateKey(f.ctx, newKey(""))).ID
		price := money.New(7)
		first, last := declined(k, "daily-budget", "a.example", 2, noon), declined(k, "daily-budget", "a.example", 3, noon.Add(time.Hour))
		last.Price, last.Task = &price, "crawl"
		f.must(f.AddDeclines(f.ctx, []pay.Declined{last, declined("", "no-key", "", 1, noon), declined("unknown", "x", "y", 1, noon)}))
		f.must(f.AddDeclines(f.ctx, []pay.Declined{first, declined(k, "daily-budget", "b.example", 1, noon)}))
		f.open.Close(f)
		f.Store = f.open.Open(f)
		f.same("the key's", f.declines(noon, noon, k), []string{"daily-budget a.example 5 3", "daily-budget b.example 1 1"})
		f.same("with those of no key", f.declines(noon, noon, k, "", "unknown"), []string{"no-key  1 1", "daily-budget a.example 5 3", "daily-budget b.example 1 1"})
		f.same("of no keys", f.declines(noon, noon), []string(nil))
		rows := must(f.Declines(f.ctx, []string{k}, noon, noon))
		i := slices.IndexFunc(rows, func(d pay.Declined) bool { return d.Host == "a.example" })
		if d := rows[i]; d.KeyID != k || !d.First.Equal(noon) || !d.Last.Equal(noon.Add(time.Hour)) || d.Price == nil || *d.Price != price || d.Task != "crawl" {
			f.Errorf("%+v", d)
		}
	},
	"a range of days": func(f *fixture) {
		k := must(f.CreateKey(f.ctx, newKey(""))).ID
		for i := range 4 {
			f.must(f.AddDeclines(f.ctx, []pay.Declined{declined(k, "paused", "h", i+1, noon.AddDate(0, 0, i))}))
		}
		f.same("two days", f.declines(noon.AddDate(0, 0, 1), noon.AddDate(0, 0, 2), k), []string{"paused h 2 2", "paused h 3 3"})
		f.same("none", f.declines(noon.AddDate(0, 0, 4), noon.AddDate(0, 0, 9), k), []string(nil))
		f.same("upside down", f.declines(noon.AddDate(0, 0, 2), noon, k), []string(nil))
	},
	"bounded hosts and days": func(f *fixture) {
		k, other := must(f.CreateKey(f.ctx, newKey(""))).ID, must(f.CreateKey(f.ctx, newKey(""))).ID
		var list []pay.Declined
		for i := range pay.MaxDeclined + 20 {
			list = append(list, declined(k, "host", fmt.Sprintf("h%03d", i), 1, noon))
		}
		list = append(list, list...)
		f.must(f.AddDeclines(f.ctx, append(list, declined(other, "host", "h", 1, noon))))
		rows := f.declines(noon, noon, k)
		if len(rows) != pay.MaxDeclined+1 || rows[0] != "host h000 2 1" || rows[pay.MaxDeclined] != "… … 40 1" {
			f.Errorf("%d rows, from %q to %q", len(rows), rows[0], rows[len(rows)-1])
		}
		f.must(f.AddDeclines(f.ctx, []pay.Declined{declined(k, "host", "h", 1, noon.AddDate(0, 0, pay.MaxDeclinedDays-1))}))
		if n := len(f.declines(noon, noon, k)); n != pay.MaxDeclined+1 {
			f.Errorf("%d rows of the first day are left, too early", n)
		}
		f.must(f.AddDeclines(f.ctx, []pay.Declined{declined(k, "host", "h", 1, noon.AddDate(0, 0, pay.MaxDeclinedDays))}))
		f.same("the key's first day", f.declines(noon, noon, k), []string(nil))
		f.same("the other key's", f.declines(noon, noon, other), []string{"host h 1 1"})
	},
}
