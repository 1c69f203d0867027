package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

	dir          string
	port         int
	settings     map[string]string // further variables of purser's environment
	providerPort int

	purser   *child
	provider *child
}

// newHouse starts one. more are names and values of its environment in turn.
func newHouse(t *testing.T, more ...string) *house {
	t.Helper()
	needNode(t)
	world, err := env.world()
	if err != nil {
		t.Fatalf("start a world: %v", err)
	}
	ports := freePorts(t, 2)
	h := &house{t: t, world: world, dir: t.TempDir(), port: ports[0], providerPort: ports[1], settings: map[string]string{}}
	for i := 0; i < len(more); i += 2 {
		h.settings[more[i]] = more[i+1]
	}
	h.writeConfig()
	h.startProvider()
	h.startPurser()
	return h
}

func (h *house) url(path string) string { return "http://127.0.0.1:" + strconv.Itoa(h.port) + path }
func (h *house) issuer() string         { return "http://127.0.0.1:" + strconv.Itoa(h.providerPort) }
func (h *house) admin() string          { return filepath.Join(h.dir, "admin.sock") }
func (h *house) data() string           { return filepath.Join(h.dir, "data") }
func (h *house) config() string         { return filepath.Join(h.dir, "Caddyfile") }

// writeConfig writes the shipped configuration with what the tests need beside it: the sellers' names.
func (h *house) writeConfig() {
	h.t.Helper()
	text, err := os.ReadFile("../../xcaddy.Caddyfile")
	if err != nil {
		h.t.Fatal(err)
	}
	const place = "purser_proxy {\n"
	before, after, found := strings.Cut(string(text), place)
	if !found {
		h.t.Fatalf("no %q in the configuration", place)
	}
	names := fmt.Sprintf("\t\t\tresolve %s %s\n\t\t\tresolve %s %s\n\t\t\ttrust %s\n",
		sandbox.SellerName, sandbox.SellerIP, sandbox.SellerTLSName, sandbox.SellerIP, h.world.CA())
	if err := os.WriteFile(h.config(), []byte(before+place+names+after), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) startPurser() {
	h.t.Helper()
	ports := freePorts(h.t, 2)
	settings := map[string]string{
		"PURSER_PORT": strconv.Itoa(h.port), "PURSER_UPSTREAM_PORT": strconv.Itoa(ports[0]), "PURSER_METRICS_PORT": strconv.Itoa(ports[1]),
		"PURSER_ADMIN": "unix/" + h.admin() + "|0600", "PURSER_DATA_DIR": h.data(),
		"PURSER_FACILITATOR_URL": h.world.FacilitatorURL(), "PURSER_RPC_URL": h.world.RPCURL(),
		"PURSER_OIDC_ISSUER": h.issuer(), "PURSER_OIDC_CLIENT_ID": clientID, "PURSER_OIDC_CLIENT_SECRET": clientSecret,
		"PURSER_UPGRADE_URL": upgradeURL,
	}
	for name, value := range h.settings {
		if settings[name] = value; value == "" {
			delete(settings, name)
		}
	}
	cmd := exec.Command(program(h.t, "purser", "PURSER_BIN"), "run", "--config", h.config())
	cmd.Env = environment(settings)
	h.purser = startChild(h.t, cmd, func(string) {})
	h.waitFor(h.purser, h.url("/"))
}

// startProvider starts the identity provider, always at the same address.
func (h *house) startProvider() {
	h.t.Helper()
	cmd := exec.Command("node", "provider.mjs")
	cmd.Env = environment(map[string]string{
		"PORT": strconv.Itoa(h.providerPort), "CLIENT_ID": clientID, "CLIENT_SECRET": clientSecret, "REDIRECT_URI": h.url("/dashboard/callback"),
	})
	h.provider = startChild(h.t, cmd, func(string) {})
	h.waitFor(h.provider, h.issuer()+"/.well-known/openid-configuration")
}

func (h *house) waitFor(c *child, address string) {
	h.t.Helper()
	eventually(h.t, time.Minute, func() string {
		select {
		case <-c.done:
			h.t.Fatalf("%s ended: %v\n%s", c.name, c.err, &c.log)
		default:
		}
		res, err := http.Get(address)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return res.Status
		}
		return ""
	})
}

// command runs one of purser's commands against the running process and returns what it prints.
func (h *house) command(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), program(h.t, "purser", "PURSER_BIN"), append(args, "--admin", "unix/"+h.admin())...)
	cmd.Env = environment(map[string]string{"PURSER_DATA_DIR": h.data()})
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("purser %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// setPlan moves an organization to another plan.
func (h *house) setPlan(organization, plan string) {
	h.command("organizations", "plan", organization, plan)
}

// fund gives an address dollars of the chain's token.
func (h *house) fund(address string, dollars uint64) error {
	to, err := x402.ParseAddress(address)
	if err != nil {
		return err
	}
	return h.world.Fund(h.t.Context(), to, x402.NewAmount(dollars*1_000_000))
}

// paid is a key that belongs to nobody yet, with a funded wallet.
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
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url(path), strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}
