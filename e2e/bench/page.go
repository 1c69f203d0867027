package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/e2e/internal/figures"
)

// docsFolder holds docs/performance.md, which a run of all cases writes anew with its charts.
const docsFolder = "docs"

// draw writes the page and its charts.
func (r *report) draw(folder string) error {
	pictures := filepath.Join(folder, "performance")
	if err := os.MkdirAll(pictures, 0o750); err != nil {
		return err
	}
	var page strings.Builder
	r.head(&page)
	for _, c := range r.charts() {
		if len(c.series) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(pictures, c.file+".svg"), []byte(c.svg()), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(&page, "![%s](performance/%s.svg)\n\n", c.title, c.file)
	}
	r.figures(&page)
	storms(&page, r.storms)
	r.sizing(&page)
	r.method(&page)
	return os.WriteFile(filepath.Join(folder, "performance.md"), []byte(page.String()), 0o600)
}

type picture struct {
	file string
	chart
}

// charts draws what was measured. Programs without values are left out.
func (r *report) charts() []picture {
	paid := func(of func(measurement) float64, names ...string) chart {
		return r.byClients("paid", levels, of, names...)
	}
	rate := func(m measurement) float64 { return m.Rate }
	payers := []string{purserProxy, purserProxyV1, purserSidecar, purserSidecarV1, bareGo, fetchV2, fetchV1}
	list := []picture{
		{"rate", paid(rate, payers...)},
		{"cpu", paid(func(m measurement) float64 { return m.CPU }, payers...)},
		{"gap", paid(func(m measurement) float64 { return m.GapP50 }, payers...)},
		{"tail", paid(func(m measurement) float64 { return m.P99 / max(m.P50, 1e-9) }, payers...)},
		{"unpaid", r.byClients("free", freeLevels, rate, purserProxy, purserSidecar, plainCaddy, directly)},
		{"written", paid(func(m measurement) float64 { return m.WroteKB }, purserProxy, purserSidecar)},
	}
	for i, words := range [][2]string{
		{"Paid requests", "per second; more is better"},
		{"CPU per paid request", "ms; less is better"},
		{"From challenge to paid retry", "p50 in ms; less is better"},
		{"p99 of a paid request", "multiples of p50; less is better"},
		{"Unpaid requests", "per second; more is better"},
		{"Written to files per payment", "kB; less is better"},
	} {
		list[i].title, list[i].unit = words[0], words[1]
	}
	return list
}

func (r *report) byClients(name string, clients []int, of func(measurement) float64, subjects ...string) chart {
	var c chart
	for _, n := range clients {
		c.groups = append(c.groups, counted(n))
	}
	for _, subject := range subjects {
		s := series{name: subject}
		sum := 0.0
		for _, n := range clients {
			v := of(r.find(name, subject, n))
			s.values = append(s.values, v)
			sum += v
		}
		if sum > 0 {
			c.series = append(c.series, s)
		}
	}
	return c
}

func (r *report) head(page *strings.Builder) {
	met, all := 0, 0
	for _, g := range r.Groups {
		for _, f := range g.Figures {
			if f.Met != nil {
				all++
				if *f.Met {
					met++
				}
			}
		}
	}
	fmt.Fprintf(page, `# Performance

`+"`make bench`"+` measures purser and writes this page with its charts: change the bench, not the page.

Measured on %s at commit %s with %s on %s.
Load, seller and the program measured share %d cores. Each value takes %g s; one flush of the disk takes %.2f ms.
Other machines have other numbers. The ratios between programs, which ran one after the other, carry over better.

%d of %d budgets are met. A budget is a goal of [the design](design/README.md#proof), and fails no build.

`, r.At.Format("2 January 2006"), r.Commit, r.Go, r.System, r.Cores, r.Seconds, r.FsyncMS, met, all)
	if r.Load >= figures.Busy*float64(r.Cores) {
		fmt.Fprintf(page, "The machine was busy before this run (load %.1f): absolute numbers are too low.\n\n", r.Load)
	}
}

func (r *report) figures(page *strings.Builder) {
	fmt.Fprintf(page, "## Figures\n\n")
	for _, g := range r.Groups {
		if len(g.Figures) == 0 {
			continue
		}
		fmt.Fprintf(page, "### %s\n\n%s\n\n| | measured | budget | |\n|---|---|---|---|\n", g.What, g.Means)
		for _, f := range g.Figures {
			fmt.Fprintf(page, "| %s | %.2f | %s | %s |\n", f.Of, f.Value, f.Budget, f.verdict())
		}
		fmt.Fprintf(page, "\n")
	}
}

// peak holds the ratio of the busiest second of a day to an average one.
const peak = 10

// sizing derives what a deployment needs. Cores are for the peak at half load.
func (r *report) sizing(page *strings.Builder) {
	eight, many := r.find("paid", purserProxy, 8), r.find("paid", purserProxy, maxClients)
	if eight.CPU == 0 || many.WroteKB == 0 || r.File.RetiredKB == 0 || r.Idle.OwnMiB == 0 {
		return
	}
	perAgent := (r.Idle.OwnMiB - r.Idle.StartMiB) / float64(max(r.Idle.Agents, 1))
	fmt.Fprintf(page, `## Sizing

Derived from the figures above: the CPU of a paid request at 8 clients, with a peak of %d times the day's average and the
cores half idle at the peak; bytes written at 1 client, which is the most; the file of retired payments for a year, with
the newest 30 days unretired. An agent is a program with one open connection; https that purser intercepts takes more.

| payments a day | at the peak, a second | agents | cores | memory, MiB | written a day, GB | file after a year, GB |
|---|---|---|---|---|---|---|
`, peak)
	for _, s := range []struct {
		payments float64
		agents   float64
	}{{1_000, 10}, {10_000, 100}, {100_000, 1_000}, {1_000_000, 1_000}, {10_000_000, 4_000}} {
		second := s.payments * peak / (24 * 60 * 60)
		cores := math.Ceil(second*eight.CPU/1000*2*10) / 10
		memory := max(r.Idle.StartMiB, many.OwnMiB) + perAgent*s.agents
		written := s.payments * r.find("paid", purserProxy, 1).WroteKB / 1e6
		file := (s.payments*335*r.File.RetiredKB + s.payments*30*max(r.File.FreshKB, r.File.RetiredKB)) / 1e6
		fmt.Fprintf(page, "| %.0f | %s | %.0f | %.1f | %.0f | %s | %s |\n",
			s.payments, short(second), s.agents, cores, memory, short(written), short(file))
	}
	fmt.Fprintf(page, "\nOne process writes one database: %.0f paid requests a second is what these %d cores reached together with load and seller.\n\n",
		many.Rate, r.Cores)
}

func (r *report) method(page *strings.Builder) {
	fmt.Fprint(page, `## What is measured

- The seller accepts every payment and answers at once, on loopback. Chain and facilitator cost nothing here: purser has
  no RPC, and the seller settles.
- Each client sends its next request when it has the last one's answer. Each request has a URL of its own, and is a new
  payment. At the proxy every client has a key; the sidecar has one key for all.
- *Bare Go client* decodes, signs and repeats with net/http and package x402. It keeps no journal, checks no limit, and
  has no hop: the floor. *@x402/fetch* (v2) and *x402-fetch* (v1) are the reference clients on Node. They keep no books.
- *Plain Caddy* is the same binary with a reverse_proxy to the seller. *Direct* is the load without a hop.
- purser runs as it is shipped, with its journal on the disk of the run and its log to a pipe.
`)
	for _, s := range r.Skipped {
		fmt.Fprintf(page, "- Not measured or not to the end: %s: %s\n", s.Case, s.Why)
	}
}
