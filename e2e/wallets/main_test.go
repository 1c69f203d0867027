package wallets

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m, 4)) }

// price is that of the seller's weather, in the smallest unit of USDC.
const price = 10_000

// world is a chain with a seller, and a purser that pays there.
type world struct {
	*testing.T
	*process.Purser
	money *sandbox.World
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	t.Parallel()
	money, err := sandbox.Start(context.Background(), sandbox.Options{})
	process.CloseAtEnd(t, money, err)
	w := &world{T: t, money: money}
	w.Purser = process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"), append(settings, "PURSER_RPC_URL="+money.RPCURL())...)
	w.Start(t)
	return w
}

// run runs a command of purser's that must succeed.
func (w *world) run(arguments ...string) string {
	w.Helper()
	out, err := w.Command(w.T, arguments...)
	if err != nil {
		w.Fatalf("purser %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}

// ran runs a command with --json.
func ran[T any](w *world, arguments ...string) (v T) {
	w.Helper()
	out := w.run(append(arguments, "--json", "--admin", w.Admin())...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return v
}

func (w *world) fund(address string, micros uint64) {
	w.Helper()
	a, err := x402.ParseAddress(address)
	if err == nil {
		err = w.money.Fund(w.Context(), a, money.New(micros))
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) balance(address string) string {
	w.Helper()
	a, err := x402.ParseAddress(address)
	if err != nil {
		w.Fatal(err)
	}
	have, err := w.money.Balance(w.Context(), a)
	if err != nil {
		w.Fatal(err)
	}
	return have.String()
}

// client is an agent's, with a key.
func (w *world) client(key string) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: w.Host(), User: url.UserPassword(key, "agent")}
	return process.Client(proxy, nil)
}

func (w *world) weather() string { return w.money.SellerDirectURL() + "/weather" }

// buys buys something with a key, which must succeed.
func (w *world) buys(key string) {
	w.Helper()
	a, err := process.Ask(w.Context(), w.client(key), http.MethodGet, w.weather(), "")
	if err != nil || a.Status != http.StatusOK {
		w.Fatalf("%v, %+v", err, a)
	}
}
