package metrics

import (
	"maps"
	"testing"
	"time"
)

func TestRecentForgetsAfterAnHour(t *testing.T) {
	t.Parallel()
	var r Recent
	now := time.Unix(1_800_000_000, 0)
	r.Note("daily-budget", now)
	r.Note("daily-budget", now.Add(time.Second))
	r.Note("hosts", now.Add(30*time.Minute))
	for _, c := range []struct {
		after time.Duration
		want  map[string]int
	}{
		{30 * time.Minute, map[string]int{"daily-budget": 2, "hosts": 1}},
		{59 * time.Minute, map[string]int{"daily-budget": 2, "hosts": 1}},
		{60 * time.Minute, map[string]int{"hosts": 1}},
		{100 * time.Minute, map[string]int{}},
	} {
		if got := r.Counts(now.Add(c.after)); !maps.Equal(got, c.want) {
			t.Errorf("after %s: %v, want %v", c.after, got, c.want)
		}
	}
	r.Note("hosts", now.Add(time.Hour)) // the place of the first minute is used again
	if got := r.Counts(now.Add(time.Hour)); !maps.Equal(got, map[string]int{"hosts": 2}) {
		t.Errorf("%v", got)
	}
}
