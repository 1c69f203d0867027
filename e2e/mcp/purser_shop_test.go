package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mcpshop"
)

// proxied is a client that sends everything through purser.
func (a *agent) proxied() *http.Client {
	return process.Client(&url.URL{Scheme: "http", Host: a.Host(), User: url.UserPassword(a.key, "agent")}, nil)
}

// Purser understands each dialect, in JSON and in streams, in sessions and without.
func TestPurserSpeaksEveryDialect(t *testing.T) {
	t.Parallel()
	for _, d := range mcpshop.Dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, env.sharedPurser(t))
			bought := 0
			for name, o := range map[string]mcpshop.Options{
				"json":         {},
				"json session": {Sessions: true, Gzip: true},
				"stream":       {Stream: true, Progress: true, Gzip: true},
				"events":       {Stream: true, Sessions: true, Events: true},
				"modern":       {Modern: true, Stream: true},
			} {
				o.Dialect = d
				shop, url := openShop(t, o)
				c, city := &rawClient{by: a.proxied(), url: endpoint(named(t, url)), modern: true}, newCity()
				if !o.Modern {
					c = connect(t, a.proxied(), named(t, url))
				}
				for range 2 {
					if got := c.ask(t, "tools/call", forCity(city)); got.Status != http.StatusOK || !strings.Contains(got.Body, "sunny in "+city) {
						t.Fatalf("%s: %+v", name, got)
					}
					bought++
				}
				if n := env.debits(t, a.wallet, env.Money.PayTo); n != bought || shop.Runs(city) != 2 {
					t.Fatalf("%s: %d debits, %d runs", name, n, shop.Runs(city))
				}
			}
			a.requireBooks(t, env.Money.PayTo, bought)
		})
	}
}

// Whatever the seller does, a call that the agent makes twice is paid once, and an answer after a payment has nothing
// that could be paid once more.
func TestPurserMeetsFaults(t *testing.T) {
	t.Parallel()
	for _, f := range mcpshop.Faults() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", f.Name, stream), func(t *testing.T) {
				t.Parallel()
				shop, url := openShop(t, mcpshop.Options{Stream: stream, Sessions: true, Events: stream})
				a, city := newAgent(t, env.sharedPurser(t)), newCity()
				c := connect(t, a.proxied(), named(t, url))
				c.by.Timeout = 5 * time.Second
				shop.Meet(f)
				if f.On == mcpshop.Notified {
					c.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					if n := env.debits(t, a.wallet, env.Money.PayTo); n != 0 {
						t.Errorf("%d debits", n)
					}
					return
				}
				first := c.ask(t, "tools/call", forCity(city))
				paid := env.debits(t, a.wallet, env.Money.PayTo)
				switch met := shop.Met(); {
				case len(met) != 1 || met[0] != f.Name:
					t.Fatalf("met %q: %+v", met, first)
				case paid > 1, f.Moves && paid != 1, paid < shop.Runs(city):
					t.Errorf("%d debits, %d runs: %+v", paid, shop.Runs(city), first)
				case f.On == mcpshop.Paid && strings.Contains(first.Body, "accepts"):
					t.Errorf("it can be paid again: %+v", first)
				case f.Delivers && !strings.Contains(first.Body, "sunny in "+city):
					t.Errorf("%+v", first)
				}
				if f.Delivers || strings.Contains(first.Body, "sunny in "+city) {
					return // another call is another purchase
				}
				second := c.ask(t, "tools/call", forCity(city))
				if n := env.debits(t, a.wallet, env.Money.PayTo); n > 1 {
					t.Errorf("%d debits: %+v, then %+v", n, first, second)
				}
			})
		}
	}
}
