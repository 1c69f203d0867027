package soak

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	lengthFlag = flag.Duration("soak.for", 12*time.Second, "how long the load lasts")
	jsonFlag   = flag.String("soak.json", "", "file for samples and verdicts")
	keysFlag   = flag.Int("soak.keys", 48, "API keys, each with a wallet of its own; one may pay 150,000 times a month")
)

// report is the result that is written as JSON.
type report struct {
	Began    time.Time
	Length   string
	Before   state // with nothing to do, before the load
	After    state // the same, after it
	Windows  []window
	Verdicts []verdict
	First    float64 `json:"FileBytesPerPaymentFirstHalf"`
	Second   float64 `json:"FileBytesPerPaymentSecondHalf"`
	Totals   totals
	Counts   map[string]map[string]int
}

// TestSoak has purser work at its full rate for a while and looks at what becomes of it.
func TestSoak(t *testing.T) {
	length := *lengthFlag
	var complaints []string
	complain := func(format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf(format, args...))
		t.Errorf(format, args...)
	}
	// Registered first, this runs last: what failed is read below what purser said, which is long.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("failed:\n%s", strings.Join(complaints, "\n"))
		}
	})
	w := startWorld(t)
	p := newPurser(t, w)
	p.Start(t)
	side := p.newKey(t, w, 0)
	var keys []key
	for i := range *keysFlag {
		keys = append(keys, p.newKey(t, w, i+1))
	}
	p.End(t)
	p.Start(t, "PURSER_KEY="+side.secret)
	r := report{Began: time.Now(), Length: length.String(), Counts: map[string]map[string]int{}}
	r.Before = p.rest(t, time.Minute, func(state) bool { return true })

	l := newLoad(t, w, p, keys)
	samples := l.sample(t, length, r.Counts, complain)
	r.Windows = cut(samples)
	r.Verdicts = judge(r.Windows, length)
	r.First, r.Second = perPayment(r.Windows)

	// Recovery has what is left. Connections end after a while, and with them their goroutines.
	end := samples[len(samples)-1].State
	if w.clock != nil {
		w.clock.Forward(t, 2*w.validity)
	}
	patience := 3*w.validity + 3*time.Minute + time.Duration(end.Settled-end.Confirmed)*25*time.Millisecond
	quiet := func(s state) bool {
		return s.Open == 0 && s.Confirmed >= s.Settled && s.Goroutines <= r.Before.Goroutines+leftGoroutines && s.Files <= r.Before.Files+leftFiles
	}
	r.After = p.rest(t, patience, quiet)
	var findings []string
	r.Totals, findings = l.audit(t.Context(), append(keys, side))
	r.print(t)
	if err := r.write(); err != nil {
		complain("%v", err)
	}
	for _, f := range findings {
		complain("%s", f)
	}
	r.check(complain, quiet)
	p.End(t)
}

// So many may be left after the load that were not there before: the runtime's own, and connections that monitoring
// keeps.
const (
	leftGoroutines = 8
	leftFiles      = 8
)

// complaint fails the test, and goes on.
type complaint = func(format string, args ...any)

// measuring reports whether this is a long run, whose figures count.
func measuring() bool { return *lengthFlag >= time.Minute || *floodFlag > 0 }

// rest waits until purser is quiet, for a bounded time, and returns what it is then.
func (p *purser) rest(t *testing.T, patience time.Duration, quiet func(state) bool) state {
	t.Helper()
	time.Sleep(time.Second) // what has just started is not at rest yet
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		s, err := p.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if quiet(s) || time.Now().After(deadline) {
			return s
		}
	}
}

// sample puts the load on and looks at purser every now and then.
func (l *load) sample(t *testing.T, length time.Duration, counts map[string]map[string]int, complain complaint) (samples []sample) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	tick := time.NewTicker(min(5*time.Second, length/60))
	defer tick.Stop()
	said := began
	for running := true; running; {
		select {
		case <-tick.C:
		case err := <-l.failures:
			complain("%s after the start: %v", time.Since(began).Round(time.Second), err)
			if t.Failed() && len(l.failures) > 50 {
				cancel()
			}
			continue
		case <-l.purser.Done:
			t.Fatalf("purser ended: %v", l.purser.Err)
		case <-done:
			running = false
		}
		s := sample{At: time.Since(began), Kinds: l.take(), Load: loadAverage()}
		for name, k := range s.Kinds {
			if counts[name] == nil {
				counts[name] = map[string]int{}
			}
			counts[name]["done"] += k.done
			counts[name]["other"] += k.other
			counts[name]["failed"] += k.failed
		}
		var err error
		if s.State, err = l.purser.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ctx.Err() == nil || len(samples) == 0 {
			samples = append(samples, s)
		}
		if time.Since(said) > time.Minute {
			said = time.Now()
			t.Logf("%s: %.0f payments, %.0f settled, %.0f confirmed, %.0f open, %.0f goroutines, %.0f MiB own, file %.0f MiB",
				s.At.Round(time.Second), s.State.Begun, s.State.Settled, s.State.Confirmed, s.State.Open, s.State.Goroutines, s.State.OwnMB, s.State.FileMB)
		}
	}
	return samples
}

func loadAverage() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

func (r *report) print(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%9s %9s %7s %8s %6s %7s %7s %7s %6s %6s %8s %7s", "until", "payments", "rate/s", "backlog", "open", "own MiB", "heap", "mapped", "gorout", "files", "file MiB", "CPU ms")
	fmt.Fprintf(&b, " %15s %15s %15s %5s\n", "http p50/p99", "payer p50/p99", "seller p50/p99", "load")
	for _, w := range r.Windows {
		fmt.Fprintf(&b, "%9s %9.0f %7.0f %8.0f %6.0f %7.1f %7.1f %7.0f %6.0f %6.0f %8.0f %7.3f", w.To.Round(time.Second), w.Payments, w.Rate, w.Backlog, w.Open, w.OwnMB, w.HeapMB, w.MappedMB, w.Goroutines, w.Files, w.FileMB, w.CPU)
		for _, k := range []string{"proxy http", "pay as payer", "pay as seller"} {
			fmt.Fprintf(&b, " %7.2f/%7.2f", w.P50[k], w.P99[k])
		}
		fmt.Fprintf(&b, " %5.1f\n", w.Load)
	}
	b.WriteString("\n")
	for _, v := range r.Verdicts {
		fmt.Fprintln(&b, v)
	}
	fmt.Fprintf(&b, "\nfile: %.0f and %.0f bytes for a payment in the halves\n", r.First, r.Second)
	fmt.Fprintf(&b, "goroutines %.0f before, %.0f after; files %.0f, %.0f; own MiB %.0f, %.0f; heap %.0f, %.0f\n", r.Before.Goroutines,
		r.After.Goroutines, r.Before.Files, r.After.Files, r.Before.OwnMB, r.After.OwnMB, r.Before.HeapMB, r.After.HeapMB)
	fmt.Fprintf(&b, "audit: %+v\n", r.Totals)
	for _, k := range kinds {
		fmt.Fprintf(&b, "%-16s %v\n", k.name, r.Counts[k.name])
	}
	t.Log(b.String())
}

func (r *report) write() error {
	if *jsonFlag == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(*jsonFlag, append(text, '\n'), 0o600)
}

// check fails the test for what is not as it should be.
func (r *report) check(complain complaint, quiet func(state) bool) {
	for _, v := range r.Verdicts {
		if !v.Flat {
			complain("%v", v)
		}
	}
	payments := 0.0
	for _, w := range r.Windows[len(r.Windows)/2:] {
		payments += w.Payments
	}
	step := fileStepMB * (1 << 20) / max(payments, 1)
	if r.Second > maxFilePerPayment+step || r.Second > fileGrowth*r.First+2*step {
		complain("a payment takes %.0f bytes of the file, and %.0f before that", r.Second, r.First)
	}
	if !quiet(r.After) {
		complain("not at rest after the load: %+v; before it: %+v", r.After, r.Before)
	}
	for _, k := range kinds {
		if r.Counts[k.name]["done"] == 0 && k.name != "client leaves" {
			complain("%s: nothing was done", k.name)
		}
		if n := r.Counts[k.name]["failed"]; n != 0 {
			complain("%s: %d requests failed", k.name, n)
		}
	}
}
