package openapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

// The description passes Redocly's linter with its strict rules.
func TestLint(t *testing.T) {
	t.Parallel()
	node := needed.Program(t, "the linter runs in it", "node")
	cli := filepath.Join("node_modules", "@redocly", "cli", "bin", "cli.js")
	if _, err := os.Stat(cli); err != nil {
		t.Fatalf("the linter is missing, run `make e2e-deps`: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), node, cli, "lint", "--config", "redocly.yaml", filepath.Join("..", "..", "payapi", "openapi", "openapi.json"))
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
