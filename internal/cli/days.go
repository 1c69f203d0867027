package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (a *asking) dayFlags(since string) {
	first := a.Flags().String("since", since, "first day: as 2026-11-01, as 7d for seven days ago, or all")
	last := a.Flags().String("until", "", "last day, as 2026-11-30 or 1d (default: today)")
	a.checks = append(a.checks, func() (err error) {
		a.days, err = readDays(*first, *last, a.env.Now())
		return err
	})
}

// daySpan are days of UTC, as 2026-11-01; empty is no bound.
type daySpan struct{ since, until string }

func readDays(since, until string, now time.Time) (d daySpan, err error) {
	if d.since, err = readDay(since, now); err != nil {
		return d, fmt.Errorf("--since: %w", err)
	}
	if d.until, err = readDay(until, now); err != nil {
		return d, fmt.Errorf("--until: %w", err)
	}
	if d.since != "" && d.until != "" && d.until < d.since {
		return d, errors.New("--until " + d.until + " is before --since " + d.since)
	}
	return d, nil
}

// before reports whether a time is in an earlier day than the first.
func (d daySpan) before(at time.Time) bool { return at.UTC().Format(time.DateOnly) < d.since }

// has reports whether a time is in one of the days.
func (d daySpan) has(at time.Time) bool {
	return !d.before(at) && (d.until == "" || at.UTC().Format(time.DateOnly) <= d.until)
}

// readDay reads a day: 2026-11-01, 7d, or, for no bound, all or nothing.
func readDay(text string, now time.Time) (string, error) {
	if text == "" || text == "all" {
		return "", nil
	}
	if days, ago := strings.CutSuffix(text, "d"); ago {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return "", fmt.Errorf("%q is not a number of days such as 7d", text)
		}
		return now.UTC().AddDate(0, 0, -n).Format(time.DateOnly), nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return "", fmt.Errorf("%q is neither a day such as 2026-11-01, nor days ago such as 7d, nor all", text)
	}
	return day.Format(time.DateOnly), nil
}

func period(d daySpan) (text string) {
	if d.since != "" {
		text += " since " + d.since
	}
	if d.until != "" {
		text += " until " + d.until
	}
	if text != "" {
		text += " (UTC)"
	}
	return text
}

func when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
