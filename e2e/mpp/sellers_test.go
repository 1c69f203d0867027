package mpp

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/mppshop"
)

const (
	// sellerName is the name by which purser knows the sellers, and their realm.
	sellerName = "mpp.seller.test"
	// price of a good: one cent, in the smallest unit. splitPart of it goes to the second payee of the rail split.
	price, splitPart = 10_000, 2_000
)

// The official sellers.
const (
	mppx  = "mppx.mjs"
	pympp = "pympp_seller.py"
)

// seller is an official one that runs. It has all rails.
type seller struct{ *official.Seller }

// seller returns a seller that runs as long as the tests do.
func (w *world) seller(t testing.TB, script string) *seller {
	t.Helper()
	command := []string{programFor(t, script), here("sellers", script)}
	return &seller{w.Seller(t, script, command, "TEMPO_RPC_URL="+w.tempoChain(t).URL, "SPONSOR_KEY="+process.TempoSponsor)}
}

// openShop opens the sandbox's seller.
func openShop(t testing.TB, o mppshop.Options) (shop *mppshop.Shop, url string) {
	t.Helper()
	o.Till = honest.Till{Facilitator: env.Money.FacilitatorURL(), Client: env.Money.Client()}
	o.PayTo = env.Money.PayTo
	shop = mppshop.New(o)
	server := httptest.NewServer(shop)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		shop.Close()
	})
	return shop, server.URL
}

// programFor is the interpreter of a script.
func programFor(t testing.TB, script string) string {
	t.Helper()
	if filepath.Ext(script) == ".mjs" {
		needed.File(t, "run `make e2e-deps`", here("node_modules", "mppx"))
		return official.Node(t)
	}
	needed.File(t, "run `make e2e-deps`", here(".venv", ".done"))
	return here(".venv", "bin", "python3")
}

// named is an address with the sellers' name in place of the host.
func named(t testing.TB, raw string) string {
	t.Helper()
	return official.Under(t, sellerName, raw)
}

// played is the address of a play of a shop, at a host of its own.
func played(t testing.TB, raw, play string) string {
	t.Helper()
	return under(t, play, raw) + "/" + play
}

// under is an address with the host of a play.
func under(t testing.TB, play, raw string) string {
	t.Helper()
	return official.Under(t, play+"."+sellerName, raw)
}
