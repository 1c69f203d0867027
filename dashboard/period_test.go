package dashboard

import (
	"net/url"
	"testing"
	"time"
)

// Presets and typed days are UTC days, whatever the zone and the month.
func TestPeriods(t *testing.T) {
	t.Parallel()
	spring := time.Date(2026, 3, 29, 0, 30, 0, 0, time.FixedZone("CET", 3600)) // 28 March in UTC, and the clocks change
	leap := time.Date(2028, 3, 31, 23, 59, 59, 0, time.UTC)
	january := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		now            time.Time
		query          string
		from, to, text string
		days           int
	}{
		{spring, "range=today", "2026-03-28", "2026-03-28", "today", 1},
		{spring, "range=yesterday", "2026-03-27", "2026-03-27", "yesterday", 1},
		{spring, "range=7-days", "2026-03-22", "2026-03-28", "in the last 7 days", 7},
		{spring, "range=this-month", "2026-03-01", "2026-03-28", "in March 2026", 28},
		{leap, "range=last-month", "2028-02-01", "2028-02-29", "in February 2028", 29},
		{january, "range=last-month", "2026-12-01", "2026-12-31", "in December 2026", 31},
		{january, "range=90-days", "2026-10-04", "2027-01-01", "in the last 90 days", 90},
		{leap, "range=never", "", "", "of all time", 0},
		{leap, "", "", "", "of all time", 0},
		{leap, "from=2028-03-26&to=2028-03-27", "2028-03-26", "2028-03-27", "from 26 March 2028 to 27 March 2028", 2},
		{leap, "from=2028-03-26&range=today", "2028-03-26", "", "since 26 March 2028", 0},
		{leap, "to=2028-03-26", "", "2028-03-26", "until 26 March 2028", 0},
		{leap, "from=2028-03-26&to=2028-03-26", "2028-03-26", "2028-03-26", "on 26 March 2028", 1},
	} {
		q, _ := url.ParseQuery(c.query)
		p := periodOf(q, c.now)
		if dayText(p.From) != c.from || dayText(p.To) != c.to || p.text() != c.text || p.days() != c.days || len(p.wrong) > 0 {
			t.Errorf("%s: %+v, %q, %d days", c.query, p, p.text(), p.days())
		}
		back := url.Values{}
		p.query(back)
		if again := periodOf(back, c.now); again.From != p.From || again.To != p.To || again.Name != p.Name {
			t.Errorf("%s comes back as %+v", c.query, again)
		}
	}
	for query, field := range map[string]string{"from=x": "from", "to=2028-02-30": "to", "from=1999-12-31": "from", "from=2028-03-02&to=2028-03-01": "to", "range=today&to=9": "to"} {
		q, _ := url.ParseQuery(query)
		if p := periodOf(q, leap); p.wrong[field] == nil || len(p.wrong) != 1 {
			t.Errorf("%s: %+v", query, p.wrong)
		}
	}
}
