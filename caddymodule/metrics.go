package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/pay"
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
	refused  *prometheus.CounterVec
	declined *prometheus.CounterVec
	stages   *prometheus.HistogramVec

	overloaded *prometheus.CounterVec
	dropped    prometheus.Counter
}

func newCollectors() *collectorSet {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "purser", Name: name, Help: help}, labels)
	}
	return &collectorSet{
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "purser", Name: "build_info", Help: "Always 1; the labels tell the version.",
		}, []string{"version", "goversion"}),
		begun: counter("payments_begun_total", "Payments that were journaled.", "door", "network", "settlement"),
		outcomes: counter("payments_total", "Outcomes of payments: settled, void, refused, unresolved, confirmed, disputed.",
			"outcome", "network", "settlement"),
		amount: counter("settled_amount_total", "Money that moved, in the smallest unit of the currency.",
			"currency", "network", "settlement"),
		refusals: counter("refusals_total", "Payments refused before anything was journaled, by the rule that refused.",
			"door", "rule"),
		refused:    counter("proxy_refused_total", "Proxy requests that purser refused, by reason.", "reason"),
		declined:   counter("proxy_declined_total", "402s that the proxy did not pay, by reason.", "reason"),
		overloaded: counter("overloaded_total", "Requests that found no room and were answered with 503, by door.", "door"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "purser", Name: "connections_dropped_total", Help: "Connections without a request that were closed for want of room.",
		}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "purser", Name: "stage_duration_seconds", Help: "How long the stages of a payment took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 90, 300},
		}, []string{"stage"}),
	}
}

// registerMetrics registers the process's collectors and the gauges of one configuration.
func registerMetrics(registry *prometheus.Registry, gauges prometheus.Collector) error {
	collectors.build.WithLabelValues(Version(), runtime.Version()).Set(1)
	for _, c := range []prometheus.Collector{
		collectors.build, collectors.begun, collectors.outcomes, collectors.amount, collectors.refusals,
		collectors.refused, collectors.declined, collectors.stages,
		collectors.overloaded, collectors.dropped, gauges,
	} {
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
	case pay.VerdictVoid, pay.VerdictRefused, pay.VerdictAbsent:
		if was != pay.Open {
			return ""
		}
	case pay.VerdictConfirm, pay.VerdictDisprove:
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

func (o observer) Began(p *pay.Payment) {
	collectors.begun.WithLabelValues(string(p.Door), p.Terms.Network, string(p.Terms.Settlement)).Inc()
}

// rules are the labels of refusals; a rule that is not listed counts as "other", so that
// their number stays bounded.
var rules = map[string]bool{
	"doors": true, "validity": true, "unanswered": true, "hosts": true, "payees": true, "price-guard": true,
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

func (o observer) Took(stage string, d time.Duration) {
	switch stage {
	case "journal", "sign", "verify", "settle", "send", "total":
	default:
		stage = "other"
	}
	collectors.stages.WithLabelValues(stage).Observe(d.Seconds())
}

// scrapeTime bounds what a scrape asks of the store.
const scrapeTime = 2 * time.Second

var (
	paymentsDesc = prometheus.NewDesc("purser_payments", "Payments whose outcome is not known, or known to be wrong, by label.",
		[]string{"label"}, nil)
	facilitatorUpDesc = prometheus.NewDesc("purser_facilitator_up",
		"0 while new payments that need the facilitator are refused because it has failed too often.", nil, nil)
	reconcilingDesc = prometheus.NewDesc("purser_reconciling",
		"1 while payments are refused because the store was restored from a backup and is not reconciled with the chain.", nil, nil)
	storeUpDesc = prometheus.NewDesc("purser_store_up", "1 if the store can take new payments.", nil, nil)
)

// gauges read the store of one configuration when they are scraped.
type gauges struct{ app *App }

func (g gauges) Describe(to chan<- *prometheus.Desc) {
	to <- paymentsDesc
	to <- storeUpDesc
	to <- reconcilingDesc
	to <- facilitatorUpDesc
}

func (g gauges) Collect(to chan<- prometheus.Metric) {
	run := g.app.live.Load()
	if run == nil {
		return // not started: nothing is known
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	up := 1.0
	if run.home.store.Health(ctx) != nil {
		up = 0
	}
	to <- prometheus.MustNewConstMetric(storeUpDesc, prometheus.GaugeValue, up)
	if r, err := run.home.store.Restored(ctx); err != nil {
		g.app.log.Warn("not known whether there is something to reconcile", "error", err)
	} else {
		pending := 0.0
		if r != nil {
			pending = 1
		}
		to <- prometheus.MustNewConstMetric(reconcilingDesc, prometheus.GaugeValue, pending)
	}
	if f, ok := run.tenant.facilitator.(interface{ Failing() error }); ok {
		up := 1.0
		if f.Failing() != nil {
			up = 0
		}
		to <- prometheus.MustNewConstMetric(facilitatorUpDesc, prometheus.GaugeValue, up)
	}
	for _, label := range []string{"open", "unresolved", "disputed"} {
		n, err := run.home.store.CountOpen(ctx, label)
		if err != nil {
			g.app.log.Warn("payments not counted", "label", label, "error", err)
			continue
		}
		to <- prometheus.MustNewConstMetric(paymentsDesc, prometheus.GaugeValue, float64(n), label)
	}
}
