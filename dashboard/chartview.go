package dashboard

import (
	"net/url"
	"time"

	"github.com/purserpay/purser/pay"
)

// chartView holds what the visitor chose to see in the chart.
type chartView struct {
	period
	by string // splitKey, splitHost, splitTask, or "" for the sum alone
}

// The ways to split the chart, by their words in queries.
const (
	splitKey  = "key"
	splitHost = "host"
	splitTask = "task"
)

// chartPresets are the presets beside the chart.
var chartPresets = []string{presetWeek, preset30, preset90, presetMonth, presetLastMonth}

// chartViewOf reads the query of the overview. It never fails: the page shows a problem beside its
// field, and the standard days. Typed days without a beginning are 30.
func chartViewOf(q url.Values, now time.Time) chartView {
	c := chartView{period: periodOf(q, now)}
	if by := q.Get("by"); by == splitKey || by == splitHost || by == splitTask {
		c.by = by
	}
	today := pay.DayOf(now)
	if c.Name == "" && len(c.wrong) == 0 && (!c.From.IsZero() || !c.To.IsZero()) {
		if c.To.IsZero() {
			c.To = today
		}
		if c.From.IsZero() {
			c.From = c.To.AddDate(0, 0, -29)
		}
		switch {
		case c.To.Before(c.From):
			c.wrong["to"] = &wrong{Field: "to", Text: "This day is before the first day."}
		case c.days() > pay.MaxSummaryDays:
			c.wrong["to"] = &wrong{Field: "to", Text: "Choose at most " + count(pay.MaxSummaryDays) + " days."}
		}
	}
	if len(c.wrong) > 0 || c.From.IsZero() {
		c.Name = preset30
		c.From, c.To, _ = daysOf(preset30, now)
	}
	return c
}

// values returns the query of a page with this chart.
func (c chartView) values() url.Values {
	q := url.Values{}
	if c.Name != preset30 {
		c.query(q)
	}
	if c.by != "" {
		q.Set("by", c.by)
	}
	return q
}

func (c chartView) path() string { return withQuery("/dashboard/", c.values()) }

// chartBar holds the choices beside the chart.
type chartBar struct {
	Ranges, Splits     []tab
	By, From, To       string
	FromWrong, ToWrong *wrong
	Open               bool // the form is shown without being asked for
}

func chartBarOf(c chartView) chartBar {
	b := chartBar{By: c.by, FromWrong: c.wrong["from"], ToWrong: c.wrong["to"], From: dayText(c.From), To: dayText(c.To)}
	b.Open = c.Name == "" || len(c.wrong) > 0
	for _, p := range presets {
		for _, name := range chartPresets {
			if p.name == name {
				other := chartView{period: period{Name: name}, by: c.by}
				b.Ranges = append(b.Ranges, tab{p.text, other.path(), c.Name == name && len(c.wrong) == 0})
			}
		}
	}
	for _, s := range [][2]string{{"", "In all"}, {splitKey, "By key"}, {splitHost, "By host"}, {splitTask, "By task"}} {
		other := c
		other.by = s[0]
		b.Splits = append(b.Splits, tab{s[1], other.path(), c.by == s[0]})
	}
	return b
}
