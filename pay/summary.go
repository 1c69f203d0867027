package pay

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
)

// SpendBook reads what several keys spent. The caller checks whose they are.
type SpendBook interface {
	// SpendSummary adds up what the keys spent on UTC days, at a cost of keys times days.
	SpendSummary(ctx context.Context, keyIDs []string, from, to time.Time) (Summary, error)
	// VisitSpendDays visits the daily sums of the keys from one UTC day to another, at a cost of keys
	// times days. The zero from is no bound. The visitor must not call the store. Withdrawals are in no
	// sum but their own.
	VisitSpendDays(ctx context.Context, keyIDs []string, from, to time.Time, visit SpendDays) error
	// VisitWalletDays visits what left wallets from one UTC day to another, by wallet and day, at a cost
	// of wallets times days. Days without an event are left out. The visitor must not call the store.
	VisitWalletDays(ctx context.Context, walletIDs []string, from, to time.Time, visit func(walletID string, d WalletDay)) error
	// ListSpend lists the keys' events, newest first. It ignores q.KeyID. A call
	// looks at a bounded number of rows; a page that ends early for that has a Next.
	// ErrEventNotFound when q.Before is an event of none of the keys.
	ListSpend(ctx context.Context, keyIDs []string, q OrganizationSpendQuery) (SpendPage, error)
	// SumSpend adds up the events that ListSpend lists, of a bounded number of rows: the newest ones. It
	// ignores q.Before and q.Limit.
	SumSpend(ctx context.Context, keyIDs []string, q OrganizationSpendQuery) (Totals, error)
	// ListPayments lists the keys' payments, newest first. A call looks at a bounded number of rows;
	// a page that ends early for that has a Next.
	ListPayments(ctx context.Context, keyIDs []string, f PaymentFilter) (PaymentPage, error)
	// SumPayments adds up payments that ListPayments lists, of a bounded number of rows: the newest
	// ones. Amount is what they moved or can move. Without a label, it adds up those that moved their money: see
	// [PaymentFilter.Summed]. It ignores f.Before and f.Limit.
	SumPayments(ctx context.Context, keyIDs []string, f PaymentFilter) (Totals, error)
	// PaymentsOf lists the keys' payments, newest first. Of a label that most payments get
	// (settled, confirmed) only recent ones are found.
	PaymentsOf(ctx context.Context, keyIDs []string, label string, limit int) ([]*Payment, error)
}

// Sum holds the total of spend events. A total that no amount can hold stays at the largest amount.
type Sum struct {
	Count     int          // of events that correct none
	Amount    money.Amount // of those, in the asset's smallest unit
	Corrected money.Amount // of the events that take earlier ones back, which may be another day's
}

// Net returns Amount less Corrected; negative tells that it is below zero by that much.
func (s Sum) Net() (net money.Amount, negative bool) {
	if s.Amount.Cmp(s.Corrected) < 0 {
		net, _ = s.Corrected.Sub(s.Amount)
		return net, true
	}
	net, _ = s.Amount.Sub(s.Corrected)
	return net, false
}

// Event adds a spend event.
func (s *Sum) Event(e *SpendEvent) {
	if e.Corrects != "" {
		s.Add(Sum{Corrected: e.Amount})
		return
	}
	s.Add(Sum{Count: 1, Amount: e.Amount})
}

// Add adds another sum.
func (s *Sum) Add(o Sum) {
	s.Count += min(o.Count, math.MaxInt-s.Count)
	s.Amount, s.Corrected = s.Amount.AddSaturated(o.Amount), s.Corrected.AddSaturated(o.Corrected)
}

// Without returns the sum less a part of it.
func (s Sum) Without(part Sum) Sum {
	return Sum{
		Count: max(0, s.Count-part.Count), Amount: s.Amount.SubSaturated(part.Amount), Corrected: s.Corrected.SubSaturated(part.Corrected),
	}
}

// RestName names the sum of hosts or tasks that have no sum of their own. None has this name.
const RestName = "…"

// NameSum holds the sum of a host or a task. Name is "" for events without one, and RestName.
type NameSum struct {
	Name string
	Sum
}

// DaySum holds the sum of a UTC day.
type DaySum struct {
	Day time.Time // its beginning
	Sum
}

// Summary holds the spend of some days, by Created. A correction changes the day of its discovery.
type Summary struct {
	Days []DaySum // every day that was asked for, oldest first
	// Hosts and Tasks list the largest ones by Amount, largest first, at most MaxNames. The last entry
	// sums the others under RestName. Both add up to the days' sums.
	Hosts, Tasks []NameSum
}

// Total returns the sum of all days.
func (s Summary) Total() (all Sum) {
	for _, d := range s.Days {
		all.Add(d.Sum)
	}
	return all
}

const (
	// MaxNames bounds the hosts, and the tasks, of a Summary.
	MaxNames = 50
	// MaxSumName is the longest name with a sum of its own, in bytes: a DNS name with a port.
	MaxSumName = 253 + len(":65535")
	// MaxSummaryDays bounds the days of a Summary.
	MaxSummaryDays = 400
	// maxTallied bounds the names that a Tally tells apart.
	maxTallied = 10_000
)

// DayOf returns the beginning of the UTC day of a time.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Tally makes a Summary of daily sums, whatever their order.
type Tally struct {
	days         []DaySum
	hosts, tasks map[string]*Sum
}

// NewTally makes an empty Tally of the UTC days from one to another, both included.
func NewTally(from, to time.Time) *Tally {
	t := &Tally{hosts: map[string]*Sum{}, tasks: map[string]*Sum{}}
	for day, last := DayOf(from), DayOf(to); !day.After(last); day = day.AddDate(0, 0, 1) {
		t.days = append(t.days, DaySum{Day: day})
	}
	return t
}

// Day adds what was spent on a day. One that is not the tally's is left out.
func (t *Tally) Day(day time.Time, s Sum) {
	if len(t.days) == 0 {
		return
	}
	if i := int(DayOf(day).Sub(t.days[0].Day) / (24 * time.Hour)); i >= 0 && i < len(t.days) {
		t.days[i].Add(s)
	}
}

// Host adds what was spent at a host. The name is not kept.
func (t *Tally) Host(name []byte, s Sum) { tally(t.hosts, name, s) }

// Task adds what was spent on a task. The name is not kept.
func (t *Tally) Task(name []byte, s Sum) { tally(t.tasks, name, s) }

func tally(names map[string]*Sum, name []byte, s Sum) {
	sum := names[string(name)]
	if sum == nil {
		kept := string(name)
		if len(names) >= maxTallied {
			kept = RestName
		}
		if sum = names[kept]; sum == nil {
			sum = new(Sum)
			names[kept] = sum
		}
	}
	sum.Add(s)
}

// Event adds a spend event, if its day is the tally's, unless it is a withdrawal's.
func (t *Tally) Event(e *SpendEvent) {
	day := DayOf(e.Created)
	if len(t.days) == 0 || day.Before(t.days[0].Day) || day.After(t.days[len(t.days)-1].Day) || e.Withdraws() {
		return
	}
	var s Sum
	s.Event(e)
	t.Day(day, s)
	t.Host([]byte(e.SumHost()), s)
	t.Task([]byte(SumName(e.Task)), s)
}

// SumName returns the name of a host or task in sums: RestName if it is longer than MaxSumName.
func SumName(name string) string {
	if len(name) > MaxSumName {
		return RestName
	}
	return name
}

// Summary returns the totals so far.
func (t *Tally) Summary() Summary {
	return Summary{Days: slices.Clone(t.days), Hosts: largest(t.hosts), Tasks: largest(t.tasks)}
}

// largest sorts the sums and sums up the small ones.
func largest(names map[string]*Sum) []NameSum {
	list, rest := make([]NameSum, 0, len(names)), NameSum{Name: RestName}
	for name, sum := range names {
		if name == RestName {
			rest.Add(*sum)
		} else {
			list = append(list, NameSum{Name: name, Sum: *sum})
		}
	}
	slices.SortFunc(list, func(a, b NameSum) int {
		return cmp.Or(b.Amount.Cmp(a.Amount), b.Corrected.Cmp(a.Corrected), strings.Compare(a.Name, b.Name))
	})
	for _, small := range list[min(len(list), MaxNames):] {
		rest.Add(small.Sum)
	}
	list = list[:min(len(list), MaxNames)]
	if rest.Sum != (Sum{}) {
		list = append(list, rest)
	}
	return list
}
