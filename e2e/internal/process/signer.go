package process

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

// StartSigner starts a node with accounts of its own, for signatures only, and returns its URL. Accounts that
// two tests have would pay on one chain for both.
func StartSigner(t testing.TB) string {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(Root(), "e2e", "signers", "node_modules", "@foundry-rs", "anvil-*", "bin", "anvil*"))
	if err != nil || len(programs) != 1 {
		needed.Missing(t, "one anvil, found %q, %v: run `make e2e-deps`", programs, err)
	}
	port := Port(t)
	cmd := exec.Command(programs[0], "--host", "127.0.0.1", "--port", port, "--chain-id", "8453", "--mnemonic-random")
	cmd.Env = Environment()
	node, _, err := Announced(cmd, func(line string) bool { return strings.HasPrefix(line, "Listening on ") })
	if err != nil {
		t.Fatal(err)
	}
	node.Cleanup(t)
	return "http://127.0.0.1:" + port
}
