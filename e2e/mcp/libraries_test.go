package mcp

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/sandbox/mcpshop"
)

// payingClients are the clients that a library of ours can pay for: their transports take an HTTP client.
func payingClients() (some []client) {
	for _, c := range clients {
		if c.script != "gosdk" {
			some = append(some, c)
		}
	}
	return some
}

// runPaying has a client make calls for which purserpay pays in the client's own process, through the REST API.
func (a *agent) runPaying(t testing.TB, c client, server string, calls []call) []result {
	t.Helper()
	library := filepath.Join(process.Root(), "bin", "purserpay.mjs")
	if filepath.Ext(c.script) == ".mjs" {
		needed.File(t, "run `make e2e-deps`", library)
	}
	command := c.command(t)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = process.Environment(append(c.variables(t, server, calls), "PURSER_KEY="+a.key, "PURSER_URL="+a.URL(""), "PURSERPAY=file://"+library,
		"PYTHONPATH="+pythonLibrary(t), "PYTHONDONTWRITEBYTECODE=1")...)
	return finish(t, cmd, len(calls))
}

// pythonLibrary returns where Python finds our library and its version, which is not installed beside the clients.
func pythonLibrary(t testing.TB) string {
	t.Helper()
	about := t.TempDir()
	if err := os.Mkdir(filepath.Join(about, "purserpay-0.dist-info"), 0o700); err != nil {
		t.Fatal(err)
	}
	metadata := filepath.Join(about, "purserpay-0.dist-info", "METADATA")
	if err := os.WriteFile(metadata, []byte("Metadata-Version: 2.1\nName: purserpay\nVersion: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{filepath.Join(process.Root(), "clients", "python", "src"), about}, string(os.PathListSeparator))
}

// site is the URL under which a call at a server is booked.
func site(server string) string {
	return "mcp://" + strings.TrimPrefix(server, "http://") + "/tool/" + mcpshop.Tool
}

// requireBooked fails unless all payments of the agent are booked under one URL.
func (a *agent) requireBooked(t testing.TB, want string) {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", a.URL("/v1/payments"), "", "X-Api-Key", a.key)
	var list struct {
		Payments []struct {
			URL string `json:"request_url"`
		}
	}
	if err == nil {
		err = got.Decode(http.StatusOK, &list)
	}
	if err != nil || len(list.Payments) == 0 {
		t.Fatalf("%v, %d payments", err, len(list.Payments))
	}
	for _, p := range list.Payments {
		if p.URL != want {
			t.Errorf("booked under %s, want %s", p.URL, want)
		}
	}
}

// The libraries pay for calls whose server answers with status 402: each call once, booked under its tool.
func TestLibrariesPayForCalls(t *testing.T) {
	t.Parallel()
	for _, c := range payingClients() {
		for name, o := range map[string]mcpshop.Options{
			"json": {}, "stream": {Stream: true, Progress: true}, "session": {Sessions: true, Events: true, Stream: true},
		} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				t.Parallel()
				o.Dialect, o.Modern = mcpshop.HTTP, c.modern && !o.Sessions
				shop, url := openShop(t, o)
				a, city := newAgent(t, env.sharedPurser(t)), newCity()
				for _, r := range a.runPaying(t, c, endpoint(url), weather(city, 2)) {
					if !r.delivered(city) {
						t.Errorf("%+v", r)
					}
				}
				if n := env.debits(t, a.wallet, env.Money.PayTo); n != 2 || shop.Runs(city) != 2 {
					t.Errorf("%d debits, %d runs", n, shop.Runs(city))
				}
				a.requireBooked(t, site(url))
				a.requireBooks(t, env.Money.PayTo, 2)
			})
		}
	}
}

// An answer that is lost does not cost twice: the agent calls again, its client counts on, and the library sends the
// same payment.
func TestLibrariesKnowACallAgain(t *testing.T) {
	t.Parallel()
	for _, c := range payingClients() {
		if c.script == "mcp1.py" {
			continue // it ends with its session at the first failed request
		}
		faults := []string{"Service Unavailable", "settles, resets", "settles, Service Unavailable", "settles, asks again"}
		if strings.HasSuffix(c.script, ".py") {
			faults = append(faults, "settles, cuts") // npm's clients wait a minute for the answer
		}
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%s %s", c.name, fault), func(t *testing.T) {
				t.Parallel()
				stream := fault == "settles, cuts" // which has begun by then
				shop, url := openShop(t, mcpshop.Options{Dialect: mcpshop.HTTP, Modern: c.modern, Stream: stream})
				a, city := newAgent(t, env.sharedPurser(t)), newCity()
				f := mcpshop.FaultNamed(fault)
				shop.Meet(f)
				got := a.runPaying(t, c, endpoint(url), weather(city, 2))
				if met := shop.Met(); len(met) != 1 {
					t.Fatalf("met %q: %+v", met, got)
				}
				if got[0].delivered(city) || got[1].delivered(city) == f.Moves { // this shop forgets what it has sold
					t.Errorf("%+v", got)
				}
				if n := env.debits(t, a.wallet, env.Money.PayTo); n != 1 {
					t.Errorf("%d debits: %+v", n, got)
				}
				a.requireBooked(t, site(url))
				a.requireBooks(t, env.Money.PayTo, 1)
			})
		}
	}
}
