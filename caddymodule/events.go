package caddymodule

import (
	"context"
	"log/slog"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/pay"
)

// eventQueue bounds the events that wait. More come only while a subscriber is slow, and
// those are dropped: no payment waits for one.
const eventQueue = 256

// emitter hands an event to the subscribers of one configuration and waits for them.
type emitter func(name string, data map[string]any)

// caddyEmitter emits as the app whose context this is.
func caddyEmitter(ctx caddy.Context, app *caddyevents.App) emitter {
	return func(name string, data map[string]any) { app.Emit(ctx, name, data) }
}

type event struct {
	name string
	data map[string]any
}

// events sends Caddy events one after the other, away from the payments they tell of.
type events struct {
	queue chan event
	stop  chan struct{}
	done  chan struct{}
	log   *slog.Logger

	mu   sync.Mutex
	emit emitter // of the newest configuration; nil before the first has started
}

func newEvents(log *slog.Logger) *events {
	e := &events{
		queue: make(chan event, eventQueue), stop: make(chan struct{}), done: make(chan struct{}), log: log,
	}
	go e.run() // waited for through done
	return e
}

func (e *events) run() {
	defer close(e.done)
	for {
		select {
		case ev := <-e.queue:
			e.pass(ev)
		case <-e.stop:
			for {
				select {
				case ev := <-e.queue:
					e.pass(ev)
				default:
					return
				}
			}
		}
	}
}

func (e *events) pass(ev event) {
	e.mu.Lock()
	emit := e.emit
	e.mu.Unlock()
	if emit != nil {
		emit(ev.name, ev.data)
	}
}

// speak sets whose subscribers hear the events.
func (e *events) speak(emit emitter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emit = emit
}

// send queues an event; it never waits.
func (e *events) send(ev event) {
	select {
	case e.queue <- ev:
	default:
		metrics.Process.Unsent.Inc()
		e.log.Warn("event dropped because its subscribers are slow", "event", ev.name, "payment", ev.data["payment"])
	}
}

// observer counts what happens to payments, and tells subscribers.
func (p *pooled) observer() metrics.Observer {
	return metrics.Observer{Feed: p.feed, Tell: func(row *pay.Payment, was pay.State, v pay.Verdict) {
		if ev, ok := eventOf(row, was, v); ok {
			p.events.send(ev)
		}
	}}
}

// close sends what is queued and ends, or gives up when ctx ends.
func (e *events) close(ctx context.Context) {
	close(e.stop)
	select {
	case <-e.done:
	case <-ctx.Done():
		e.log.Warn("events not sent because their subscribers are slow", "events", len(e.queue))
	}
}

// eventOf is the event that a change of a payment makes, if any. It holds no secret, and
// no URL, because a query may hold a seller's key.
func eventOf(p *pay.Payment, was pay.State, v pay.Verdict) (event, bool) {
	var name string
	switch {
	case v == pay.VerdictSettled && was != pay.Settled:
		name = "purser.payment.settled"
	case v == pay.VerdictVoid && was == pay.Open:
		name = "purser.payment.void"
	case v == pay.VerdictUnresolved:
		name = "purser.payment.unresolved"
	case v == pay.VerdictDisputed:
		name = "purser.payment.disputed"
	default:
		return event{}, false
	}
	return event{name: name, data: map[string]any{
		"payment": p.ID, "key": p.KeyID, "organization": p.OrganizationID, "door": string(p.Door), "task": p.Task,
		"host": p.Host, "settlement": string(p.Terms.Settlement), "network": p.Terms.Network, "protocol": p.Means().Protocol, "rail": p.Means().Rail,
		"amount": p.Moved().String(), "currency": p.Currency, "pay_to": p.Terms.PayTo.String(),
		"transaction": p.Transaction, "reason": logs.Discreet(p.Reason),
	}}, true
}
