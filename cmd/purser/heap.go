package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The growth of the heap between two collections, in percent of the memory in use: see
// [debug.SetGCPercent].
const (
	working = 200 // garbage takes memory, but a collection takes CPU
	resting = 50  // collections are rare, and give memory back to the system
)

// Recent allocation in bytes, to which each second adds its own and leaves four fifths of the sum:
// below little purser rests, above much it works.
const (
	little = 8 << 20
	much   = 16 << 20
)

// followLoad lets the heap grow further while purser works than while it rests. It goes on until the
// process ends. If the operator has set GOGC, followLoad does nothing.
func followLoad() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(working)
	go func() {
		percent, recent, last := working, 0.0, allocated()
		for range time.Tick(time.Second) {
			now := allocated()
			recent, last = recent*4/5+float64(now-last), now
			if next := growth(percent, recent); next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
		}
	}()
}

// growth returns the growth of the heap for a recent allocation, after this growth.
func growth(percent int, recent float64) int {
	switch {
	case recent < little:
		return resting
	case recent > much:
		return working
	}
	return percent
}

// allocated returns the bytes that the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
