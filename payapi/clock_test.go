package payapi_test

import (
	"strings"
	"testing"
	"time"
)

// While purser's clock is far from the facilitator's, purser makes no new payment, and serves
// earlier ones.
func TestNoNewPaymentsByAWrongClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(s *setup) { s.dates = true })
			w.clock.advance(time.Since(w.clock.now())) // the facilitator has real time
			key := w.payingKey()
			first := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, "")
			w.call("GET", "/health", "", nil).is(200, "").want("clock.ok", true)

			w.clock.advance(wrong)
			refused := w.call("POST", "/v1/pay", key, order(5, "requestUrl", bought+"?new")).is(503, "Service unavailable")
			if detail := refused.text("detail"); !strings.HasPrefix(detail, "clock: ") || !strings.Contains(detail, name) {
				t.Errorf("detail %q", detail)
			}
			if refused.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if again := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(200, ""); again.raw != first.raw {
				t.Errorf("the repeat got %s", again.raw)
			}
			health := w.call("GET", "/health", "", nil).is(200, "").want("clock.ok", false).want("clock.stopped", true)
			if list := health.list("clock.sources"); len(list) != 1 || list[0]["source"] != "facilitator" || list[0]["ahead_seconds"].(float64)*float64(wrong) <= 0 {
				t.Errorf("sources %v", list)
			}

			w.clock.advance(-wrong)
			w.call("POST", "/v1/pay", key, order(5, "requestUrl", bought+"?new")).is(200, "")
			if n, twice := w.facilitator.moved(); n != 2 || twice {
				t.Errorf("%d authorizations settled, twice: %t", n, twice)
			}
			if n := strings.Count(w.logs.String(), "no new payments: our clock"); n != 1 {
				t.Errorf("%d log lines of the wrong clock", n)
			}
		})
	}
}

// After a payment, purser's clock jumps ahead. The payment has then expired by that clock, but a
// repeat must not sign a new one.
func TestTheClockJumpsAndTheRepeatSignsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.dates = true })
	w.clock.advance(time.Since(w.clock.now())) // the facilitator has real time
	key := w.payingKey()
	w.facilitator.onSettle(hangUp)
	open := w.call("POST", "/v1/pay", key, order(5)).is(402, settleFailed).want("payment.state", "open")
	w.released(open.text("payment.id"))
	w.facilitator.settle.Store(nil)
	w.clock.advance(time.Hour)
	w.call("POST", "/v1/pay", key, order(5)).is(503, "Service unavailable")
	w.clock.advance(-time.Hour)
	w.call("POST", "/v1/pay", key, order(5)).is(200, "").want("payment.id", open.text("payment.id"))
	if n, twice := w.facilitator.moved(); n != 1 || twice {
		t.Errorf("%d authorizations settled, twice: %t", n, twice)
	}
}
