package dashboard

import (
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// filter selects the spend events that a visitor wants to see.
type filter struct {
	KeyID, Host, Task string
	From, To          time.Time // UTC days, both included; zero: no bound
	// wrong holds the problem of each invalid field. Valid fields still count.
	wrong map[string]*wrong
}

const maxHost = 260

// filterOf reads the query of a page. It never fails: the page shows a problem beside its field.
func filterOf(q url.Values) filter {
	f := filter{wrong: map[string]*wrong{}}
	f.KeyID = q.Get("key")
	f.Host = cut(strings.TrimSpace(q.Get("host")), maxHost)
	if f.Task = strings.TrimSpace(q.Get("task")); f.Task != "" && !pay.ValidTask(f.Task) {
		f.Task = cut(f.Task, 64)
		f.wrong["task"] = &wrong{Field: "task", Text: "1 to 64 of A-Z a-z 0-9 . _ -"}
	}
	f.From, f.To = f.day(q, "from"), f.day(q, "to")
	if !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		f.wrong["to"] = &wrong{Field: "to", Text: "Before the first day"}
	}
	return f
}

func (f filter) day(q url.Values, field string) time.Time {
	typed := strings.TrimSpace(q.Get(field))
	if typed == "" {
		return time.Time{}
	}
	day, err := time.Parse(isoDay, typed)
	if err != nil || day.Year() < 2000 || day.Year() > 9999 {
		f.wrong[field] = &wrong{Field: field, Text: "A day like 2026-01-31"}
		return time.Time{}
	}
	return day
}

func (f filter) any() bool {
	return len(f.values())+len(f.wrong) > 0
}

func (f filter) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"key": f.KeyID, "host": f.Host, "task": f.Task, "from": dayText(f.From), "to": dayText(f.To)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func dayText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(isoDay)
}

// path returns the path of the spend page with this filter, after the cursor before.
func (f filter) path(before string) string {
	q := f.values()
	if before != "" {
		q.Set("before", before)
	}
	return withQuery("/dashboard/spend", q)
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// query returns the query for a page of events. A key id of the wrong form is pay.ErrKeyNotFound.
func (f filter) query(before string, limit int) (pay.OrganizationSpendQuery, error) {
	if f.KeyID != "" && !isID(f.KeyID) {
		return pay.OrganizationSpendQuery{}, pay.ErrKeyNotFound
	}
	return pay.OrganizationSpendQuery{KeyID: f.KeyID, Host: f.Host, Task: f.Task, From: f.From, To: f.To, Before: before, Limit: limit}, nil
}
