package metrics

import (
	"maps"
	"sync"
	"time"
)

// recentMinutes bounds the memory of Recent, in minutes.
const recentMinutes = 60

// Recent counts words by the minute, for an hour. The zero Recent is empty; it is safe for concurrent use.
type Recent struct {
	mu      sync.Mutex
	minutes [recentMinutes]struct {
		minute int64 // since 1970
		counts map[string]int
	}
}

// Note counts a word. Words must be few: each takes room.
func (r *Recent) Note(word string, now time.Time) {
	minute := now.Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.minutes[minute%recentMinutes]
	if m.minute != minute || m.counts == nil {
		m.minute, m.counts = minute, map[string]int{}
	}
	m.counts[word]++
}

// Counts returns how often each word was noted in the hour before now.
func (r *Recent) Counts(now time.Time) map[string]int {
	minute := now.Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := map[string]int{}
	for i := range r.minutes {
		m := &r.minutes[i]
		if m.minute <= minute && m.minute > minute-recentMinutes {
			for word := range maps.Keys(m.counts) {
				sum[word] += m.counts[word]
			}
		}
	}
	return sum
}
