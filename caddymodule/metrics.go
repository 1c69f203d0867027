package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/x402"
)

// collectors are made once per process and registered with each configuration's registry,
// so that a reload does not set them back.
var collectors = newCollectors()

type collectorSet struct {
	build    *prometheus.GaugeVec
	begun    *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	amount   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	keys     prometheus.Counter
	refused  *prometheus.CounterVec
	// contradicted has no labels: one is an alarm, whatever it was.
	contradicted prometheus.Counter
	declined     *prometheus.CounterVec
	stages       *prometheus.HistogramVec

	requests    *prometheus.CounterVec
	responses   *prometheus.CounterVec
	tunnels     prometheus.Gauge
	spoolMemory prometheus.Gauge
	spoolDisk   prometheus.Gauge
	spoolFiles  prometheus.Gauge
	facilitator *prometheus.CounterVec
	rpc         *prometheus.CounterVec

	overloaded *prometheus.CounterVec
	dropped    prometheus.Counter
	ignored    *prometheus.CounterVec
	unsent     prometheus.Counter
}

func newCollectors() *collectorSet {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "purser", Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "purser", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "purser", Name: name, Help: help})
	}
	c := &collectorSet{
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "purser", Name: "build_info", Help: "Always 1; the labels tell the version.",
		}, []string{"version", "goversion"}),
		begun: counters("payments_begun_total", "Payments that were journaled.", "door", "network", "settlement"),
		outcomes: counters("payments_total", "Outcomes of payments: settled, void, refused, unresolved, confirmed, disputed.",
			"outcome", "network", "settlement"),
		amount: counters("settled_amount_total", "Money that moved, in the smallest unit of the currency.",
			"currency", "network", "settlement"),
		refusals: counters("refusals_total", "Payments refused before anything was journaled, by the rule that refused.",
			"door", "rule"),
		keys:         counter("keys_created_total", "API keys that were made."),
		contradicted: counter("payments_contradicted_total", "Payments that moved money after they were refused or void."),
		refused:      counters("proxy_refused_total", "Proxy requests that purser refused, by reason.", "reason"),
		declined:     counters("proxy_declined_total", "402s that the proxy did not pay, by reason.", "reason"),
		requests:     counters("proxy_requests_total", "Requests at the doors that send requests themselves, by what became of them.", "door", "result"),
		responses:    counters("api_responses_total", "Answers of the REST API, by HTTP status.", "code"),
		overloaded:   counters("overloaded_total", "Requests that found no room and were answered with 503, by door.", "door"),
		dropped:      counter("connections_dropped_total", "Connections without a request that were closed for want of room."),
		unsent:       counter("events_dropped_total", "Caddy events that were dropped because their subscribers are slow."),
		tunnels:      gauge("tunnels_open", "Tunnels of the proxy that are open: CONNECT, intercepted or not, and WebSocket."),
		spoolMemory:  gauge("spool_memory_bytes", "Memory that holds request bodies until it is clear that they need not be sent again."),
		spoolDisk:    gauge("spool_file_bytes", "Temporary files that hold the rest of such request bodies, in bytes."),
		spoolFiles:   gauge("spool_files", "Temporary files that hold request bodies."),
		facilitator:  counters("facilitator_requests_total", "Calls of the facilitator, by result; error is a call that brought no verdict.", "call", "result"),
		rpc:          counters("rpc_requests_total", "Questions to the RPC, each of one or several calls, by result.", "question", "result"),
		ignored:      counters("evidence_ignored_total", "Answers of an RPC that counted for nothing, wholly or in part, by reason.", "rpc", "reason"),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "purser", Name: "stage_duration_seconds", Help: "How long the stages of a payment took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 90, 300},
		}, []string{"stage"}),
	}
	c.fill()
	return c
}

// fill makes the counters whose labels are known be there from the start: one that comes into
// being with 1 has not risen, to Prometheus.
func (c *collectorSet) fill() {
	for _, door := range []pay.Door{pay.DoorProxy, pay.DoorTransport} {
		for _, result := range doorResults {
			c.requests.WithLabelValues(string(door), result)
		}
	}
	for _, call := range []string{"verify", "settle", "probe"} {
		for _, result := range []string{callOK, callRefused, callError} {
			c.facilitator.WithLabelValues(call, result)
		}
	}
	for _, question := range []string{"identify", "balance", "trace", "head"} {
		for _, result := range []string{callOK, callError} {
			c.rpc.WithLabelValues(question, result)
		}
	}
	for _, rpc := range []pay.TimeSource{pay.SourceRPC, pay.SourceSecondRPC} {
		for _, reason := range pay.IgnoredReasons() {
			c.ignored.WithLabelValues(string(rpc), reason)
		}
	}
	for _, door := range []string{"api", "proxy", "transport"} {
		c.overloaded.WithLabelValues(door)
	}
	for _, reason := range []string{proxy.DeclinedSellerFailing, proxy.DeclinedNotDelivered} { // alerts look at these
		c.declined.WithLabelValues(reason)
	}
	for _, door := range []pay.Door{pay.DoorAPI, pay.DoorProxy, pay.DoorTransport} { // an alert looks at this one
		c.refusals.WithLabelValues(string(door), "failures")
	}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		c.responses.WithLabelValues(strconv.Itoa(status))
	}
}

// fillNetworks is fill for what is counted by network.
func (c *collectorSet) fillNetworks(networks []x402.Network) {
	outcomes := []pay.Verdict{
		pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.VerdictUnresolved, pay.VerdictConfirmed, pay.VerdictDisputed,
	}
	for _, n := range networks {
		for _, settlement := range []pay.Settlement{pay.SettlePayer, pay.SettleSeller} {
			for _, outcome := range outcomes {
				c.outcomes.WithLabelValues(string(outcome), n.Name, string(settlement))
			}
			for _, door := range []pay.Door{pay.DoorAPI, pay.DoorProxy, pay.DoorTransport} {
				c.begun.WithLabelValues(string(door), n.Name, string(settlement))
			}
			for _, asset := range n.Assets {
				c.amount.WithLabelValues(asset.Symbol, n.Name, string(settlement))
			}
		}
	}
}

// all are the process's collectors.
func (c *collectorSet) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.build, c.begun, c.outcomes, c.contradicted, c.amount, c.refusals, c.refused, c.declined, c.stages,
		c.requests, c.responses, c.tunnels, c.spoolMemory, c.spoolDisk, c.spoolFiles, c.facilitator, c.rpc, c.ignored,
		c.overloaded, c.dropped, c.unsent, c.keys,
	}
}

// registerMetrics registers the process's collectors and the gauges of one configuration.
func registerMetrics(registry *prometheus.Registry, gauges gauges) error {
	collectors.fillNetworks(gauges.app.settings.networks)
	collectors.build.WithLabelValues(Version(), runtime.Version()).Set(1)
	for _, c := range append(collectors.all(), gauges) {
		var again prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &again) {
			return fmt.Errorf("purser: registering metrics: %w", err)
		}
	}
	return nil
}

// observer tells metrics and events what happens to payments.
type observer struct{ events *events }

var _ pay.Observer = observer{}

// outcomeOf is the label of a change, or "" for one that is a repetition.
func outcomeOf(was pay.State, v pay.Verdict) string {
	switch v {
	case pay.VerdictSettled:
		if was == pay.Settled {
			return ""
		}
	case pay.VerdictVoid, pay.VerdictRefused, pay.VerdictUnresolved:
		if was != pay.Open {
			return ""
		}
	case pay.VerdictConfirmed, pay.VerdictDisputed:
	default:
		return "" // only money given back, not a new outcome
	}
	return string(v)
}

func (o observer) Changed(p *pay.Payment, was pay.State, v pay.Verdict) {
	network, settlement := p.Terms.Network, string(p.Terms.Settlement)
	outcome := outcomeOf(was, v)
	if outcome != "" {
		collectors.outcomes.WithLabelValues(outcome, network, settlement).Inc()
	}
	if outcome == string(pay.VerdictSettled) {
		amount, _ := p.Terms.Amount.Big().Float64()
		collectors.amount.WithLabelValues(p.Currency, network, settlement).Add(amount)
	}
	if ev, ok := eventOf(p, was, v); ok {
		o.events.send(ev)
	}
}

func (o observer) Contradicted(*pay.Payment) { collectors.contradicted.Inc() }

func (o observer) Began(p *pay.Payment) {
	collectors.begun.WithLabelValues(string(p.Door), p.Terms.Network, string(p.Terms.Settlement)).Inc()
}

// rules are the labels of refusals; a rule that is not listed counts as "other", so that
// their number stays bounded.
var rules = map[string]bool{
	"quota": true, "failures": true, "amount": true, "challenge-too-large": true, "doors": true, "validity": true, "unanswered": true, "hosts": true, "payees": true, "price-guard": true,
	"per-payment": true, "daily-budget": true, "monthly-budget": true, "per-minute": true,
	"host-per-payment": true, "host-daily-budget": true, "host-monthly-budget": true,
	"task-per-payment": true, "task-daily-budget": true, "task-monthly-budget": true,
}

func (o observer) Refused(door pay.Door, rule string) {
	if !rules[rule] {
		rule = "other"
	}
	collectors.refusals.WithLabelValues(string(door), rule).Inc()
}

// The proxy's reasons are words of its own source, so their number is bounded.
func refusedByProxy(reason string)  { collectors.refused.WithLabelValues(reason).Inc() }
func declinedByProxy(reason string) { collectors.declined.WithLabelValues(reason).Inc() }

// The pay core names the reasons and the sources, so their number is bounded.
func (o observer) Ignored(rpc pay.TimeSource, reason string) {
	collectors.ignored.WithLabelValues(string(rpc), reason).Inc()
}

func (o observer) Took(stage string, d time.Duration) {
	switch stage {
	case "decide", "journal", "sign", "verify", "settle", "send", "total":
	default:
		stage = "other"
	}
	collectors.stages.WithLabelValues(stage).Observe(d.Seconds())
}
