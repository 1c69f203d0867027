package main

import "fmt"

// Budgets of docs/design/README.md. They hold on two cores that load, seller and purser share. Met or
// not met is said in the results; no budget fails a build.
const (
	freeForwardBudget = 0.92 // share of plain Caddy's requests per second, at least
	freeSidecarBudget = 0.90
	freeToolBudget    = 0.90    // of a free call of MCP, at both doors
	cpuShareBudget    = 1.0 / 3 // of the CPU of @x402/fetch per paid request, at 8 and 32 clients, at most
	speedBudget       = 4.0     // times the paid requests per second of @x402/fetch at 32 clients, at least
	gapBudget         = 0.30    // ms from challenge to paid retry at one client, at most, plus one flush
	tailBudget        = 2.5     // p99 of a paid request, as a multiple of its p50, at 8 and 32 clients, at most
	fileBudget        = 1.3     // kB of file per settled and retired payment, at most
	historyFileBudget = 14.0    // GB of files with 10 million events, at most
	startBudget       = 2.0     // seconds, at most
	hotBudget         = 2.5     // times pgbench's transactions per second at 64 clients, at least
	nodesBudget       = 0.6     // payments per second of three nodes on one budget, as a share of one node's, at least
	loadBudget        = 160.0   // MiB of memory after half a minute of 32 paying clients, at most
	laterBudget       = 100.0   // MiB a minute later, at most
	// historyBudget bounds the cost of a long history, as a factor of the short history's value.
	historyBudget = 1.25
)

var (
	cpuBudget   = map[int]float64{1: 0.55, 8: 0.30, 32: 0.25} // ms of purser's CPU per paid request by clients, at most
	wroteBudget = map[int]float64{1: 8, 32: 4}                // kB written to files per payment by clients, at most
)

// bound is a budget: a value, and whether measured values must be above or below it.
type bound struct {
	value float64
	least bool
	words string
}

func atLeast(v float64) *bound { return &bound{v, true, fmt.Sprintf("≥ %.2f", v)} }
func atMost(v float64) *bound  { return &bound{v, false, fmt.Sprintf("≤ %.2f", v)} }

// compare computes the figures. It leaves out a figure with a side that was not measured.
func (r *report) compare() {
	r.comparePaid()
	r.compareFree()
	r.compareFiles()
	r.compareHistory()
	r.compareStores()
}

func (r *report) comparePaid() {
	cpu := r.group("CPU per paid request, ms",
		"Processor time of purser alone, in user and system mode, for one request that is challenged, journaled, signed "+
			"and sent again. A thousand divided by it is what one core can pay in a second.")
	share := r.group("CPU per paid request, against others",
		"The same beside clients that pay by themselves. The bare Go client keeps no books and has no hop: it is the floor.")
	speed := r.group("Paid requests per second, against others",
		"Load, seller and the program share the cores. A client that pays by itself is its own load, so it has the cores "+
			"to itself and the seller.")
	gap := r.group("From challenge to paid retry, ms",
		"p50 of the time from the seller's 402 to the request with the payment, as the seller sees it: what purser adds "+
			"to the first answer.")
	tail := r.group("p99 of paid requests, as a multiple of p50", "How much a slow request differs from a usual one.")
	wrote := r.group("Written to files per payment, kB",
		"Bytes that purser hands to the disk by system calls (wchar of /proc/PID/io, without network and log), for the "+
			"journal, the outcome and their share of checkpoints.")
	gap.value(counted(1)+", with pauses", r.find("paid", purserPaced, 1).GapP50, r.gapBound())
	for _, n := range levels {
		ours, theirs := r.find("paid", purserProxy, n), r.find("paid", fetchV2, n)
		cpu.value(counted(n), ours.CPU, atMost(cpuBudget[n]))
		var most, least, slow, soon, little *bound
		if n == 1 {
			soon = r.gapBound()
		} else {
			most, slow = atMost(cpuShareBudget), atMost(tailBudget)
		}
		if n == maxClients {
			least = atLeast(speedBudget)
		}
		if budget, ok := wroteBudget[n]; ok {
			little = atMost(budget)
		}
		share.ratio(counted(n)+", "+fetchV2, ours.CPU, theirs.CPU, most)
		share.ratio(counted(n)+", "+bareGo, ours.CPU, r.find("paid", bareGo, n).CPU, nil)
		speed.ratio(counted(n)+", "+fetchV2, ours.Rate, theirs.Rate, least)
		speed.ratio(counted(n)+", "+bareGo, ours.Rate, r.find("paid", bareGo, n).Rate, nil)
		gap.value(counted(n), ours.GapP50, soon)
		tail.ratio(counted(n), ours.P99, ours.P50, slow)
		wrote.value(counted(n), ours.WroteKB, little)
		for _, other := range []string{purserProxyV1, purserSidecar, purserSidecarV1} {
			cpu.value(counted(n)+", "+other, r.find("paid", other, n).CPU, nil)
		}
	}
}

func (r *report) gapBound() *bound {
	b := atMost(gapBudget + r.FsyncMS)
	b.words += " (0.30 + one flush)"
	return b
}

func (r *report) compareFree() {
	free := r.group("Unpaid requests per second, as a share of plain Caddy",
		"What a free answer costs on its way through purser: a hop through "+
			"the same server without purser in its configuration is 1.")
	latency := r.group("p50 of unpaid requests, as a multiple of plain Caddy", "The same, as its client waits for it.")
	for _, n := range freeLevels {
		plain := r.find("free", plainCaddy, n)
		for _, door := range []struct {
			name string
			most float64
		}{{purserProxy, freeForwardBudget}, {purserSidecar, freeSidecarBudget}} {
			ours := r.find("free", door.name, n)
			free.value(counted(n)+", "+door.name, ours.share(plain), atLeast(door.most))
			latency.ratio(counted(n)+", "+door.name, ours.P50, plain.P50, nil)
		}
	}
	tool := r.group("Free calls of MCP per second, as a share of plain Caddy",
		"The same for a call of a tool that costs nothing and is answered with JSON. purser reads call and answer, because "+
			"that may ask for money.")
	for _, n := range freeLevels {
		for _, door := range []string{purserProxy, purserSidecar} {
			tool.value(counted(n)+", "+door, r.find("tool", door, n).share(r.find("tool", plainCaddy, n)), atLeast(freeToolBudget))
		}
	}
}

func (r *report) compareFiles() {
	file := r.group("File per payment, kB", "Size of the database with its journal. A payment is retired when it is 30 days old: "+
		"its payload is dropped.")
	file.value("settled and retired", r.File.RetiredKB, atMost(fileBudget))
	file.value("settled, with its payload", r.File.FreshKB, nil)
	start := r.group("Start, s", "From the start of the process to the first answer.")
	start.value("empty database", r.Start.EmptyMS/1000, nil)
	start.value(fmt.Sprintf("%d open payments", r.Start.Open), r.Start.OpenMS/1000, atMost(startBudget))
	start.value(fmt.Sprintf("%d open payments, after a crash under load", r.Start.Open), r.Start.CrashMS/1000, atMost(startBudget))
	start.value(fmt.Sprintf("%d events", r.Start.Events), r.Start.HistoryMS/1000, atMost(startBudget))
	memory := r.group("Memory, MiB", "The process's own memory, without pages of the database, which the system may drop at any time.")
	memory.value("after the start and one payment", r.Idle.StartMiB, nil)
	memory.value(fmt.Sprintf("%d idle agents, each with a connection", r.Idle.Agents), r.Idle.OwnMiB, nil)
	memory.value("after half a minute of 32 paying clients", r.Footprint.LoadMiB, atMost(loadBudget))
	memory.value("a minute later", r.Footprint.LaterMiB, atMost(laterBudget))
}

func (r *report) compareHistory() {
	sizes := fmt.Sprintf("%d / %d events", r.events, shortHistory)
	history := r.group("A long history, as a multiple of a short one: "+sizes, "Listing is the newest page of GET /v1/spend, "+
		"paying is a paid request through the proxy, both by p50. 1 means that old payments cost nothing.")
	listing := func(n int) measurement { return r.find("history", withEvents(purserSpend, n), 1) }
	paying := func(n int) measurement { return r.find("history", withEvents(purserProxy, n), historyClients) }
	history.ratio("listing, time", listing(r.events).P50, listing(shortHistory).P50, atMost(historyBudget))
	history.ratio("listing, CPU", listing(r.events).CPU, listing(shortHistory).CPU, nil)
	history.ratio("paying, time", paying(r.events).P50, paying(shortHistory).P50, atMost(historyBudget))
	history.ratio("paying, CPU", paying(r.events).CPU, paying(shortHistory).CPU, atMost(historyBudget))
	var most *bound
	if r.events == maxEvents {
		most = atMost(historyFileBudget)
	}
	file := r.group("Files with a long history, GB", fmt.Sprintf("With %d settled and retired payments.", r.events))
	file.value("all", r.File.HistoryGB, most)
}

// group is a list of figures of one kind, with what they mean.
type group struct {
	What    string   `json:"what"`
	Means   string   `json:"means"`
	Figures []figure `json:"figures"`
}

// figure is a value with its budget, if the design has one.
type figure struct {
	Of     string  `json:"of"`
	Value  float64 `json:"value"`
	Budget string  `json:"budget,omitempty"`
	Met    *bool   `json:"met,omitempty"`
}

func (r *report) group(what, means string) *group {
	g := &group{What: what, Means: means}
	r.Groups = append(r.Groups, g)
	return g
}

func (g *group) ratio(of string, a, b float64, budget *bound) {
	if b != 0 {
		g.value(of, a/b, budget)
	}
}

// value adds a value, unless it was not measured.
func (g *group) value(of string, v float64, budget *bound) {
	if v == 0 {
		return
	}
	f := figure{Of: of, Value: v}
	if budget != nil {
		met := v <= budget.value
		if budget.least {
			met = v >= budget.value
		}
		f.Budget, f.Met = budget.words, &met
	}
	g.Figures = append(g.Figures, f)
}

// verdict is "met", "not met" or empty.
func (f figure) verdict() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "met"
	}
	return "not met"
}

func counted(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", clients)
}
