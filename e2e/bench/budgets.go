package main

import "fmt"

// The budgets of the design (docs/design.md §10).
const (
	passThroughBudget = 0.9  // share of plain Caddy's requests per second, at least
	cpuBudget         = 0.35 // ms of CPU per paid proxied request, at most
	gapBudget         = 0.4  // ms from challenge to paid retry at one client, at most, plus one fsync
	speedBudget       = 5.0  // times the TypeScript client's requests per second at 32 clients, at least
	// historyBudget bounds the cost of a long history, as a factor of the short history's value.
	// The factor allows for noise. A tree of a hundred times the size has one more level.
	historyBudget = 1.25
)

// bound is a budget: a value, and whether measured values must be above or below it.
type bound struct {
	value float64
	least bool
	words string
}

func atLeast(v float64) *bound { return &bound{v, true, fmt.Sprintf("≥ %.2f", v)} }
func atMost(v float64) *bound  { return &bound{v, false, fmt.Sprintf("≤ %.2f", v)} }

// compare computes the ratios of measurements. It leaves out a ratio with a missing side.
func (r *report) compare() {
	for _, n := range levels {
		ours := r.find("paid", purserProxy, n)
		r.value(fmt.Sprintf("paid, %s: CPU ms of purser per request", counted(n)), ours.CPU, atMost(cpuBudget))
		if n == 1 {
			gap := atMost(gapBudget + r.FsyncMS)
			gap.words += " (0.40 + one fsync)"
			r.value("paid, 1 client: ms from challenge to paid retry", ours.GapP50, gap)
			r.value("paid, 1 client with pauses: ms from challenge to paid retry", r.find("paid", purserPaced, n).GapP50, gap)
		}
		for _, peer := range []string{fetchV2, fetchV1} {
			theirs := r.find("paid", peer, n)
			var speed *bound
			if n == maxClients && peer == fetchV2 {
				speed = atLeast(speedBudget)
			}
			r.ratio(fmt.Sprintf("paid, %s: requests/s, purser / %s", counted(n), peer), ours.Rate, theirs.Rate, speed)
			r.ratio(fmt.Sprintf("paid, %s: CPU, purser / %s", counted(n), peer), ours.CPU, theirs.CPU, nil)
			r.ratio(fmt.Sprintf("paid, %s: gap, purser / %s", counted(n), peer), ours.GapP50, theirs.GapP50, nil)
		}
	}
	for _, n := range []int{1, 32} {
		ours, plain, direct := r.find("free", purserProxy, n), r.find("free", plainCaddy, n), r.find("free", directly, n)
		r.ratio(fmt.Sprintf("free, %s: requests/s, purser / plain Caddy", counted(n)), ours.Rate, plain.Rate, atLeast(passThroughBudget))
		r.ratio(fmt.Sprintf("free, %s: p50, purser / plain Caddy", counted(n)), ours.P50, plain.P50, nil)
		r.ratio(fmt.Sprintf("free, %s: CPU, purser / plain Caddy", counted(n)), ours.CPU, plain.CPU, nil)
		r.ratio(fmt.Sprintf("free, %s: requests/s, purser / direct", counted(n)), ours.Rate, direct.Rate, nil)
	}
	for _, n := range levels {
		ours, theirs := r.find("rest", purserREST, n), r.find("paid", fetchV2, n)
		r.ratio(fmt.Sprintf("rest, %s: payments/s, POST /v1/pay / %s", counted(n), fetchV2), ours.Rate, theirs.Rate, nil)
		r.ratio(fmt.Sprintf("rest, %s: CPU, POST /v1/pay / %s", counted(n), fetchV2), ours.CPU, theirs.CPU, nil)
	}
	short := r.find("history", withEvents(purserSpend, shortHistory), 1)
	long := r.find("history", withEvents(purserSpend, r.events), 1)
	sizes := fmt.Sprintf("%d / %d events", r.events, shortHistory)
	r.ratio("history: p50 of listing, "+sizes, long.P50, short.P50, atMost(historyBudget))
	r.ratio("history: CPU of listing, "+sizes, long.CPU, short.CPU, nil)
	short = r.find("history", withEvents(purserProxy, shortHistory), historyClients)
	long = r.find("history", withEvents(purserProxy, r.events), historyClients)
	r.ratio("history: CPU of paying, "+sizes, long.CPU, short.CPU, atMost(historyBudget))
	r.ratio("history: gap of paying, "+sizes, long.GapP50, short.GapP50, nil)
	r.ratio("history: own memory after the load, "+sizes, long.OwnMiB, short.OwnMiB, nil)
}

func (r *report) ratio(what string, a, b float64, budget *bound) {
	if b != 0 {
		r.value(what, a/b, budget)
	}
}

// value adds a value, unless it was not measured.
func (r *report) value(what string, v float64, budget *bound) {
	if v == 0 {
		return
	}
	c := comparison{What: what, Value: v}
	if budget != nil {
		kept := v <= budget.value
		if budget.least {
			kept = v >= budget.value
		}
		c.Budget, c.Kept = budget.words, &kept
	}
	r.Comparisons = append(r.Comparisons, c)
}

func counted(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", clients)
}
