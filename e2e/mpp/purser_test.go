package mpp

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/mppshop"
	"github.com/purserpay/purser/x402"
)

// all has each client meet each seller.
var all = flag.Bool("all", false, "each client at each seller")

// purserAt prepares a purser that knows the sellers' names and their authority.
func (w *world) purserAt(t testing.TB, program, data string, settings ...string) *process.Purser {
	t.Helper()
	var names []string
	for _, p := range mppshop.Plays() { // each at a host of its own, because purser judges hosts
		names = append(names, p.Name+"."+sellerName)
	}
	return w.Purser(t, program, data, names, append([]string{"PURSER_PER_MINUTE=off"}, settings...)...)
}

// sharedPurser is the purser of the tests at the proxy.
func (w *world) sharedPurser(t testing.TB) *process.Purser {
	t.Helper()
	return w.Shared(t, "shared", func(data string) *process.Purser { return w.purserAt(t, process.Plain, data) })
}

// purserOnTempo is the purser of the tests that pay on both chains.
func (w *world) purserOnTempo(t testing.TB) *process.Purser {
	t.Helper()
	settings := w.onTempo(t)
	return w.Shared(t, "tempo", func(data string) *process.Purser { return w.purserAt(t, process.Plain, data, settings...) })
}

// onTempo are the settings of a purser that pays on both chains.
func (w *world) onTempo(t testing.TB) []string {
	t.Helper()
	return []string{"PURSER_NETWORKS=base,tempo", "PURSER_RPC_URL_TEMPO=" + w.tempoChain(t).URL}
}

// agent is a key of a purser, with the wallets that have money. A zero one is none.
type agent struct {
	*process.Purser
	key           string
	wallet, tempo x402.Address
}

// newAgent makes a key whose wallet has money.
func newAgent(t testing.TB, p *process.Purser) *agent {
	t.Helper()
	key, wallet := process.NewKey(t, p)
	env.fund(t, wallet, false)
	return &agent{Purser: p, key: key, wallet: wallet}
}

// newAgentOnTempo makes a key that has money on Tempo only. Its wallet on Base is empty.
func newAgentOnTempo(t testing.TB, p *process.Purser) *agent {
	t.Helper()
	key, _ := process.NewKey(t, p)
	a := &agent{Purser: p, key: key}
	a.joinTempo(t)
	return a
}

// joinTempo makes a wallet on Tempo for the agent, with money.
func (a *agent) joinTempo(t testing.TB) {
	t.Helper()
	made, err := process.Ask(t.Context(), direct, "POST", a.URL("/wallets"), `{"network":"tempo"}`, "X-Api-Key", a.key)
	var wallet struct{ Address x402.Address }
	if err == nil {
		err = made.Decode(http.StatusCreated, &wallet)
	}
	if err == nil {
		a.tempo = wallet.Address
		err = env.tempoChain(t).Fund(t.Context(), common.Address(a.tempo.EVM()), funds)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// debits counts what the agent's wallets have paid.
func (a *agent) debits(t testing.TB) int {
	t.Helper()
	n := 0
	for _, wallet := range []x402.Address{a.wallet, a.tempo} {
		if !wallet.IsZero() {
			n += env.debits(t, wallet)
		}
	}
	return n
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
	cmd := env.Behind(a.Purser, a.key, command, setting)
	return finish(t, cmd, purchases)
}

// direct talks to servers without any proxy.
var direct = process.Client(nil, nil)

// booked is a payment in the books.
type booked struct {
	ID, State, Reason, Network, Transaction string
	Amount, Charged                         string
	Flags                                   []string
}

// settled reports whether the payment has moved money.
func (p booked) settled() bool { return p.State == "settled" && !slices.Contains(p.Flags, "disputed") }

// books lists the payments of an agent, up to 500.
func (a *agent) books(t testing.TB) (list []booked, text string) {
	t.Helper()
	var page struct{ Payments []booked }
	text = a.read(t, "/v1/payments?limit=500", &page)
	return page.Payments, text
}

// read asks purser's API for a list.
func (a *agent) read(t testing.TB, path string, into any) (text string) {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", a.URL(path), "", "X-Api-Key", a.key)
	if err == nil {
		err = got.Decode(http.StatusOK, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got.Body
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
			case one.settled():
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

// requireUndelivered fails unless all of an agent's payments are undelivered, once purser knows that the last clients have
// their answers.
func (a *agent) requireUndelivered(t testing.TB) {
	t.Helper()
	process.Eventually(t, 20*time.Second, func() string {
		list, text := a.books(t)
		if slices.ContainsFunc(list, func(p booked) bool { return !slices.Contains(p.Flags, "undelivered") }) {
			return text
		}
		return ""
	})
}
