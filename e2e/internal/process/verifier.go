package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

// Verifier returns a function that runs docs/dispute/verify.mjs of a repository, beside the packages that it needs.
func Verifier(t *testing.T, repository string) func(arguments ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	modules, err := filepath.Abs(filepath.Join(repository, "e2e", "peers", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	needed.File(t, "run `make e2e-deps`", filepath.Join(modules, "viem", "package.json"))
	program, err := os.ReadFile(filepath.Join(repository, "docs", "dispute", "verify.mjs")) //nolint:gosec // of the repository
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "verify.mjs"), program, 0o600)
	}
	if err == nil {
		err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(arguments ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, "verify.mjs")}, arguments...)...) //nolint:gosec // the test's own
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}
