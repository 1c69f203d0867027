package mpp

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/mppshop"
	"github.com/purserpay/purser/x402"
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
type seller struct {
	*process.Process
	payTo x402.Address
	URL   string `json:"url"`
	TLS   string `json:"tls"`
}

// seller returns a seller that runs as long as the tests do.
func (w *world) seller(t testing.TB, script string) *seller {
	t.Helper()
	w.mu.Lock()
	start := w.sellers[script]
	if start == nil {
		start = sync.OnceValues(func() (*seller, error) { return w.start(t, script) })
		w.sellers[script] = start
	}
	w.mu.Unlock()
	s, err := start()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return s
}

func (w *world) start(t testing.TB, script string) (*seller, error) {
	t.Helper()
	s := &seller{payTo: payeeOf(script)}
	cmd := exec.Command(programFor(t, script), here("sellers", script))
	cmd.Env = process.Environment(
		"FACILITATOR_URL="+w.money.FacilitatorURL(), "TEMPO_RPC_URL="+w.tempoChain(t).URL, "SPONSOR_KEY="+process.TempoSponsor,
		"PAY_TO="+s.payTo.String(), "TLS_CERT="+w.certificates.File, "TLS_KEY="+w.certificates.KeyFile)
	p, line, err := process.Announced(cmd, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.running = append(w.running, p)
	w.mu.Unlock()
	s.Process = p
	if err := json.Unmarshal([]byte(line), s); err != nil {
		return nil, fmt.Errorf("its first line is %q: %w", line, err)
	}
	return s, nil
}

// openShop opens the sandbox's seller.
func openShop(t testing.TB, o mppshop.Options) (shop *mppshop.Shop, url string) {
	t.Helper()
	o.Till = honest.Till{Facilitator: env.money.FacilitatorURL(), Client: env.money.Client()}
	o.PayTo = env.money.PayTo
	shop = mppshop.New(o)
	server := httptest.NewServer(shop)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		shop.Close()
	})
	return shop, server.URL
}

// payeeOf is the address that is paid by the buyers of a seller. It has no known private key.
func payeeOf(name string) x402.Address {
	return x402.EVMAddress([20]byte(crypto.Keccak256([]byte(name))[12:]))
}

// programFor is the interpreter of a script.
func programFor(t testing.TB, script string) string {
	t.Helper()
	if filepath.Ext(script) == ".mjs" {
		needed.File(t, "run `make e2e-deps`", here("node_modules", "mppx"))
		return node(t)
	}
	needed.File(t, "run `make e2e-deps`", here(".venv", ".done"))
	return here(".venv", "bin", "python3")
}

// node is one whose fetch heeds the proxy variables: the one among the packages of e2e/peers.
func node(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(process.Root(), "e2e", "peers", "node_modules", "node-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if exec.Command(path, "--version").Run() == nil { // else it is for another kind of machine
			return path
		}
	}
	needed.Missing(t, "no Node 24 in e2e/peers, run `make e2e-deps`")
	return ""
}

// named is an address with the sellers' name in place of the host.
func named(t testing.TB, raw string) string {
	t.Helper()
	return under(t, sellerName, raw)
}

// played is the address of a play of a shop, at a host of its own.
func played(t testing.TB, raw, play string) string {
	t.Helper()
	return under(t, play+"."+sellerName, raw) + "/" + play
}

func under(t testing.TB, name, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = name + ":" + u.Port()
	return u.String()
}
