package caddymodule

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/purserpay/purser/pay"
)

// heard is an event handler that remembers what it was told.
type heard struct{}

var hearing struct {
	sync.Mutex
	events []caddy.Event
}

func init() { caddy.RegisterModule(new(heard)) }

func (*heard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.purser_test", New: func() caddy.Module { return new(heard) }}
}

func (*heard) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseModule(d, new(struct{}), nil)
}

func (*heard) Handle(_ context.Context, e caddy.Event) error {
	hearing.Lock()
	defer hearing.Unlock()
	hearing.events = append(hearing.events, e)
	return nil
}

func heardEvents() []caddy.Event {
	hearing.Lock()
	defer hearing.Unlock()
	return append([]caddy.Event(nil), hearing.events...)
}

func TestEventsAreEmitted(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	s.global = "events {\n\t\ton purser.payment.settled purser_test\n\t}"
	mustLoad(t, s.caddyfile())
	mustLoad(t, s.caddyfile()) // the newest configuration's subscribers are told, once
	key := newKey(t, s.url())
	before := len(heardEvents())
	mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(10_000, "https://api.example.com/v2?token=secret"))
	eventually(t, "the event", func() bool { return len(heardEvents()) > before })
	if err := caddy.Stop(); err != nil { // sends what is queued
		t.Fatal(err)
	}
	events := heardEvents()[before:]
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	data, err := json.Marshal(events[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	if events[0].Name() != "purser.payment.settled" || events[0].Data["amount"] != "10000" || events[0].Data["host"] != "api.example.com" {
		t.Errorf("%s: %s", events[0].Name(), data)
	}
	if strings.Contains(string(data), key) || strings.Contains(string(data), "secret") {
		t.Errorf("a secret is in the event: %s", data)
	}
}

// A subscriber that does not come back must not hold up a payment, nor the end.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	e := newEvents(slog.New(slog.DiscardHandler))
	release := make(chan struct{})
	e.speak(func(string, map[string]any) { <-release })
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range eventQueue * 2 {
			e.send(event{name: "purser.payment.void"})
		}
	}()
	select {
	case <-sent:
	case <-time.After(10 * time.Second):
		t.Fatal("sending waits for the subscriber")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	e.close(ctx)
	close(release)
	<-e.done
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was  pay.State
		v    pay.Verdict
		want string
	}{
		{pay.Open, pay.VerdictSettled, "purser.payment.settled"},
		{pay.Void, pay.VerdictSettled, "purser.payment.settled"},
		{pay.Settled, pay.VerdictSettled, ""},
		{pay.Open, pay.VerdictVoid, "purser.payment.void"},
		{pay.Open, pay.VerdictRefused, ""},
		{pay.Open, pay.VerdictUnresolved, "purser.payment.unresolved"},
		{pay.Settled, pay.VerdictConfirmed, ""},
		{pay.Settled, pay.VerdictDisputed, "purser.payment.disputed"},
	} {
		ev, ok := eventOf(&pay.Payment{ID: "p"}, c.was, c.v)
		if ev.name != c.want || ok != (c.want != "") {
			t.Errorf("%s, %s: %q", c.was, c.v, ev.name)
		}
	}
}
