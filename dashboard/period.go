package dashboard

import (
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// period is a range of UTC days: one with a name, or one with typed days. UTC has no summer time,
// so every day has 24 hours.
type period struct {
	Name     string    // of a preset; "" for typed days and for all time
	From, To time.Time // both included; zero: no bound
	// wrong holds the problem of each invalid field.
	wrong map[string]*wrong
}

// The presets, by their words in queries.
const (
	presetToday     = "today"
	presetYesterday = "yesterday"
	presetWeek      = "7-days"
	preset30        = "30-days"
	preset90        = "90-days"
	presetMonth     = "this-month"
	presetLastMonth = "last-month"
)

// presets lists them in the order of the page. days is the first and last day, counted from today.
var presets = []struct{ name, text string }{
	{presetToday, "Today"},
	{presetYesterday, "Yesterday"},
	{presetWeek, "7 days"},
	{preset30, "30 days"},
	{preset90, "90 days"},
	{presetMonth, "This month"},
	{presetLastMonth, "Last month"},
}

// daysOf returns the first and the last day of a preset, and false for another word.
func daysOf(preset string, now time.Time) (from, to time.Time, known bool) {
	today := pay.DayOf(now)
	month := today.AddDate(0, 0, 1-today.Day())
	switch preset {
	case presetToday:
		return today, today, true
	case presetYesterday:
		return today.AddDate(0, 0, -1), today.AddDate(0, 0, -1), true
	case presetWeek:
		return today.AddDate(0, 0, -6), today, true
	case preset30:
		return today.AddDate(0, 0, -29), today, true
	case preset90:
		return today.AddDate(0, 0, -89), today, true
	case presetMonth:
		return month, today, true
	case presetLastMonth:
		return month.AddDate(0, -1, 0), month.AddDate(0, 0, -1), true
	}
	return from, to, false
}

// periodOf reads ?from and ?to, or ?range. Typed days win over a preset. It never fails: the page
// shows a problem beside its field.
func periodOf(q url.Values, now time.Time) period {
	p := period{wrong: map[string]*wrong{}}
	p.From, p.To = p.day(q, "from"), p.day(q, "to")
	typed := strings.TrimSpace(q.Get("from")+q.Get("to")) != ""
	if !p.From.IsZero() && !p.To.IsZero() && p.To.Before(p.From) {
		p.wrong["to"] = &wrong{Field: "to", Text: "This day is before the first day."}
	}
	if from, to, known := daysOf(q.Get("range"), now); known && !typed {
		p.Name, p.From, p.To = q.Get("range"), from, to
	}
	return p
}

func (p *period) day(q url.Values, field string) time.Time {
	typed := strings.TrimSpace(q.Get(field))
	if typed == "" {
		return time.Time{}
	}
	day, err := time.Parse(isoDay, typed)
	if err != nil || day.Year() < 2000 || day.Year() > 9999 {
		p.wrong[field] = &wrong{Field: field, Text: "Write a day as 2026-01-31."}
		return time.Time{}
	}
	return day
}

// days returns the number of days; 0 without a first or last day.
func (p period) days() int {
	if p.From.IsZero() || p.To.IsZero() {
		return 0
	}
	return int(p.To.Sub(p.From)/(24*time.Hour)) + 1
}

// query adds the period to a query.
func (p period) query(q url.Values) {
	switch {
	case p.Name != "":
		q.Set("range", p.Name)
	default:
		for field, day := range map[string]time.Time{"from": p.From, "to": p.To} {
			if !day.IsZero() {
				q.Set(field, dayText(day))
			}
		}
	}
}

// text names the period in a sentence: "today", "from 3 to 9 November 2026".
func (p period) text() string {
	const day = "2 January 2006"
	switch {
	case p.From.IsZero() && p.To.IsZero():
		return "of all time"
	case p.From.IsZero():
		return "until " + p.To.Format(day)
	case p.To.IsZero():
		return "since " + p.From.Format(day)
	case p.Name == presetToday:
		return "today"
	case p.Name == presetYesterday:
		return "yesterday"
	case p.Name == presetMonth || p.Name == presetLastMonth:
		return "in " + p.From.Format("January 2006")
	case p.Name != "":
		return "in the last " + count(p.days()) + " days"
	case p.From.Equal(p.To):
		return "on " + p.From.Format(day)
	}
	return "from " + p.From.Format(day) + " to " + p.To.Format(day)
}

func dayText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(isoDay)
}
