package dashboard

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// sums tells what a filter selects adds up to.
type sums struct {
	Count   string
	Amounts []amount // by currency
	// Note says what is not in the sum; "" if nothing is missing.
	Note string
}

func sumsOf(t pay.Totals) sums {
	s := sums{Count: payments(t.Count())}
	for _, c := range t.Currencies {
		net, minus := c.Net()
		s.Amounts = append(s.Amounts, amountOf(net, minus, cut(c.Currency, 12)))
	}
	if len(s.Amounts) == 0 {
		s.Amounts = []amount{amountOf(pay.Sum{}.Amount, false, currency)}
	}
	if t.Partial {
		s.Note = "These are the newest ones, back to " + t.Since.UTC().Format(inText) + ". Choose fewer days to add up all."
		if t.Count() == 0 {
			s.Note = "There are too many to look at all of them. Choose fewer days."
		}
	}
	return s
}

// spendSums adds up the spend that a filter selects. Daily sums have keys, hosts and tasks; a payee,
// or a host and a task together, need the events themselves, of which the newest are added up.
func (d *dashboard) spendSums(ctx context.Context, v visit, f filter) (sums, error) {
	if f.payee != nil || f.Host != "" && f.Task != "" {
		q, err := f.spendQuery("", 1)
		if err != nil {
			return sums{}, err
		}
		t, err := d.Books.SumSpendIn(ctx, v.scope(), q)
		return sumsOf(t), err
	}
	var all pay.Sum
	missed := false
	visit := pay.SpendDays{}
	named := func(want string) func(string, time.Time, []byte, pay.Sum) {
		return func(_ string, _ time.Time, name []byte, s pay.Sum) {
			switch string(name) {
			case want:
				all.Add(s)
			case pay.RestName:
				missed = true
			}
		}
	}
	switch {
	case f.Host != "":
		visit.Host = named(pay.RecordedHost(f.Host))
	case f.Task != "":
		visit.Task = named(f.Task)
	default:
		visit.Day = func(_ string, _ time.Time, s pay.Sum) { all.Add(s) }
	}
	to := f.To
	if to.IsZero() {
		to = v.now.AddDate(0, 0, 1)
	}
	err := d.Books.VisitSpendIn(ctx, v.scope(), f.KeyID, f.From, to, visit)
	var t pay.Totals
	t.Add(currency, all)
	s := sumsOf(t)
	if missed {
		s.Note = "On days with very many hosts or tasks, purser adds up some of them together. Payments of such a day may be missing from this sum."
	}
	return s, err
}
