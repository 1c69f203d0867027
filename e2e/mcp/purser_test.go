package mcp

import (
	"flag"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

// all has each client meet each seller.
var all = flag.Bool("all", false, "each client at each seller")

// sharedPurser is the purser of the tests at the proxy.
func (w *world) sharedPurser(t testing.TB) *process.Purser {
	t.Helper()
	return w.Shared(t, "shared", func(data string) *process.Purser { return w.Purser(t, process.Plain, data, nil) })
}

// agent is a key of a purser with a funded wallet.
type agent struct {
	*process.Purser
	key    string
	wallet x402.Address
}

// newAgent makes a key whose wallet has money.
func newAgent(t testing.TB, p *process.Purser) *agent {
	t.Helper()
	key, wallet := process.NewKey(t, p)
	env.fund(t, wallet)
	return &agent{p, key, wallet}
}

// run has a client make calls behind `purser exec`.
func (a *agent) run(t testing.TB, c client, server string, calls []call) []result {
	t.Helper()
	cmd := env.Behind(a.Purser, a.key, c.command(t), c.variables(t, server, calls)...)
	return finish(t, cmd, len(calls))
}

// requireBooks fails unless the books have so many payments to a payee, all settled. Recovery may have to look.
func (a *agent) requireBooks(t testing.TB, payee x402.Address, n int) {
	t.Helper()
	process.Eventually(t, 90*time.Second, func() string {
		got, err := process.Ask(t.Context(), direct, "GET", a.URL("/v1/payments?limit=100"), "", "X-Api-Key", a.key)
		var list struct {
			Payments []struct {
				State string
				PayTo string `json:"payTo"`
			}
		}
		if err == nil {
			err = got.Decode(http.StatusOK, &list)
		}
		if err != nil {
			return err.Error()
		}
		settled := 0
		for _, one := range list.Payments {
			if strings.EqualFold(one.PayTo, payee.String()) && one.State == "settled" {
				settled++
			}
		}
		if settled != n {
			return "the books: " + got.Body
		}
		return ""
	})
}

// Every client gets from every seller what it asks for behind `purser exec`, over HTTP: calls, results, runs and debits
// are the same. It asks for the same twice, which is two purchases.
func TestPurserPays(t *testing.T) {
	t.Parallel()
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, env.sharedPurser(t))
			for j, k := range kinds {
				if !*all && i != j%len(clients) {
					continue
				}
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					a.buys(t, c, k, "http")
				})
			}
		})
	}
}

// buys has a client buy twice from a seller, behind `purser exec`, and use the tool that is free.
func (a *agent) buys(t *testing.T, c client, k kind, scheme string) {
	t.Helper()
	s, city := env.seller(t, k), newCity()
	base := s.URL
	if scheme == "https" {
		base = s.TLS
	}
	calls := append(weather(city, 2), call{"hello", map[string]string{"name": "Kiel"}})
	got := a.run(t, c, endpoint(named(t, base)), calls)
	if s.count(t, got[:2], city, a.wallet).require(t, 2); t.Failed() || got[2].Text != "hello Kiel" || got[2].IsError {
		t.Fatalf("%+v", got)
	}
	a.requireBooks(t, s.PayTo, 2)
}

// The same where purser opens HTTPS.
func TestPurserPaysInsideTLS(t *testing.T) {
	t.Parallel()
	a := newAgent(t, env.sharedPurser(t))
	for i, k := range kinds {
		c := clients[(i+3)%len(clients)]
		t.Run(c.name+" "+k.name, func(t *testing.T) {
			t.Parallel()
			a.buys(t, c, k, "https")
		})
	}
}

// A paid stream that the seller closes before the answer is taken up again by the client itself. That is one purchase.
func TestPurserPaysForStreamsThatAreResumed(t *testing.T) {
	t.Parallel()
	for i, k := range resumable {
		for j, c := range clients {
			if !*all && j%len(resumable) != i {
				continue
			}
			t.Run(c.name+" "+k.name, func(t *testing.T) {
				t.Parallel()
				newAgent(t, env.sharedPurser(t)).buys(t, c, k, "http")
			})
		}
	}
}

// The sidecar door does the same for clients that know nothing but an address.
func TestPurserPaysAtTheSidecar(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"x402-sse-session", "cloudflare-json-session", "cloudflare2-sse", "vercel-sse"} {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
		for _, scheme := range []string{"http", "https"}[i%2:][:1] {
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				s := env.seller(t, k)
				base := s.URL
				if scheme == "https" {
					base = s.TLS
				}
				a := sidecar(t, base)
				bought := 0
				for j, c := range clients {
					if *all && (i+j)%2 == 0 || !*all && j != i {
						continue // it comes to the next seller
					}
					bought += 2
					city := newCity()
					before := env.debits(t, a.wallet, s.PayTo)
					got := c.run(t, endpoint(a.SidecarURL()), weather(city, 2))
					n := s.count(t, got, city, a.wallet)
					n.Debits -= before
					if n.require(t, 2); t.Failed() {
						t.Fatalf("%s: %+v", c.name, got)
					}
				}
				a.requireBooks(t, s.PayTo, bought)
			})
		}
	}
}

// sidecar starts a purser whose sidecar door leads to a server.
func sidecar(t testing.TB, upstream string) *agent {
	t.Helper()
	key := "pk_" + strings.Repeat("side", 8)
	p := env.Purser(t, process.Plain, filepath.Join(t.TempDir(), "data"), nil, "PURSER_KEY="+key, "PURSER_UPSTREAM="+upstream, "PURSER_DAILY_BUDGET=1")
	p.Start(t)
	owner, err := hostile.Deployment(t.Context(), p.URL(""), key)
	if err != nil {
		t.Fatal(err)
	}
	env.fund(t, owner.Wallet)
	return &agent{p, key, owner.Wallet}
}
