package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

const (
	clientID     = "purser-dashboard"
	clientSecret = "a secret between purser and its identity provider"
	upgradeURL   = "https://plans.example.com/"
)

// house is a purser process with the configuration that people start from, an identity provider beside it, and the
// chain, facilitator and seller that all tests share.
type house struct {
	t     *testing.T
	world *sandbox.World

	purser       *process.Purser
	provider     *process.Process
	providerPort string
}

// newHouse starts one. more are further variables of its environment, of which empty ones are unset.
func newHouse(t *testing.T, more ...string) *house {
	t.Helper()
	needNode(t)
	world, err := startWorld()
	if err != nil {
		t.Fatalf("start a world: %v", err)
	}
	h := &house{t: t, world: world, providerPort: process.Port(t)}
	settings := []string{
		"PURSER_FACILITATOR_URL=" + world.FacilitatorURL(), "PURSER_RPC_URL=" + world.RPCURL(),
		"PURSER_OIDC_ISSUER=" + h.issuer(), "PURSER_OIDC_CLIENT_ID=" + clientID, "PURSER_OIDC_CLIENT_SECRET=" + clientSecret,
		"PURSER_UPGRADE_URL=" + upgradeURL,
	}
	h.purser = process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"), append(settings, more...)...)
	h.purser.Config = process.Shipped(t, process.ProxyBlock, fmt.Sprintf("%s\t\t\tresolve %s %s\n\t\t\tresolve %s %s\n\t\t\ttrust %s\n",
		process.ProxyBlock, sandbox.SellerName, sandbox.SellerIP, sandbox.SellerTLSName, sandbox.SellerIP, world.CA()))
	h.startProvider()
	h.startPurser()
	return h
}

func (h *house) url(path string) string { return h.purser.URL(path) }
func (h *house) issuer() string         { return "http://127.0.0.1:" + h.providerPort }

// startPurser starts purser, which the test ends. That must go well.
func (h *house) startPurser() {
	h.t.Helper()
	if err := h.purser.Open(); err != nil {
		h.t.Fatal(err)
	}
	h.purser.Cleanup(h.t)
}

// startProvider starts the identity provider, always at the same address.
func (h *house) startProvider() {
	h.t.Helper()
	cmd := exec.Command("node", "provider.mjs")
	cmd.Env = process.Environment("PORT="+h.providerPort, "CLIENT_ID="+clientID, "CLIENT_SECRET="+clientSecret, "REDIRECT_URI="+h.url("/dashboard/callback"))
	h.provider = process.Start(h.t, cmd, nil)
	if err := h.provider.Await(h.issuer() + "/.well-known/openid-configuration"); err != nil {
		h.t.Fatal(err)
	}
}

// setPlan moves an organization to another plan.
func (h *house) setPlan(organization, plan string) {
	h.purser.Must(h.t, "organizations", "plan", organization, plan)
}

// fund gives an address dollars of the chain's token.
func (h *house) fund(address string, dollars uint64) error {
	to, err := x402.ParseAddress(address)
	if err != nil {
		return err
	}
	return h.world.Fund(h.t.Context(), to, money.New(dollars*1_000_000))
}

// paid is an unclaimed key with a funded wallet.
type paid struct {
	Key    string `json:"key"`
	Wallet string `json:"wallet"`
}

// newKey makes a key, a wallet and money through the REST API.
func (h *house) newKey(label string) (p paid, err error) {
	if err := h.rest("POST", "/api-keys", "", map[string]string{"label": label}, &p); err != nil {
		return p, err
	}
	var wallet struct{ Address string }
	if err := h.rest("POST", "/wallets", p.Key, map[string]string{"network": "base"}, &wallet); err != nil {
		return p, err
	}
	p.Wallet = wallet.Address
	return p, h.fund(p.Wallet, 5)
}

// rest calls the REST API. Anything but a 2xx is an error.
func (h *house) rest(method, path, key string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	got, err := process.Ask(h.t.Context(), http.DefaultClient, method, h.url(path), string(text), "X-Api-Key", key)
	if err == nil && got.Status/100 == 2 {
		return json.Unmarshal([]byte(got.Body), into)
	}
	return fmt.Errorf("%s %s: %d %w", method, path, got.Status, err)
}
