package soak

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// sample holds the observations since the previous sample.
type sample struct {
	At    time.Duration // since the load began
	State state
	Kinds map[string]tally `json:"-"`
	Load  float64          // of the machine
}

// The criterion of flatness. The first third of the load is warm-up: caches and pools fill, and the first payments come to be
// confirmed. The rest is cut into windows, and each window gives one value of each series. The drift of a series is the slope
// through its windows (the median of the slopes of all pairs, which single bad windows do not bend) times the time between the
// first and the last. It may be as much as the noise explains, four times the median distance of the windows from that line,
// and beyond that a share of the series' median. Only growth counts: what shrinks does not leak.
const (
	warmShare  = 1.0 / 3
	windows    = 12
	noiseTimes = 4
)

// tolerance is the share of its median that a series may grow by. A short run sees less of a leak than it sees of the machine's
// other work, so it is there for the audit, for what is left at the end, and for what explodes: the heap of twelve seconds
// doubles by the moments of its collections alone.
func tolerance(length time.Duration, long, short float64) float64 {
	if length >= 10*time.Minute {
		return long
	}
	return short
}

// series is one thing that must be flat.
type series struct {
	Name    string
	Unit    string
	Values  []float64 // by window
	Allowed float64   // growth, as a share of the median
	// Slack is growth that is nothing in itself.
	Slack float64
	// Shown: the series is not judged. A short run shows times and judges none: another program that begins to work in its
	// seconds doubles every one of them.
	Shown bool
}

// verdict is the judgement of a series.
type verdict struct {
	Name, Unit                    string
	Median, Drift, Noise, Allowed float64
	Flat, Shown                   bool
}

func (s series) judge() verdict {
	slope, noise := fit(s.Values)
	v := verdict{Name: s.Name, Unit: s.Unit, Median: median(s.Values), Drift: slope * float64(len(s.Values)-1), Noise: noise}
	v.Allowed = s.Allowed*v.Median + noiseTimes*noise + s.Slack
	v.Shown = s.Shown
	v.Flat = s.Shown || v.Drift <= v.Allowed && !math.IsNaN(v.Drift)
	return v
}

func (v verdict) String() string {
	word := "flat"
	switch {
	case v.Shown:
		word = "shown"
	case !v.Flat:
		word = "GROWS"
	}
	return fmt.Sprintf("%-36s %-5s median %9.2f %-7s drift %+9.2f  allowed %8.2f  noise %7.2f", v.Name, word, v.Median, v.Unit, v.Drift, v.Allowed, v.Noise)
}

// fit is the Theil-Sen line through values at equal distances: its slope, and the median distance of the values from it.
func fit(values []float64) (slope, noise float64) {
	var slopes []float64
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			slopes = append(slopes, (values[j]-values[i])/float64(j-i))
		}
	}
	slope = median(slopes)
	var starts, distances []float64
	for i, v := range values {
		starts = append(starts, v-slope*float64(i))
	}
	start := median(starts)
	for _, v := range starts {
		distances = append(distances, math.Abs(v-start))
	}
	return slope, median(distances)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// window sums up the samples of a part of the time.
type window struct {
	From, To time.Duration
	Payments float64 // begun
	Rate     float64 // a second
	// Backlog counts settled payments that are not confirmed. It may grow while payments take all
	// of the machine: recovery catches up later. Open payments may not accumulate.
	Backlog, Open             float64
	OwnMB, MappedMB, HeapMB   float64
	Goroutines, Files, FileMB float64
	CPU                       float64 // ms of purser for a payment
	Load                      float64
	P50, P99                  map[string]float64 // ms
}

// cut makes windows of the samples after the warm-up.
func cut(all []sample) []window {
	all = all[int(float64(len(all))*warmShare):]
	var list []window
	for i := range windows {
		first, last := i*(len(all)-1)/windows, (i+1)*(len(all)-1)/windows
		if last <= first {
			continue
		}
		list = append(list, newWindow(all[first], all[first+1:last+1]))
	}
	return list
}

func newWindow(before sample, in []sample) window {
	end := in[len(in)-1]
	w := window{
		From: before.At, To: end.At, Payments: end.State.Begun - before.State.Begun, FileMB: end.State.FileMB,
		Backlog: end.State.Settled - end.State.Confirmed, P50: map[string]float64{}, P99: map[string]float64{},
	}
	w.Rate = w.Payments / (w.To - w.From).Seconds()
	w.CPU = (end.State.CPU - before.State.CPU).Seconds() * 1000 / max(w.Payments, 1)
	of := func(f func(sample) float64) (values []float64) {
		for _, s := range in {
			values = append(values, f(s))
		}
		return values
	}
	w.Open = median(of(func(s sample) float64 { return s.State.Open }))
	w.OwnMB = median(of(func(s sample) float64 { return s.State.OwnMB }))
	w.MappedMB = median(of(func(s sample) float64 { return s.State.MappedMB }))
	w.Goroutines = median(of(func(s sample) float64 { return s.State.Goroutines }))
	w.Files = median(of(func(s sample) float64 { return s.State.Files }))
	w.Load = median(of(func(s sample) float64 { return s.Load }))
	w.HeapMB = slices.Min(of(func(s sample) float64 { return s.State.HeapMB })) // what is left after a collection
	for _, k := range kinds {
		var times []time.Duration
		for _, s := range in {
			times = append(times, s.Kinds[k.name].times...)
		}
		if len(times) > 0 {
			slices.Sort(times)
			w.P50[k.name] = ms(times[len(times)/2])
			w.P99[k.name] = ms(times[len(times)*99/100])
		}
	}
	return w
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perPage is the memory that bbolt keeps for each page added to the file since it was opened
// (freelist's allocs), as a share of the page. No other memory is known to grow with the number of
// payments. It is gone after the next start. The garbage collector may double it.
const perPage = 48.0 / 4096

// judge checks which figures of the windows are flat.
func judge(list []window, length time.Duration) (verdicts []verdict) {
	add := func(name, unit string, allowed, slack float64, f func(window) float64) {
		s := series{Name: name, Unit: unit, Allowed: allowed, Slack: slack, Shown: unit == "ms" && length < 10*time.Minute}
		for _, w := range list {
			s.Values = append(s.Values, f(w))
		}
		verdicts = append(verdicts, s.judge())
	}
	memory := tolerance(length, 0.10, 2)
	grown := list[len(list)-1].FileMB - list[0].FileMB
	add("own memory", "MiB", memory, 8+2*perPage*grown, func(w window) float64 { return w.OwnMB })
	add("heap after collection", "MiB", memory, 8+perPage*grown, func(w window) float64 { return w.HeapMB })
	add("goroutines", "", memory, 10, func(w window) float64 { return w.Goroutines })
	add("open files", "", memory, 10, func(w window) float64 { return w.Files })
	add("open payments", "", memory, 200, func(w window) float64 { return w.Open })
	const slow = 0.25
	add("processor time for a payment", "ms", slow, 0, func(w window) float64 { return w.CPU })
	for _, k := range kinds {
		if k.measured {
			add(k.name+" p50", "ms", slow, 0.5, func(w window) float64 { return w.P50[k.name] })
			add(k.name+" p99", "ms", 2*slow, 2, func(w window) float64 { return w.P99[k.name] })
		}
	}
	return verdicts
}

// The file may take that much for a payment in the second half of the load, and not much more than in the first: a payment
// takes the same wherever it is in the history. The file grows in steps of 16 MiB.
const (
	maxFilePerPayment = 12 << 10
	fileStepMB        = 16
	fileGrowth        = 1.25
)

// perPayment returns the bytes per payment in each half of the windows.
func perPayment(list []window) (first, second float64) {
	half := len(list) / 2
	of := func(from, to window, payments []window) float64 {
		n := 0.0
		for _, w := range payments {
			n += w.Payments
		}
		return (to.FileMB - from.FileMB) * (1 << 20) / max(n, 1)
	}
	return of(list[0], list[half], list[1:half+1]), of(list[half], list[len(list)-1], list[half+1:])
}
