package mpp

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mppshop"
	"github.com/purserpay/purser/x402"
)

// all has each client meet each seller.
var all = flag.Bool("all", false, "each client at each seller")

// purserAt prepares a purser that knows the sellers' name and their authority.
func (w *world) purserAt(t testing.TB, data string, settings ...string) *process.Purser {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(process.Root(), "xcaddy.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	config := data + ".Caddyfile"
	known := process.ProxyBlock + "trust " + w.certificates.File + "\nresolve " + sellerName + " 127.0.0.1\n"
	for _, p := range mppshop.Plays() { // each at a host of its own, because purser judges hosts
		known += "resolve " + p.Name + "." + sellerName + " 127.0.0.1\n"
	}
	if err := os.WriteFile(config, []byte(process.Replaced(t, string(text), process.ProxyBlock, known)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.NewPurser(t, process.Program(t, process.Plain), data, append([]string{
		"PURSER_RPC_URL=" + w.money.RPCURL(), "PURSER_FACILITATOR_URL=" + w.money.FacilitatorURL(), "SSL_CERT_FILE=" + w.certificates.File,
		"PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off", "PURSER_PER_MINUTE=off",
	}, settings...)...)
	p.Config = config
	return p
}

// sharedPurser is the purser of the tests at the proxy.
func (w *world) sharedPurser(t testing.TB) *process.Purser {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.purser == nil {
		p := w.purserAt(t, filepath.Join(w.dir, "shared"))
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		w.purser = p
	}
	return w.purser
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
	env.fund(t, wallet, false)
	return &agent{p, key, wallet}
}

// proxied is a client that sends everything through purser. It follows no redirects.
func (a *agent) proxied() *http.Client {
	c := process.Client(&url.URL{Scheme: "http", Host: a.Host(), User: url.UserPassword(a.key, "agent")}, nil)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// buy has a client make purchases behind `purser exec`, as it comes.
func (a *agent) buy(t testing.TB, c client, purchases []purchase) []result {
	t.Helper()
	command := []string{programFor(t, c.script), here("clients", c.script)}
	if c == curl {
		command = []string{"sh", here("clients", "curl.sh")}
		lines := []string{}
		for _, p := range purchases {
			lines = append(lines, p.url)
		}
		return a.exec(t, command, "URLS="+strings.Join(lines, " "), len(purchases))
	}
	return a.exec(t, command, inEnvironment(t, purchases), len(purchases))
}

func (a *agent) exec(t testing.TB, command []string, setting string, purchases int) []result {
	t.Helper()
	cmd := exec.Command(a.Binary, append([]string{"exec", "--admin", a.Admin(), "--key", a.key, "--proxy", "http://" + a.Host(), "--"}, command...)...)
	cmd.Env = a.Environment(setting, "XDG_CACHE_HOME="+filepath.Join(env.dir, "cache"))
	return finish(t, cmd, purchases)
}

// direct talks to servers without any proxy.
var direct = process.Client(nil, nil)

// booked is a payment in the books.
type booked struct {
	State, Reason string
	Flags         []string
}

// books lists the payments of an agent.
func (a *agent) books(t testing.TB) (list []booked, text string) {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", a.URL("/v1/payments?limit=100"), "", "X-Api-Key", a.key)
	var page struct{ Payments []booked }
	if err == nil {
		err = got.Decode(http.StatusOK, &page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return page.Payments, got.Body
}

// requireBooks fails unless the books have so many payments that were settled and are not disputed. Recovery may have to
// look. With -all, it waits until none is open: an authorization lasts a minute.
func (a *agent) requireBooks(t testing.TB, settled int) {
	t.Helper()
	process.Eventually(t, 3*time.Minute, func() string {
		list, text := a.books(t)
		n, open := 0, 0
		for _, one := range list {
			switch {
			case one.State == "settled" && !slices.Contains(one.Flags, "disputed"):
				n++
			case one.State == "open" && *all:
				open++
			}
		}
		if n != settled || open > 0 {
			return fmt.Sprintf("%d settled, want %d, %d open: %s", n, settled, open, text)
		}
		return ""
	})
}
