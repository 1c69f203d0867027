package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// parallel is the number of tests that run at once: they wait for blocks, not for a processor, and the chain has room for as many.
const parallel = 12

// env holds the parts that all tests share: one chain, and one set of peers on it. Each test has
// its own payers, so that no test sees another's money.
var env *world

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := checkPeers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if env, err = startWorld(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "start the peers:", err)
		return 1
	}
	code := process.Main(m, parallel)
	if code != 0 && env.shared != nil {
		fmt.Fprintf(os.Stderr, "the shared purser said:\n%s\n", env.shared.Output.End())
	}
	if err := env.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the peers:", err)
		return 1
	}
	return code
}

// checkPeers says what to do when node or its packages are missing.
func checkPeers() error {
	if _, err := exec.LookPath("node"); err != nil {
		return fmt.Errorf("these tests need node 20 or newer: %w", err)
	}
	if _, err := os.Stat(filepath.Join("peers", "node_modules", "@x402", "express")); err != nil {
		return fmt.Errorf("the official packages are missing, run `make e2e-deps`: %w", err)
	}
	return nil
}
