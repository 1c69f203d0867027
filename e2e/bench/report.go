package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/purserpay/purser/e2e/internal/figures"
)

// measurement holds the results of one program under one load. Zero means not measured.
type measurement struct {
	Clients  int     `json:"clients"`
	Requests int     `json:"requests"`
	Rate     float64 `json:"requests_per_second"`
	CPU      float64 `json:"cpu_ms_per_request,omitempty"` // of the program, without the load
	P50      float64 `json:"p50_ms"`                       // of the whole request, as its client sees it
	P99      float64 `json:"p99_ms"`
	GapP50   float64 `json:"gap_p50_ms,omitempty"` // from challenge to paid retry, as the seller sees it
	GapP99   float64 `json:"gap_p99_ms,omitempty"`
	WroteKB  float64 `json:"wrote_kb_per_request,omitempty"` // to files
	OwnMiB   float64 `json:"own_memory_mib,omitempty"`
	MiB      float64 `json:"memory_mib,omitempty"` // with pages of files
	// Rounds has the rates of all rounds in which subjects took turns.
	Rounds []float64 `json:"requests_per_second_by_round,omitempty"`
}

// share returns the rate as a multiple of another one. Each round is compared for itself, because a machine that is faster
// or slower for a minute is so for both. The median of the rounds counts; 0: they were not measured in rounds.
func (m measurement) share(of measurement) float64 {
	if len(m.Rounds) == 0 || len(m.Rounds) != len(of.Rounds) {
		return 0
	}
	shares := make([]float64, len(m.Rounds))
	for i := range shares {
		shares[i] = m.Rounds[i] / of.Rounds[i]
	}
	slices.Sort(shares)
	return shares[len(shares)/2]
}

// median returns the measurement with the middle rate.
func median(seen []measurement) measurement {
	slices.SortFunc(seen, func(a, b measurement) int {
		switch {
		case a.Rate < b.Rate:
			return -1
		case a.Rate > b.Rate:
			return 1
		}
		return 0
	})
	return seen[len(seen)/2]
}

// row is a line of the table.
type row struct {
	Case    string `json:"case"`
	Subject string `json:"subject"`
	measurement
}

// starts holds the times from the start of the process to its first answer.
type starts struct {
	EmptyMS   float64 `json:"empty_ms,omitempty"`
	Open      int     `json:"open_payments,omitempty"`
	OpenMS    float64 `json:"open_ms,omitempty"`
	CrashMS   float64 `json:"open_after_crash_ms,omitempty"`
	Events    int     `json:"events,omitempty"`
	HistoryMS float64 `json:"events_ms,omitempty"`
}

// files holds sizes of the database with its journal.
type files struct {
	FreshKB   float64 `json:"fresh_kb_per_payment,omitempty"`
	RetiredKB float64 `json:"retired_kb_per_payment,omitempty"`
	HistoryGB float64 `json:"history_gb,omitempty"`
}

// idle holds the memory with agents that wait.
type idle struct {
	Agents   int     `json:"agents,omitempty"`
	StartMiB float64 `json:"before_own_mib,omitempty"`
	OwnMiB   float64 `json:"own_mib,omitempty"`
	MiB      float64 `json:"mib,omitempty"`
}

// footprint holds the memory around a load.
type footprint struct {
	LoadMiB     float64 `json:"load_own_mib,omitempty"`
	LaterMiB    float64 `json:"minute_later_own_mib,omitempty"`
	LaterAllMiB float64 `json:"minute_later_mib,omitempty"` // with pages of files
}

// skipped is a case that could not run.
type skipped struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

// report holds all saved results. It names neither the machine nor its folders.
type report struct {
	Commit    string    `json:"commit"`
	At        time.Time `json:"at"`
	Go        string    `json:"go"`
	System    string    `json:"system"`
	Cores     int       `json:"cores"`
	Seconds   float64   `json:"seconds"`
	FsyncMS   float64   `json:"fsync_ms"`
	Load      float64   `json:"load_before"` // average of the minute before
	Rows      []row     `json:"cases"`
	Start     starts    `json:"start"`
	File      files     `json:"file"`
	Idle      idle      `json:"idle"`
	Footprint footprint `json:"footprint"`
	Groups    []*group  `json:"figures"`
	Skipped   []skipped `json:"skipped,omitempty"`

	events int
	storms figures.Storms // which `make storms` measures
}

func newReport(ctx context.Context, o options) *report {
	return &report{
		Commit: figures.Commit(ctx), At: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Seconds: o.seconds, Load: figures.LoadAverage(), events: o.events,
	}
}

func (r *report) add(name, subject string, m measurement) {
	r.Rows = append(r.Rows, row{name, subject, m})
}

func (r *report) skip(name, why string) {
	r.Skipped = append(r.Skipped, skipped{name, strings.TrimSpace(why)})
}

// hide removes the repository's folder from shown and saved text.
func (r *report) hide(root string) {
	for i := range r.Skipped {
		r.Skipped[i].Why = strings.ReplaceAll(r.Skipped[i].Why, root, ".")
	}
}

// find returns a measurement, or the zero one.
func (r *report) find(name, subject string, clients int) measurement {
	for _, row := range r.Rows {
		if row.Case == name && row.Subject == subject && row.Clients == clients {
			return row.measurement
		}
	}
	return measurement{}
}

// print writes the table, the figures and the skipped cases.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\npurser %s, %s, %s, %d cores shared by load, seller and the program measured, %g s each, one fsync %.2f ms\n",
		r.Commit, r.Go, r.System, r.Cores, r.Seconds, r.FsyncMS)
	if r.Load >= figures.Busy*float64(r.Cores) {
		fmt.Fprintf(w, "The machine was busy before (load %.1f): ratios may be off, budgets are not worth much.\n", r.Load)
	}
	fmt.Fprintf(w, "\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "case\tprogram\tclients\treq/s\tCPU ms/req\tp50 ms\tp99 ms\tgap p50\tgap p99\twrote kB\town MiB\tMiB\t\n")
	for i, row := range r.Rows {
		if i > 0 && row.Case != r.Rows[i-1].Case {
			fmt.Fprintf(t, "%s\n", strings.Repeat("\t", 12))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Case, row.Subject, row.Clients, row.Rate,
			known("%.3f", row.CPU), known("%.2f", row.P50), known("%.2f", row.P99), known("%.2f", row.GapP50), known("%.2f", row.GapP99),
			known("%.1f", row.WroteKB), known("%.0f", row.OwnMiB), known("%.0f", row.MiB))
	}
	_ = t.Flush() // a failed print is no error
	fmt.Fprintf(w, "\n")
	for _, g := range r.Groups {
		if len(g.Figures) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n  %s\n", g.What, g.Means)
		t = tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		for _, f := range g.Figures {
			fmt.Fprintf(t, "  %s\t%.2f\t%s\t%s\n", f.Of, f.Value, f.Budget, f.verdict())
		}
		_ = t.Flush()
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "\nnot measured or not to the end: %s: %s\n", s.Case, s.Why)
	}
}

func known(format string, value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
