package wallets

import (
	"net/http"
	"os"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m, 4)) }

// price is that of the seller's weather, in the smallest unit of USDC.
const price = 10_000

// world is a chain with a seller, and a purser that pays there.
type world struct {
	*sandboxed.World
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	t.Parallel()
	return &world{sandboxed.New(t, process.Plain, settings...)}
}

func (w *world) weather() string { return w.Money.SellerDirectURL() + "/weather" }

// buys buys something with a key, which must succeed.
func (w *world) buys(key string) {
	w.Helper()
	a, err := process.Ask(w.Context(), w.Client(key), http.MethodGet, w.weather(), "")
	if err != nil || a.Status != http.StatusOK {
		w.Fatalf("%v, %+v", err, a)
	}
}
