package pay

import (
	"testing"
	"time"
)

// Each counter that only the payments of one key change names that key. The others name none.
func TestCountersNameTheirKey(t *testing.T) {
	t.Parallel()
	const key = "0199a5f2-0000-7000-8000-000000000001"
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	n, sum := PendingCounters(key)
	own := []Counter{
		PlaceCounter("key/"+key, at), n, sum, DailyCounter(key, "USDC", at), byDay.key(key, "USDC"), byDay.task(key, "a/b", "USDC"), byHour.key(key, "USDC"), byHour.task(key, "a/b", "USDC"),
		totalCounter(key, "a", "USDC", at),
		byDay.sites(key, "USDC", at), byHour.sites(key, "USDC", at), priceCounter(key, "USDC", "GET", "https://api.example.com/"),
	}
	for _, w := range (FailureBounds{}).complete().windows() {
		own = append(own, w.counter(key))
	}
	for _, c := range own {
		if id, _ := c.Key(); id != key {
			t.Errorf("%s is of key %q", c, id)
		}
	}
	for _, c := range []Counter{PlaceCounter("org/"+key, at), holdCounter(key, "USDC"), movedCounter(key, "USDC"), undecidedCounter(key, Hash{1}), "", "day"} {
		if id, _ := c.Key(); id != "" {
			t.Errorf("%s is of key %q", c, id)
		}
	}
	for c, want := range map[Counter]bool{byDay.key(key, "USDC"): true, "day/" + key: false, "day/": false, n: false, "": false} {
		if _, complete := c.Key(); complete != want {
			t.Errorf("%q has a complete id: %v", c, complete)
		}
	}
}
