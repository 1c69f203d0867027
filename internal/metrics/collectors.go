package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/x402"
)

// Process holds the collectors of this process. They are registered with the registry of each
// configuration, so that a reload does not set them back.
var Process = newCollectors()

// Collectors count what payments, doors and clients of other services do.
type Collectors struct {
	Build    *prometheus.GaugeVec
	Begun    *prometheus.CounterVec
	Outcomes *prometheus.CounterVec
	Amount   *prometheus.CounterVec
	Refusals *prometheus.CounterVec
	Keys     prometheus.Counter
	Refused  *prometheus.CounterVec
	// Contradicted has no labels: one is an alarm, whatever it was.
	Contradicted prometheus.Counter
	Undelivered  *prometheus.CounterVec
	Declined     *prometheus.CounterVec
	Stages       *prometheus.HistogramVec

	Requests    *prometheus.CounterVec
	Responses   *prometheus.CounterVec
	Tunnels     prometheus.Gauge
	SpoolMemory prometheus.Gauge
	SpoolDisk   prometheus.Gauge
	SpoolFiles  prometheus.Gauge
	Facilitator *prometheus.CounterVec
	RPC         *prometheus.CounterVec

	Overloaded *prometheus.CounterVec
	Dropped    prometheus.Counter
	Ignored    *prometheus.CounterVec
	Held       prometheus.Gauge
	Answers    *prometheus.CounterVec
	Unsent     prometheus.Counter
	Notices    *prometheus.CounterVec
	Waiting    *prometheus.GaugeVec

	// Recent has what was declined in the last hour, by reason: no collector, but the operator's status.
	Recent Recent
}

func newCollectors() *Collectors {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "purser", Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "purser", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "purser", Name: name, Help: help})
	}
	c := &Collectors{
		Build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "purser", Name: "build_info", Help: "Always 1; the labels tell the version.",
		}, []string{"version", "goversion"}),
		Begun: counters("payments_begun_total", "Payments that were journaled.", "door", "network", "settlement", "protocol", "rail"),
		Outcomes: counters("payments_total", "Outcomes of payments: settled, void, refused, unresolved, confirmed, disputed.",
			"outcome", "network", "settlement", "protocol", "rail"),
		Amount: counters("settled_amount_total", "What settled payments cost, without withdrawals, in the smallest unit of the currency.",
			"currency", "network", "settlement", "protocol", "rail"),
		Refusals: counters("refusals_total", "Payments refused before anything was journaled, by the rule that refused.",
			"door", "rule"),
		Keys:         counter("keys_created_total", "API keys that were made."),
		Contradicted: counter("payments_contradicted_total", "Payments that moved money after they were refused or void."),
		Undelivered:  counters("payments_undelivered_total", "Payments that moved money, and whose requests brought an error, an empty or broken answer, or none.", "network", "protocol", "rail"),
		Refused:      counters("proxy_refused_total", "Proxy requests that purser refused, by reason.", "reason"),
		Declined:     counters("proxy_declined_total", "402s that the proxy did not pay, by reason.", "reason"),
		Requests:     counters("proxy_requests_total", "Requests at the doors that send requests themselves, by what became of them.", "door", "result"),
		Responses:    counters("api_responses_total", "Answers of the REST API, by HTTP status.", "code"),
		Overloaded:   counters("overloaded_total", "Requests that found no room and were answered with 503, by door.", "door"),
		Dropped:      counter("connections_dropped_total", "Connections without a request that were closed for want of room."),
		Unsent:       counter("events_dropped_total", "Caddy events that were dropped because their subscribers are slow."),
		Notices:      counters("notices_delivered_total", "Tries to deliver notices, by destination and result: delivered, failed, given-up.", "destination", "result"),
		Waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "purser", Name: "notices_waiting", Help: "Notices that a destination has not got yet.",
		}, []string{"destination"}),
		Held:        gauge("calls_held", "Calls that wait for a person's answer about their payment."),
		Answers:     counters("approvals_answered_total", "Answers of people to approvals: approved, denied.", "answer"),
		Tunnels:     gauge("tunnels_open", "Tunnels of the proxy that are open: CONNECT, intercepted or not, and WebSocket."),
		SpoolMemory: gauge("spool_memory_bytes", "Memory that holds request bodies until it is clear that they need not be sent again."),
		SpoolDisk:   gauge("spool_file_bytes", "Temporary files that hold the rest of such request bodies, in bytes."),
		SpoolFiles:  gauge("spool_files", "Temporary files that hold request bodies."),
		Facilitator: counters("facilitator_requests_total", "Calls of the facilitator, by result; error is a call that brought no verdict.", "call", "result"),
		RPC:         counters("rpc_requests_total", "Questions to the RPC of a network, each of one or several calls, by result.", "network", "question", "result"),
		Ignored:     counters("evidence_ignored_total", "Answers of an RPC that counted for nothing, wholly or in part, by reason.", "network", "rpc", "reason"),
		Stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "purser", Name: "stage_duration_seconds", Help: "How long the stages of a payment took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 90, 300},
		}, []string{"stage"}),
	}
	c.fill()
	return c
}

// fill makes counters be there from the start: one that begins with 1 has not risen, to Prometheus.
func (c *Collectors) fill() {
	for _, door := range []policy.Door{policy.DoorProxy, policy.DoorTransport} {
		for _, result := range doorResults {
			c.Requests.WithLabelValues(string(door), result)
		}
	}
	for _, call := range []string{"verify", "settle", "probe"} {
		for _, result := range []string{callOK, callRefused, callError} {
			c.Facilitator.WithLabelValues(call, result)
		}
	}
	for _, door := range []string{"api", "proxy", "transport"} {
		c.Overloaded.WithLabelValues(door)
	}
	for _, answer := range []pay.ApprovalAnswer{pay.Approved, pay.Denied} {
		c.Answers.WithLabelValues(string(answer))
	}
	for _, reason := range []string{proxy.DeclinedSellerFailing, proxy.DeclinedNotDelivered} { // alerts look at these
		c.Declined.WithLabelValues(reason)
	}
	for _, door := range []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport} { // an alert looks at this one
		c.Refusals.WithLabelValues(string(door), "failures")
	}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		c.Responses.WithLabelValues(strconv.Itoa(status))
	}
}

// FillNetworks does the same for what is counted by network.
func (c *Collectors) FillNetworks(networks []x402.Network) {
	outcomes := []pay.Verdict{
		pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.VerdictUnresolved, pay.VerdictConfirmed, pay.VerdictDisputed,
	}
	for _, n := range networks {
		for _, question := range []string{"identify", "balance", "trace", "head"} {
			for _, result := range []string{callOK, callError} {
				c.RPC.WithLabelValues(n.Name, question, result)
			}
		}
		for _, rpc := range []pay.TimeSource{pay.SourceRPC, pay.SourceSecondRPC} {
			for _, reason := range pay.IgnoredReasons() {
				c.Ignored.WithLabelValues(n.Name, string(rpc), reason)
			}
		}
		for _, settlement := range []pay.Settlement{pay.SettlePayer, pay.SettleSeller} {
			for _, m := range settlement.Usual() {
				for _, outcome := range outcomes {
					c.Outcomes.WithLabelValues(string(outcome), n.Name, string(settlement), m.Protocol, m.Rail)
				}
				for _, door := range []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport, policy.DoorOperator} {
					if withdraws := m.Protocol == ""; withdraws == (door == policy.DoorOperator) {
						c.Begun.WithLabelValues(string(door), n.Name, string(settlement), m.Protocol, m.Rail)
					}
				}
				if m.Protocol == "" {
					continue // a withdrawal is no spending
				}
				c.Undelivered.WithLabelValues(n.Name, m.Protocol, m.Rail)
				for _, asset := range n.Assets {
					c.Amount.WithLabelValues(asset.Symbol, n.Name, string(settlement), m.Protocol, m.Rail)
				}
			}
		}
	}
}

// All returns all collectors.
func (c *Collectors) All() []prometheus.Collector {
	return []prometheus.Collector{
		c.Build, c.Begun, c.Outcomes, c.Contradicted, c.Undelivered, c.Amount, c.Refusals, c.Refused, c.Declined, c.Stages,
		c.Requests, c.Responses, c.Tunnels, c.SpoolMemory, c.SpoolDisk, c.SpoolFiles, c.Facilitator, c.RPC, c.Ignored,
		c.Overloaded, c.Dropped, c.Unsent, c.Notices, c.Waiting, c.Keys, c.Held, c.Answers,
	}
}

// doorResults are the labels of requests, so that each counter is there from the start.
var doorResults = []string{
	proxy.ResultPassed, proxy.ResultPaid, proxy.ResultSignedIn, proxy.ResultDeclined, proxy.ResultDryRun, proxy.ResultRefused, proxy.ResultFailed,
	proxy.ResultUnanswered, proxy.ResultTunnel,
}

// Inexact turns an amount into a number for a metric, and for nothing else.
func Inexact(a money.Amount) float64 {
	f, _ := a.Big().Float64()
	return f
}
