package ship

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox"
)

// What `xcaddy build --with github.com/purserpay/purser/caddymodule` makes is a Caddy that has one more command. It knows
// what it was built from, and buys with the configuration that is shipped for purser.
func TestXcaddy(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "caddy")
	run(t, buildTime, identity(), "deploy/xcaddy.sh", binary)

	help := run(t, runTime, nil, binary, "help")
	if !strings.Contains(help, "caddy [command]") || !strings.Contains(help, "\n  purser ") || strings.Contains(help, "\n  keys ") {
		t.Errorf("it is not a Caddy with the command purser:\n%s", help)
	}
	if modules := run(t, runTime, nil, binary, "list-modules"); !strings.Contains(modules, "http.handlers.purser_proxy") {
		t.Errorf("purser's modules are missing:\n%s", modules)
	}

	w := world(t)
	// Empty is unset, as for the binary that is released.
	p := process.NewPurser(t, binary, filepath.Join(t.TempDir(), "data"), "PURSER_KEY="+deployment, "PURSER_UPSTREAM="+w.SellerDirectURL(),
		"PURSER_FACILITATOR_URL="+w.FacilitatorURL(), "PURSER_RPC_URL="+w.RPCURL(), "PURSER_BIND=", "PURSER_STORE=", "PURSER_WALLETS=", "PURSER_STANDIN=")
	p.InCaddy = true
	p.Config = process.Shipped(t, process.ProxyBlock, sellers(w))
	p.Start(t)
	fund(t, w, p.URL(""), p.SidecarURL()).everywhere(t)

	status, err := p.Command(t, "status", "--admin", p.Admin())
	if err != nil {
		t.Fatalf("%v\n%s", err, status)
	}
	health, _ := get(t, http.DefaultClient, p.URL("/health"))
	metrics, _ := get(t, http.DefaultClient, p.MetricsURL())
	requireVersion(t, status, health, metrics)
	p.End(t)
}

// sellers begins the block of purser_proxy with the sellers' names, which no resolver knows, and their authority.
func sellers(w *sandbox.World) string {
	text := process.ProxyBlock + "trust " + w.CA() + "\n"
	for _, name := range []string{sandbox.SellerName, sandbox.SellerTLSName} {
		text += "resolve " + name + " " + sandbox.SellerIP + "\n"
	}
	return text
}
