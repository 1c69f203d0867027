package main

import "testing"

// A burst raises the growth at once. After full rate, purser rests within a minute.
func TestGrowthFollowsTheLoad(t *testing.T) {
	t.Parallel()
	percent, recent := resting, 0.0
	second := func(bytes float64) int {
		recent = recent*4/5 + bytes
		percent = growth(percent, recent)
		return percent
	}
	if second(little/10) != resting || second(much+1) != working || second(little) != working {
		t.Errorf("%d percent after a burst", percent)
	}
	recent = 5 * 350e6
	for range 30 {
		second(50e3)
	}
	if percent != resting {
		t.Errorf("%d percent after half a minute of rest", percent)
	}
	if before := allocated(); before == 0 {
		t.Error("the runtime does not tell what was allocated")
	}
}
