package metrics

import (
	"time"

	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Observer counts what happens to payments, and tells events of it.
type Observer struct {
	Feed *feed.Feed // gets each new state
	// Tell hears each change of a payment; it may be nil.
	Tell func(p *pay.Payment, was pay.State, v pay.Verdict)
}

var _ pay.Observer = Observer{}

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

// Changed implements [pay.Observer].
func (o Observer) Changed(p *pay.Payment, was pay.State, v pay.Verdict) {
	network, settlement, means := p.Terms.Network, string(p.Terms.Settlement), p.Means()
	outcome := outcomeOf(was, v)
	if outcome != "" {
		o.Feed.Add(feed.Of(p, outcome))
		Process.Outcomes.WithLabelValues(outcome, network, settlement, means.Protocol, means.Rail).Inc()
	}
	if outcome == string(pay.VerdictSettled) && !p.Withdraws() {
		amount, _ := p.Moved().Big().Float64()
		Process.Amount.WithLabelValues(p.Currency, network, settlement, means.Protocol, means.Rail).Add(amount)
	}
	if o.Tell != nil {
		o.Tell(p, was, v)
	}
}

// Contradicted implements [pay.Observer].
func (o Observer) Contradicted(*pay.Payment) { Process.Contradicted.Inc() }

// Undelivered implements [pay.Observer].
func (o Observer) Undelivered(p *pay.Payment) {
	o.Feed.Add(feed.Of(p, "undelivered"))
	means := p.Means()
	Process.Undelivered.WithLabelValues(p.Terms.Network, means.Protocol, means.Rail).Inc()
}

// Began implements [pay.Observer].
func (o Observer) Began(p *pay.Payment) {
	o.Feed.Add(feed.Of(p, string(pay.Open)))
	means := p.Means()
	Process.Begun.WithLabelValues(string(p.Door), p.Terms.Network, string(p.Terms.Settlement), means.Protocol, means.Rail).Inc()
}

// rules are the labels of refusals; a rule that is not listed counts as "other", so that
// their number stays bounded.
var rules = map[string]bool{
	"quota": true, "failures": true, "questions": true, "amount": true, "challenge-too-large": true, "doors": true, "validity": true, "unanswered": true, "redirected": true, "hosts": true, "payees": true, "price-guard": true,
	"per-payment": true, "hourly-budget": true, "daily-budget": true, "weekly-budget": true, "monthly-budget": true, "per-minute": true, "paused": true, "host-paused": true,
	"host-per-payment": true, "host-hourly-budget": true, "host-daily-budget": true, "host-weekly-budget": true, "host-monthly-budget": true,
	"task-per-payment": true, "task-hourly-budget": true, "task-daily-budget": true, "task-weekly-budget": true, "task-monthly-budget": true, "task-total": true, "task-ended": true,
	"approval-needed": true, "approval-denied": true,
	"offer-unreadable": true, "offer-differs": true, "offer-signature": true, "offer-expired": true,
}

// Refused implements [pay.Observer].
func (o Observer) Refused(door policy.Door, rule string) {
	if !rules[rule] {
		rule = "other"
	}
	if door == policy.DoorAPI { // the other doors tell it of each 402
		Process.Recent.Note(rule, time.Now())
	}
	Process.Refusals.WithLabelValues(string(door), rule).Inc()
}

// Ignored implements [pay.Observer]. The pay core names the reasons and the sources, so their number
// is bounded.
func (o Observer) Ignored(rpc pay.TimeSource, network, reason string) {
	Process.Ignored.WithLabelValues(network, string(rpc), reason).Inc()
}

// Took implements [pay.Observer].
func (o Observer) Took(stage string, d time.Duration) {
	switch stage {
	case "decide", "journal", "sign", "verify", "settle", "send", "total":
	default:
		stage = "other"
	}
	Process.Stages.WithLabelValues(stage).Observe(d.Seconds())
}

// Waiting implements [pay.Observer].
func (o Observer) Waiting(change int) { Process.Held.Add(float64(change)) }

// Answered implements [pay.Observer].
func (o Observer) Answered(answer pay.ApprovalAnswer) {
	Process.Answers.WithLabelValues(string(answer)).Inc()
}

// DeclinedAt counts a 402 that a door did not pay, with a word of the proxy's own source, so that their
// number is bounded.
func (c *Collectors) DeclinedAt(reason string, now time.Time) {
	c.Declined.WithLabelValues(reason).Inc()
	c.Recent.Note(reason, now)
}
