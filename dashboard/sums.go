package dashboard

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// sums tells what a filter selects adds up to.
type sums struct {
	Name    string // of what is added up
	Count   string
	Amounts []amount // by currency
	// Withdrawn holds the withdrawals that the filter selects, which are not in the sum; nil: there are none.
	Withdrawn *sums
	// Note says what is not in the sum; "" if nothing is missing.
	Note string
}

func sumsOf(name string, t pay.Totals) sums {
	s := sums{Name: name, Count: payments(t.Count()), Amounts: amountsOf(t.Currencies)}
	if len(s.Amounts) == 0 {
		s.Amounts = []amount{amountOf(pay.Sum{}.Amount, false, currency)}
	}
	if len(t.Withdrawn) > 0 {
		n := 0
		for _, c := range t.Withdrawn {
			n += c.Count
		}
		s.Withdrawn = &sums{Count: withdrawals(n), Amounts: amountsOf(t.Withdrawn)}
	}
	if t.Partial {
		s.Note = "These are the newest ones, back to " + t.Since.UTC().Format(inText) + ". Choose fewer days to add up all."
		if t.Count() == 0 {
			s.Note = "There are too many to look at all of them. Choose fewer days."
		}
	}
	return s
}

func amountsOf(list []pay.CurrencySum) (amounts []amount) {
	for _, c := range list {
		net, minus := c.Net()
		amounts = append(amounts, amountOf(net, minus, cut(c.Currency, 12)))
	}
	return amounts
}

func withdrawals(n int) string {
	if n == 1 {
		return "1 withdrawal"
	}
	return count(n) + " withdrawals"
}

// spentName names the sum of what was spent.
const spentName = "Spent"

// spendSums adds up the spend that a filter selects. Daily sums have keys, hosts and tasks; a payee, a
// tool, or a host and a task together, need the events themselves, of which the newest are added up.
func (d *dashboard) spendSums(ctx context.Context, v visit, f filter) (sums, error) {
	host, tool := pay.RecordedPlace(f.Host)
	if f.payee != nil || tool != "" || f.Host != "" && f.Task != "" {
		q, err := f.spendQuery("", 1)
		if err != nil {
			return sums{}, err
		}
		t, err := d.Books.SumSpendIn(ctx, v.scope(), q)
		return sumsOf(spentName, t), err
	}
	var all, withdrawn pay.Sum
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
	withdraw := func(_ string, _ time.Time, s pay.Sum) { withdrawn.Add(s) }
	switch {
	case host == pay.WithdrawalHost:
		visit.Withdrawn = withdraw
	case f.Host != "":
		visit.Host = named(host)
	case f.Task != "":
		visit.Task = named(f.Task)
	default:
		visit.Day, visit.Withdrawn = func(_ string, _ time.Time, s pay.Sum) { all.Add(s) }, withdraw
	}
	to := f.To
	if to.IsZero() {
		to = v.now.AddDate(0, 0, 1)
	}
	err := d.Books.VisitSpendIn(ctx, v.scope(), f.KeyID, f.From, to, visit)
	t := pay.Totals{Currencies: []pay.CurrencySum{{Currency: currency, Sum: all}}}
	if withdrawn != (pay.Sum{}) {
		t.Withdrawn = []pay.CurrencySum{{Currency: currency, Sum: withdrawn}}
	}
	s := sumsOf(spentName, t)
	if missed {
		s.Note = "On days with very many hosts or tasks, purser adds up some of them together. Payments of such a day may be missing from this sum."
	}
	return s, err
}
