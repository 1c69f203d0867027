package ship

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/sandbox"
)

// What `xcaddy build --with github.com/purserpay/purser/caddymodule` makes is purser: it has its name, knows what it was
// built from, and buys with the configuration that is shipped beside it.
func TestXcaddy(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "purser")
	run(t, buildTime, identity(), "deploy/xcaddy.sh", binary)

	help := run(t, runTime, nil, binary, "help")
	if !strings.Contains(help, "purser [command]") {
		t.Errorf("it does not call itself purser:\n%s", help)
	}
	if modules := run(t, runTime, nil, binary, "list-modules"); !strings.Contains(modules, "http.handlers.purser_proxy") {
		t.Errorf("purser's modules are missing:\n%s", modules)
	}

	w := world(t)
	dir := t.TempDir()
	ports := freePorts(t, 3)
	admin := "unix/" + filepath.Join(dir, "admin.sock")
	settings := append(
		environment(), "PURSER_PORT="+ports[0], "PURSER_UPSTREAM_PORT="+ports[1], "PURSER_METRICS_PORT="+ports[2],
		"PURSER_DATA_DIR="+filepath.Join(dir, "data"), "PURSER_ADMIN="+admin+"|0600", "PURSER_KEY="+deployment,
		"PURSER_UPSTREAM="+w.SellerDirectURL(), "PURSER_FACILITATOR_URL="+w.FacilitatorURL(), "PURSER_RPC_URL="+w.RPCURL(),
		// Empty is unset, as for the binary that is released.
		"PURSER_BIND=", "PURSER_STORE=", "PURSER_WALLETS=", "PURSER_STANDIN=",
	)
	cmd := exec.Command(binary, "run", "--config", sellersConfig(t, w))
	cmd.Dir, cmd.Env = dir, settings
	p := start(t, cmd, "http://127.0.0.1:"+ports[0])
	fund(t, w, p.url, "http://127.0.0.1:"+ports[1]).everywhere(t)

	status := run(t, runTime, settings, binary, "status", "--admin", admin)
	health, _ := get(t, http.DefaultClient, p.url+"/health")
	metrics, _ := get(t, http.DefaultClient, "http://127.0.0.1:"+ports[2]+"/metrics")
	requireVersion(t, status, health, metrics)
	p.stop(t)
}

// sellersConfig is the configuration that is shipped, with the sellers' names, which no resolver knows, and their
// authority.
func sellersConfig(t *testing.T, w *sandbox.World) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout(t), "xcaddy.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	const place = "purser_proxy {\n"
	before, after, found := strings.Cut(string(text), place)
	if !found {
		t.Fatalf("no %q in the configuration", place)
	}
	names := "trust " + w.CA() + "\n"
	for _, name := range []string{sandbox.SellerName, sandbox.SellerTLSName} {
		names += "resolve " + name + " " + sandbox.SellerIP + "\n"
	}
	path := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(path, []byte(before+place+names+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var free ports.Free

func freePorts(t *testing.T, n int) (texts []string) {
	t.Helper()
	found, err := free.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range found {
		texts = append(texts, strconv.Itoa(port))
	}
	return texts
}
