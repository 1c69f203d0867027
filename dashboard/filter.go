package dashboard

import (
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// filter selects the rows of Spend, Payments and Declined that a visitor wants to see.
type filter struct {
	KeyID, Task, Payee, State string
	Host                      string // or a tool: see [pay.RecordedPlace]
	By                        string // of Spend: byTool, or "" for each payment
	period
	payee *x402.Address // of Payee, if that is one
}

// Bounds of what is typed, in characters: for a host, and for a host or a tool.
const maxHost, maxPlace = 260, 1000

// filterOf reads the query of a page. It never fails: the page shows a problem beside its field.
func filterOf(q url.Values, now time.Time) filter {
	f := filter{period: periodOf(q, now)}
	f.KeyID, f.State = q.Get("key"), q.Get("state")
	f.Host = cut(strings.TrimSpace(q.Get("host")), maxPlace)
	if f.Task = strings.TrimSpace(q.Get("task")); f.Task != "" && !policy.ValidTask(f.Task) {
		f.Task = cut(f.Task, 64)
		f.wrong["task"] = &wrong{Field: "task", Text: "A task has 1 to 64 of the characters A-Z a-z 0-9 . _ -"}
	}
	if f.Payee = strings.TrimSpace(q.Get("payee")); f.Payee != "" {
		a, err := x402.ParseAddress(f.Payee)
		if err != nil {
			f.Payee = cut(f.Payee, 64)
			f.wrong["payee"] = &wrong{Field: "payee", Text: "An address is 0x and 40 hexadecimal digits."}
		} else {
			f.payee = &a
		}
	}
	return f
}

func (f filter) any() bool {
	f.By = ""
	return len(f.values())+len(f.wrong) > 0
}

func (f filter) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"key": f.KeyID, "host": f.Host, "task": f.Task, "payee": f.Payee, "state": f.State, "by": f.By} {
		if value != "" {
			q.Set(name, value)
		}
	}
	f.query(q)
	return q
}

// The pages that have filters.
const (
	spendPath    = "/dashboard/spend"
	paymentsPath = "/dashboard/payments"
	declinedPath = "/dashboard/declined"
)

// path returns the path of the spend page with this filter.
func (f filter) path() string { return f.on(spendPath, "") }

// on returns the path of a page with this filter, after the cursor before.
func (f filter) on(page, before string) string {
	q := f.values()
	if before != "" {
		q.Set("before", before)
	}
	return withQuery(page, q)
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// checkKey fails for a key id of the wrong form: pay.ErrKeyNotFound.
func (f filter) checkKey() error {
	if f.KeyID != "" && !isID(f.KeyID) {
		return pay.ErrKeyNotFound
	}
	return nil
}

// spendQuery returns the query for a page of events.
func (f filter) spendQuery(before string, limit int) (pay.OrganizationSpendQuery, error) {
	return pay.OrganizationSpendQuery{
		KeyID: f.KeyID, Host: f.Host, Task: f.Task, Payee: f.payee, From: f.From, To: f.To, Before: before, Limit: limit,
	}, f.checkKey()
}

// paymentFilter returns the filter for a page of payments.
func (f filter) paymentFilter(before string, limit int) (pay.PaymentFilter, error) {
	return pay.PaymentFilter{
		Label: f.State, Host: f.Host, Task: f.Task, Payee: f.payee, From: f.From, To: f.To, Before: before, Limit: limit,
	}, f.checkKey()
}

// filterBar shows a filter: a row of presets, and a form.
type filterBar struct {
	Path, Preset, By                          string
	Presets                                   []tab
	Keys, States                              []option
	StateName                                 string
	Host, Task, Payee, From, To               string
	TaskWrong, PayeeWrong, FromWrong, ToWrong *wrong
	HasTask, HasPayee, Filtered               bool
}

// barOf shows a filter on a page.
func barOf(page string, f filter, keys []pay.Key) filterBar {
	b := filterBar{
		Path: page, Preset: f.Name, By: f.By, Keys: options(keys, f.KeyID), Host: f.Host, Task: f.Task, Payee: f.Payee, Filtered: f.any(),
		TaskWrong: f.wrong["task"], PayeeWrong: f.wrong["payee"], FromWrong: f.wrong["from"], ToWrong: f.wrong["to"],
		HasTask: page != declinedPath, HasPayee: page != declinedPath,
	}
	if f.Name == "" {
		b.From, b.To = dayText(f.From), dayText(f.To)
	}
	at := func(p period) string {
		other := f
		other.period = p
		return other.on(page, "")
	}
	b.Presets = append(b.Presets, tab{Name: "All time", Path: at(period{}), Current: f.Name == "" && f.From.IsZero() && f.To.IsZero()})
	if page == declinedPath {
		b.Presets = nil
	}
	for _, p := range presets {
		if page == declinedPath && p.name == preset90 {
			continue // not kept for so long
		}
		b.Presets = append(b.Presets, tab{Name: p.text, Path: at(period{Name: p.name}), Current: p.name == f.Name})
	}
	switch page {
	case paymentsPath:
		b.StateName = "State"
		for _, l := range paymentLabels {
			b.States = append(b.States, option{l.label, l.name, l.label == f.State})
		}
	case declinedPath:
		b.StateName = "Reason"
		b.States = append(b.States, option{"", "All", f.State == ""})
		seen := map[string]bool{}
		for _, r := range declines.All() {
			if !seen[r.Word] {
				seen[r.Word] = true
				b.States = append(b.States, option{r.Word, r.Word, r.Word == f.State})
			}
		}
		for _, r := range declines.Refusals() {
			b.States = append(b.States, option{r.Word, r.Word, r.Word == f.State})
		}
	}
	return b
}
