package caddymodule

// No Caddy here: the observer of the pay core feeds the collectors of internal/metrics and the events of
// this process.

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/pay"
)

// registerMetrics registers the process's collectors and the gauges of one configuration.
func registerMetrics(registry *prometheus.Registry, gauges gauges) error {
	metrics.Process.FillNetworks(gauges.app.settings.networks)
	metrics.Process.Build.WithLabelValues(Version(), runtime.Version()).Set(1)
	for _, c := range append(metrics.Process.All(), gauges) {
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
		metrics.Process.Outcomes.WithLabelValues(outcome, network, settlement).Inc()
	}
	if outcome == string(pay.VerdictSettled) {
		amount, _ := p.Moved().Big().Float64()
		metrics.Process.Amount.WithLabelValues(p.Currency, network, settlement).Add(amount)
	}
	if ev, ok := eventOf(p, was, v); ok {
		o.events.send(ev)
	}
}

func (o observer) Contradicted(*pay.Payment) { metrics.Process.Contradicted.Inc() }

func (o observer) Began(p *pay.Payment) {
	metrics.Process.Begun.WithLabelValues(string(p.Door), p.Terms.Network, string(p.Terms.Settlement)).Inc()
}

// rules are the labels of refusals; a rule that is not listed counts as "other", so that
// their number stays bounded.
var rules = map[string]bool{
	"quota": true, "failures": true, "amount": true, "challenge-too-large": true, "doors": true, "validity": true, "unanswered": true, "hosts": true, "payees": true, "price-guard": true,
	"per-payment": true, "daily-budget": true, "monthly-budget": true, "per-minute": true,
	"host-per-payment": true, "host-daily-budget": true, "host-monthly-budget": true,
	"task-per-payment": true, "task-daily-budget": true, "task-monthly-budget": true,
	"offer-unreadable": true, "offer-differs": true, "offer-signature": true, "offer-expired": true,
}

func (o observer) Refused(door pay.Door, rule string) {
	if !rules[rule] {
		rule = "other"
	}
	metrics.Process.Refusals.WithLabelValues(string(door), rule).Inc()
}

// The proxy's reasons are words of its own source, so their number is bounded.
func refusedByProxy(reason string)  { metrics.Process.Refused.WithLabelValues(reason).Inc() }
func declinedByProxy(reason string) { metrics.Process.Declined.WithLabelValues(reason).Inc() }

// The pay core names the reasons and the sources, so their number is bounded.
func (o observer) Ignored(rpc pay.TimeSource, network, reason string) {
	metrics.Process.Ignored.WithLabelValues(network, string(rpc), reason).Inc()
}

func (o observer) Took(stage string, d time.Duration) {
	switch stage {
	case "decide", "journal", "sign", "verify", "settle", "send", "total":
	default:
		stage = "other"
	}
	metrics.Process.Stages.WithLabelValues(stage).Observe(d.Seconds())
}
