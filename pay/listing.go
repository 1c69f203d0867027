package pay

import (
	"cmp"
	"slices"
	"time"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// PaymentFilter selects payments of several keys.
type PaymentFilter struct {
	All   bool          // payments of all keys, whatever keys are named
	Label string        // a state or flag; "" is any
	Host  string        // as recorded, see [RecordedHost]; "" is any
	Tool  string        // as [policy.ToolOf] writes it, with the Host that it is at; "" is any
	Task  string        // "" is any
	Payee *x402.Address // nil is any
	// From and To are UTC days, both included, by Created. Zero is no bound.
	From, To time.Time
	Before   string // PaymentPage.Next of the page before; "" for the first
	Limit    int
}

// Summed returns the label that payments must have to be summed, and one that they must not have; "" is none. It is the
// filter's own. Without one, payments that moved their money are summed: the settled ones that the chain does not
// disprove. SumSpend adds up the same payments.
func (f PaymentFilter) Summed() (with, without string) {
	if f.Label == "" {
		return string(Settled), "disputed"
	}
	return f.Label, ""
}

// Wants reports whether the filter selects a payment, whatever its key and place in the list.
func (f PaymentFilter) Wants(p *Payment) bool {
	return p.Labelled(f.Label) && f.WantsOf(p.Host, p.RequestURL, p.Task, p.Terms.PayTo, p.Created)
}

// WantsOf reports whether the filter selects a payment with a label that it selects.
func (f PaymentFilter) WantsOf(host, requestURL, task string, payee x402.Address, created time.Time) bool {
	day := DayOf(created)
	return (f.Host == "" || host == f.Host) && (f.Tool == "" || policy.ToolOf(requestURL) == f.Tool) &&
		(f.Task == "" || task == f.Task) && (f.Payee == nil || payee == *f.Payee) &&
		(f.From.IsZero() || !day.Before(DayOf(f.From))) && (f.To.IsZero() || !day.After(DayOf(f.To)))
}

// PaymentPage is a part of a listing, newest first.
type PaymentPage struct {
	Payments []*Payment
	// Next is the cursor of the following page; "" at the end. A page with few payments, or none, may
	// have one, when few of many payments match.
	Next string
}

// CurrencySum holds the sum in one currency.
type CurrencySum struct {
	Currency string
	Sum
}

// Totals add up the rows that a filter selects.
type Totals struct {
	Currencies []CurrencySum // of payments to sellers, by name
	Withdrawn  []CurrencySum // of withdrawals, by name
	// Tools add up the events of what servers of MCP sell, by name. SumPayments leaves them out.
	Tools []ToolSum
	// Partial tells that older rows were not looked at, because there are too many. Since is the time
	// of the last row that was.
	Partial bool
	Since   time.Time
}

// Row adds a row of a time: a payment to a seller, or a withdrawal.
func (t *Totals) Row(currency string, withdraws bool, s Sum, at time.Time) {
	to := &t.Currencies
	if withdraws {
		to = &t.Withdrawn
	}
	addCurrency(to, currency, s)
	if t.Since.IsZero() || at.Before(t.Since) {
		t.Since = at
	}
}

// ToolSum holds the sum of a tool, a resource or a prompt that a server of MCP sells.
type ToolSum struct {
	// Tool is its name as [policy.ToolOf] writes it; RestName for those behind the first maxTools.
	Tool string
	Sum
	Undelivered int // payments of Count that brought nothing
}

// maxTools bounds the tools with a sum of their own.
const maxTools = 1000

// Event adds a spend event. undelivered is asked, for a payment for a tool, whether it brought nothing.
func (t *Totals) Event(e *SpendEvent, undelivered func() bool) {
	var s Sum
	s.Event(e)
	t.Row(e.Currency, e.Withdraws(), s, e.Created)
	tool := policy.ToolOf(e.RequestURL)
	if tool == "" {
		return
	}
	i, found := t.tool(tool)
	if !found && len(t.Tools) >= maxTools {
		tool = RestName
		i, found = t.tool(tool)
	}
	if !found {
		t.Tools = slices.Insert(t.Tools, i, ToolSum{Tool: tool})
	}
	t.Tools[i].Add(s)
	if e.Corrects == "" && undelivered() {
		t.Tools[i].Undelivered++
	}
}

// tool returns the place of a tool among the sums.
func (t *Totals) tool(name string) (at int, found bool) {
	return slices.BinarySearchFunc(t.Tools, name, func(s ToolSum, name string) int { return cmp.Compare(s.Tool, name) })
}

func addCurrency(to *[]CurrencySum, currency string, s Sum) {
	i, found := slices.BinarySearchFunc(*to, currency, func(c CurrencySum, name string) int { return cmp.Compare(c.Currency, name) })
	if !found {
		*to = slices.Insert(*to, i, CurrencySum{Currency: currency})
	}
	(*to)[i].Add(s)
}

// Count returns the number of payments to sellers.
func (t *Totals) Count() (n int) {
	for _, c := range t.Currencies {
		n += c.Count
	}
	return n
}

// SpendDays hears the daily sums of keys. Names are not kept; "" and RestName are among them. What
// is nil is not read. Withdrawn hears of withdrawals, which are in no other sum.
type SpendDays struct {
	Day        func(keyID string, day time.Time, total Sum)
	Withdrawn  func(keyID string, day time.Time, s Sum)
	Host, Task func(keyID string, day time.Time, name []byte, s Sum)
}
